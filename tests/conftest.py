"""Property tests draw the same examples every time and are never timed."""

import importlib
import warnings
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")

SOURCE = Path(__file__).parents[1] / "src"


def pytest_configure(config):
    """Let processes compile cached functions from two ends, so that none waits for all of them."""
    number = int(getattr(config, "workerinput", {"workerid": "gw0"})["workerid"].removeprefix("gw"))
    if not hasattr(config, "workerinput"):
        return
    modules = sorted(SOURCE.glob("privfit/**/*.py"))
    compiled = [path for path in modules if "njit" in path.read_text(encoding="utf-8")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in compiled[:: -1 if number % 2 else 1]:
            importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))


@pytest.fixture
def few_rehearsals(monkeypatch):
    """Forecast by two rehearsals and search roughly, where a test is not of how good forecasts are."""
    from privfit.estimators.forecast import Rehearsal

    monkeypatch.setitem(Rehearsal.forecast.__kwdefaults__, "rehearsals", 2)
    monkeypatch.setattr("privfit.estimators.sample_size._SEARCH_REHEARSALS", 2)
    monkeypatch.setattr("privfit.estimators.sample_size._TOLERANCE", 0.2)
