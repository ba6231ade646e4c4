"""Progress: on a terminal, after a while, from public quantities; nothing anywhere else."""

import io
import re
import threading
import time
from contextlib import redirect_stderr
from types import SimpleNamespace

import numpy as np
import pytest

import privfit as pf
from privfit import _progress
from privfit.errors import InvalidArgument


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Return what makes standard error a terminal; pytest puts its own there after this has run."""
    shown = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(_progress, "_DELAY", 0.0)
    return shown


def slow_steps(monkeypatch, seconds=0.01):
    plain = _progress.step

    def step(*given, **named):
        plain(*given, **named)
        time.sleep(seconds)

    monkeypatch.setattr(_progress, "step", step)


def rows(n=500, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, x[:, 0] + rng.normal(size=n)


def fit(terminal, seed=0):
    solver = pf.solvers.NoisyGradientDescent(n_steps=20)
    with redirect_stderr(terminal):
        return pf.LinearRegression(solver=solver, inference=False).fit(*rows(seed=seed))


def test_a_fit_shows_passes_rows_a_second_and_time_left(terminal, monkeypatch):
    slow_steps(monkeypatch)
    plan = fit(terminal).result_.plan
    text = terminal.getvalue()
    assert re.search(rf"\d+ of {len(plan.releases)} passes, [\d,]+ rows/s", text)
    assert "fitting" in text
    assert re.search(r"\d:\d\d", text)
    assert not any(thread.name.startswith("Timer") and thread.is_alive() for thread in threading.enumerate())


def test_what_is_shown_holds_public_numbers_only(terminal, monkeypatch):
    slow_steps(monkeypatch)
    states, plain = [], _progress._Display._state

    def state(self):
        states[-1].append(plain(self))
        return states[-1][-1]

    monkeypatch.setattr(_progress._Display, "_state", state)
    monkeypatch.setattr(_progress._Display, "_update", lambda self: self._state())
    for seed in (0, 1):
        clock = SimpleNamespace(monotonic=iter(np.arange(0.0, 1e4)).__next__)
        monkeypatch.setattr(_progress, "time", clock)
        states.append([])
        fit(terminal, seed)
    assert states[0][-20:] == states[1][-20:]
    assert states[0][-1]["steps"] == "20 of 20 passes, 476 rows/s"  # 500 rows, 20 passes, 21 ticks


def test_a_pass_over_a_sample_reads_its_part_of_the_rows(monkeypatch):
    monkeypatch.setattr(_progress, "_DELAY", 60.0)
    display = _progress._Display("fitting", threading.get_ident())
    monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: display._since + 10.0))
    display._count, display._rows, display.kind = 3, 1000, "passes"
    for part in (0.25, 1.0):
        display.step(part, 1)
    assert display._state()["steps"] == "2 of 3 passes, 125 rows/s"
    display.close()


def test_an_audit_counts_runs(terminal, monkeypatch):
    slow_steps(monkeypatch, 0.001)
    with redirect_stderr(terminal):
        pf.audit(pf.solvers.NoisyGradientDescent(n_steps=2), trials=100, random_state=0)
    assert re.search(r"\d+ of 200 runs", terminal.getvalue())


def test_the_cursor_stays(terminal):
    """A process that is ended by a signal while a fit is shown could not bring it back."""
    with redirect_stderr(terminal), _progress.running("fitting"):
        _progress._shown._timer.join(timeout=10.0)
    assert "fitting" in terminal.getvalue()
    assert "\x1b[?25" not in terminal.getvalue()


def test_nothing_is_shown_before_the_delay(terminal, monkeypatch):
    monkeypatch.setattr(_progress, "_DELAY", 60.0)
    fit(terminal)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("wanted", [True, False])
def test_silence_elsewhere_and_where_it_is_wanted(terminal, monkeypatch, capfd, wanted):
    slow_steps(monkeypatch)
    pf.show_progress(wanted)
    try:
        fit(io.StringIO() if wanted else terminal)
        assert "passes" not in terminal.getvalue() + "".join(capfd.readouterr())
    finally:
        pf.show_progress(True)


def test_another_thread_and_an_inner_run_leave_the_display_alone(terminal):
    with redirect_stderr(terminal), _progress.running("outer"), _progress.running("inner"):
        _progress.expect("passes", 7)
        thread = threading.Thread(target=lambda: (_progress.expect("runs", 3), _progress.step("passes")))
        thread.start()
        thread.join()
        _progress.expect("runs", 3)
        _progress.step("runs")
        assert (_progress._shown.kind, _progress._shown._count, _progress._shown._done) == ("passes", 7, 0)
    assert _progress._shown is None
    assert not _progress._one.locked()


def test_a_failure_ends_the_display(terminal):
    def fail():
        time.sleep(0.05)
        raise ValueError("no")

    with redirect_stderr(terminal), pytest.raises(ValueError, match="no"), _progress.running("failing"):
        fail()
    assert _progress._shown is None
    before = len(terminal.getvalue())
    time.sleep(0.2)
    assert len(terminal.getvalue()) == before


def test_a_run_that_finds_no_thread_leaves_the_display_to_the_next(terminal, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(_progress.threading, "Timer", no_thread)
        with redirect_stderr(terminal), pytest.raises(RuntimeError), _progress.running("a"):
            pass
    with redirect_stderr(terminal), _progress.running("b"):
        assert _progress._shown is not None


def no_thread(*_):
    raise RuntimeError("can't start new thread")


def test_the_setting_is_checked():
    with pytest.raises(InvalidArgument, match="True or False"):
        pf.show_progress("no")
