"""Warnings are withheld while code from outside works on rows: what it warns of may depend on them."""

import warnings
from contextlib import ExitStack
from threading import Lock
from typing import final


@final
class Silence:
    """A context in which nothing is warned of, for as long as any thread is in it.

    Filters of warnings are those of the whole process: where each thread put back the ones that it found, the
    first to leave would let the others speak, and the last would leave the process silent.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._filters = Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._filters.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.close()


silence = Silence()
"""The one of this process."""
