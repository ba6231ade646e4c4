"""Threads of a pass over the rows."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


def thread_count() -> int:
    """Return the threads of a pass: ``NUMBA_NUM_THREADS``, ``OMP_NUM_THREADS``, else the usable cores."""
    for variable in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        value = os.environ.get(variable, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _workers(count: int) -> ThreadPoolExecutor:
    """Return this process's waiting threads: to start them anew for a pass would take longer than a part."""
    return ThreadPoolExecutor(count, thread_name_prefix="privfit")


_one = threading.Lock()
"""Held by the pass that limits BLAS: the number of its threads is one of the process."""


@cache
def _blas() -> ThreadpoolController:
    """Return this process's BLAS: to look for it takes longer than a pass."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def _beside(threads: int) -> Iterator[None]:
    """Leave BLAS only the cores that so many threads, which all call it, do not take.

    Of passes at a time the first does so, and sets back what it found.
    """
    if not _one.acquire(blocking=False):
        yield
        return
    try:
        with _blas().limit(limits=max(thread_count() // threads, 1)):
            yield
    finally:
        _one.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # threads do not survive a fork


def share(work: Callable[[int], None], parts: int, threads: int) -> None:
    """Call ``work(k)`` for all ``k < parts``, on this thread and ``threads - 1`` others.

    Which thread takes which part is left to chance. This thread does not need the others: if they are busy
    it does all parts itself. The first error stops the work and is raised once no part is being worked on.
    BLAS, called by all, takes no threads of its own beyond the usable cores.
    """
    todo = deque(range(parts))

    def drain() -> None:
        try:
            while todo:
                try:
                    k = todo.popleft()
                except IndexError:  # another thread took the last one
                    return
                work(k)
        except BaseException:
            todo.clear()
            raise

    with _beside(threads):
        helpers = [_workers(threads - 1).submit(drain) for _ in range(threads - 1)]
        try:
            drain()
        finally:
            started = [helper for helper in helpers if not helper.cancel()]
            wait(started)
    for helper in started:
        helper.result()
