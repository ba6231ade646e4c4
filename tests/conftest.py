"""Property tests draw the same examples every time and are never timed."""

import gc
import importlib
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Keep modules and tests, which stay, out of every search for garbage."""
    gc.disable()
    try:
        compile_once(session.config)
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def compile_once(config):
    """Let one process compile what is cached while others wait, instead of all of them compiling it."""
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    done = Path(tempfile.gettempdir()) / f"privfit-compiled-{worker['testrunuid']}"
    if worker["workerid"] == "gw0":
        config.add_cleanup(lambda: done.unlink(missing_ok=True))
        try:
            importlib.import_module("privfit.auditing")
        finally:
            done.touch()
    for _ in range(1200):
        if done.exists():
            return
        time.sleep(0.1)


@pytest.fixture
def few_rehearsals(monkeypatch):
    """Forecast by two rehearsals and search roughly, where a test is not of how good forecasts are."""
    monkeypatch.setattr("privfit.estimators.forecast.FEWEST_REHEARSALS", 2)
    monkeypatch.setattr("privfit.estimators.forecast.MOST_REHEARSALS", 2)
    monkeypatch.setattr("privfit.estimators.split.FEWEST_REHEARSALS", 2)
    monkeypatch.setattr("privfit.estimators.sample_size._SEARCH_REHEARSALS", 2)
    monkeypatch.setattr("privfit.estimators.sample_size._TOLERANCE", 0.2)
