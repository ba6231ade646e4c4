"""``privfit report`` and ``fit --report``."""

import gzip

import pytest


@pytest.fixture
def saved(invoke, people, schema, tmp_path):
    """Fit once; return the JSON file and what the fit printed."""
    path = tmp_path / "result.json"
    args = ["--schema", schema, "--model", "logit", "--epsilon", 20, "--out", path]
    fitted = invoke("fit", people, *args, "--report", tmp_path / "fit.html")
    assert fitted.exit_code == 0, fitted.output
    return path, fitted.stdout


def test_a_saved_result_is_shown_again_and_written_as_the_same_page(invoke, saved, tmp_path):
    path, printed = saved
    shown = invoke("report", path, "--out", tmp_path / "again.html")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout == printed
    page = (tmp_path / "again.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "What was released" in page
    assert "90% intervals" in invoke("report", path, "--level", 0.9).stdout


def test_what_is_no_result_is_refused(invoke, refused, saved, people, tmp_path):
    path, _ = saved
    refused(invoke("report", tmp_path / "none.json"), 1, "InvalidArgument: result must name a JSON file")
    refused(invoke("report", people), 1, "SchemaError: ")
    packed = tmp_path / "result.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    says = f"SchemaError: result {str(packed)!r} is not a text file in UTF-8"
    refused(invoke("report", packed), 1, says)
    refused(invoke("predict", packed, people), 1, says)
    refused(invoke("report", path, "--level", 95), 1, "InvalidArgument: level")
    refused(invoke("report", path, "--out", path), 1, "InvalidArgument: --out names a file that is read")
    refused(invoke("report", path, "--out", tmp_path / "no" / "page.html"), 1, "InvalidArgument: --out must")
    refused(invoke("report"), 2, "usage: ")
