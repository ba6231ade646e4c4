"""How far a long run is: shown on a terminal after two seconds, from public quantities alone."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from privfit.errors import InvalidArgument

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

_DELAY = 2.0
"""Seconds that a run may take in silence."""

_wanted = True
_one = threading.Lock()
"""Held by the run that is shown: two on one terminal would overwrite each other."""

_shown: "_Display | None" = None


def show_progress(wanted: bool) -> None:
    """Say whether runs of more than two seconds show how far they are, as they do by default.

    They do so on standard error, if that is a terminal, and never elsewhere.

    Parameters
    ----------
    wanted : bool
        False for silence.

    Notes
    -----
    *Guarantee.* What is shown follows from the plan, the public number of rows and the clock. Time itself is
    not protected: who must not learn how long a run takes must not watch it.

    Examples
    --------
    >>> import privfit as pf
    >>> pf.show_progress(False)
    >>> pf.show_progress(True)
    """
    global _wanted  # noqa: PLW0603 -- a setting of the process
    if not isinstance(wanted, bool):
        raise InvalidArgument("wanted must be True or False")
    _wanted = wanted


@contextmanager
def running(what: str) -> Iterator[None]:
    """Show, once it takes long, that something public is being done; inside another run, leave that shown."""
    global _shown  # noqa: PLW0603 -- a terminal is one
    if not (_wanted and sys.stderr.isatty() and _one.acquire(blocking=False)):
        yield
        return
    try:
        display = _shown = _Display(what, threading.get_ident())
        try:
            yield
        finally:
            _shown = None
            display.close()
    finally:
        _one.release()


def expect(kind: str, count: int, *, rows: int | None = None) -> None:
    """Say of how many steps the run consists, and how many rows each reads. The first to say so counts."""
    display = _of_this_thread()
    if display is not None and display.kind is None:
        display.expect(kind, count, rows)


def step(kind: str, part: float = 1.0, *, count: int = 1) -> None:
    """Say that a step is done, or several together, and has read a part of the rows."""
    display = _of_this_thread()
    if display is not None and display.kind == kind:
        display.step(part, count)


def _of_this_thread() -> "_Display | None":
    display = _shown
    return display if display is not None and display.thread == threading.get_ident() else None


class _Display:
    """What is shown of a run: nothing before the delay is over."""

    def __init__(self, what: str, thread: int) -> None:
        self.thread, self.kind = thread, None
        self._what, self._count, self._rows, self._done, self._read = what, None, None, 0, 0.0
        self._since = time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(_DELAY, self._open)
        self._timer.daemon = True
        self._timer.start()

    def expect(self, kind: str, count: int, rows: int | None) -> None:
        self.kind, self._count, self._rows = kind, count, rows
        self._since = time.monotonic()
        self._update()

    def step(self, part: float, count: int) -> None:
        self._done += count
        self._read += part
        self._update()

    def close(self) -> None:
        with self._lock:
            self._timer.cancel()
            if self._bar is not None:
                self._bar[0].stop()
            self._bar = None
            self._what = ""

    def _open(self) -> None:
        # For long runs on a terminal only.
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[steps]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
        )
        with self._lock:
            if not self._what:  # closed meanwhile
                return
            bar = Progress(*columns, console=_terminal(), transient=True)
            self._bar = bar, bar.add_task(self._what, **self._state())
            bar.start()

    def _update(self) -> None:
        with self._lock:
            if self._bar is not None:
                bar, task = self._bar
                bar.update(task, **self._state())

    def _state(self) -> dict[str, Any]:
        if self._count is None:
            return {"total": None, "steps": ""}
        steps = f"{self._done} of {self._count} {self.kind}"
        seconds = time.monotonic() - self._since
        if self._rows is not None and self._done and seconds > 0.0:
            steps += f", {self._rows * self._read / seconds:,.0f} rows/s"
        return {"total": self._count, "completed": self._done, "steps": steps}


def _terminal() -> "Console":
    """Return standard error with a cursor that stays: a signal that ends the run would leave it hidden."""
    from rich.console import Console  # noqa: PLC0415 -- for long runs on a terminal only

    class WithCursor(Console):
        def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002
            return False

    return WithCursor(stderr=True)
