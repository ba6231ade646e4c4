"""Threads of a pass over the rows."""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
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
"""Held by what limits BLAS: the number of its threads is one of the process."""

_SMALL = 256
"""Rows and columns of a matrix up to which BLAS and LAPACK are no faster with several threads."""


@cache
def _blas() -> ThreadpoolController:
    """Return this process's BLAS: to look for it takes longer than a pass."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def _limited(threads: int) -> Iterator[None]:
    """Let BLAS have so many threads. Of those that ask at a time the first does, and sets it back."""
    if not _one.acquire(blocking=False):
        yield
        return
    try:
        with _blas().limit(limits=threads):
            yield
    finally:
        _one.release()


def small_matrices(size: int) -> AbstractContextManager[None]:
    """Return a context in which BLAS has one thread, if matrices of this size gain nothing by more.

    Its other threads would wait for the next small matrix by spinning, and take the cores from passes.
    """
    return _limited(1) if size <= _SMALL else nullcontext()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # threads do not survive a fork


def each_part(work: Callable[[int], None], parts: int) -> None:
    """Call ``work(k)`` for all ``k < parts``, on as many threads as a pass has; see `share`."""
    if parts > 1 and thread_count() > 1:
        share(work, parts, min(thread_count(), parts))
    else:
        for k in range(parts):
            work(k)


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

    with _limited(max(thread_count() // threads, 1)):  # all of these threads call it
        helpers = [_workers(threads - 1).submit(drain) for _ in range(threads - 1)]
        try:
            drain()
        finally:
            started = [helper for helper in helpers if not helper.cancel()]
            wait(started)
    for helper in started:
        helper.result()
