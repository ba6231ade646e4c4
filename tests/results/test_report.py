"""The plot of a fit and its report: what they show, and that names are names."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from handmade_result import make_result
from matplotlib.backends.backend_agg import FigureCanvasAgg

from privfit.errors import Incompatible, InvalidArgument
from privfit.results.glyphs import drawable

NAMES = ("$a$b^{", "--><b>", "c" * 60, "d", "e")


def lines(figure, label):
    """Return the segments with a label, by place, and the ends of each."""
    (found,) = [one for one in figure.axes[0].collections if one.get_label() == label]
    return {segment[0, 1]: tuple(segment[:, 0]) for segment in found.get_segments()}


def test_the_plot_shows_intervals_and_what_of_them_is_noise(result):
    figure = result.plot(0.9)
    whole, sampling = lines(figure, "privacy noise"), lines(figure, "sampling")
    ends, share = result.conf_int(0.9).to_numpy(), result.noise_share.to_numpy()
    assert list(whole) == list(sampling) == [0, 1, 2, 4]
    for place, (low, high) in whole.items():
        np.testing.assert_allclose((low, high), ends[int(place)])
        inner = sampling[place][1] - sampling[place][0]
        np.testing.assert_allclose(inner / (high - low), np.sqrt(1.0 - share[int(place)]))
    (text,) = figure.axes[0].texts
    assert (text.get_text(), text.xy[1]) == ("no finite interval", 3)
    assert [tick.get_text() for tick in figure.axes[0].get_yticklabels()] == list(result.names)
    with pytest.raises(InvalidArgument, match="level"):
        result.plot(0.05)


def test_a_fit_without_standard_errors_is_drawn_as_points(estimate_only):
    axes = estimate_only.plot().axes[0]
    assert not axes.collections
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), estimate_only.estimate)


def test_the_plot_of_a_result_without_privacy_says_so(seeded, noiseless):
    for one in (seeded, noiseless):
        assert one.plot().axes[0].get_title().startswith("NOT PRIVATE")


@pytest.mark.parametrize("kind", ["result", "seeded", "noiseless", "estimate_only"])
def test_the_report_holds_summary_plot_and_releases(request, kind, tmp_path):
    fit, path = request.getfixturevalue(kind), tmp_path / "report.html"
    fit.report(path, 0.9)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert fit.summary(0.9).as_html() in text
    assert text.count("<svg") == 1
    for cell in ("gradient", "Hessian", "0.002000", "μ = 0.1000"):
        assert f"<td>{cell}</td>" in text
    fit.report(path, 0.9)
    assert path.read_text(encoding="utf-8") == text


def test_names_are_neither_formulas_nor_markup(tmp_path):
    result = make_result(names=NAMES)
    result.plot().savefig(tmp_path / "plot.png")
    result.report(tmp_path / "report.html")
    assert "<b>" not in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_long_title_stays_on_the_figure():
    target = "yearly income of the household in thousands, before taxes and transfers"
    figure = make_result(
        target=target, names=tuple(f"a long name of a column {k}" * 3 for k in range(5))
    ).plot()
    FigureCanvasAgg(figure).draw()  # lays it out
    title = figure.axes[0].title.get_window_extent()
    assert 0 <= title.x0 <= title.x1 <= figure.bbox.x1
    assert figure.axes[0].get_title().replace("\n", " ") == f"Logistic regression of {target}"


FOREIGN = ("北京", "Größe[T.größer]", "الرياض", "x[T.\U0001f600]", "e\u0301 à")


def test_what_the_font_lacks_is_escaped_without_a_warning(tmp_path):
    """Warnings are errors here, and Matplotlib has one for each glyph that is missing."""
    result = make_result(names=FOREIGN, target="収入")
    figure = result.plot()
    figure.savefig(tmp_path / "plot.png")
    result.report(tmp_path / "report.html")
    shown = [tick.get_text() for tick in figure.axes[0].get_yticklabels()]
    assert shown[0] == r"\u5317\u4eac"
    assert shown[1] == FOREIGN[1]
    assert shown[3].startswith("x[T.")
    assert figure.axes[0].get_title() == r"Logistic regression of \u53ce\u5165"
    assert "北京" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_fonts_are_asked_in_the_order_of_matplotlib():
    """A family that is not installed is passed over, and another may have what the first lacks."""
    assert drawable("−√") == "−√"
    with matplotlib.rc_context({"font.family": ["no such family", "cmr10"]}):
        assert drawable("−√") == r"\u2212\u221a"
    with matplotlib.rc_context({"font.family": ["no such family", "cmr10", "DejaVu Sans"]}):
        assert drawable("−√") == "−√"


def test_a_pure_budget_is_told_in_epsilon(result, tmp_path):
    first, second = result.releases
    pure = replace(first, planned=replace(first.planned, epsilon=0.5, mu=np.inf))
    replace(result, releases=(pure, pure, second)).report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<td>ε = 0.5000</td><td>2</td>" in text


def test_without_matplotlib_a_plot_says_what_it_needs_and_a_report_has_none(result, tmp_path, monkeypatch):
    monkeypatch.setattr("privfit.results.coefficient_plot.find_spec", lambda name: None)
    with pytest.raises(Incompatible, match="pip install matplotlib"):
        result.plot()
    result.report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<svg" not in text
    assert "What was released" in text


def test_a_report_that_cannot_be_written_is_refused(result, tmp_path):
    with pytest.raises(InvalidArgument):
        result.report(tmp_path / "none" / "report.html")
