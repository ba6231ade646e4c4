"""Threads of a pass over the rows."""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_workers.cache_clear)  # threads do not survive a fork


def share(work: Callable[[int], None], parts: int, threads: int) -> None:
    """Call ``work(k)`` for all ``k < parts``, on this thread and ``threads - 1`` others.

    Which thread takes which part is left to chance. This thread does not need the others: if they are busy
    it does all parts itself. The first error stops the work and is raised once no part is being worked on.
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

    helpers = [_workers(threads - 1).submit(drain) for _ in range(threads - 1)]
    try:
        drain()
    finally:
        started = [helper for helper in helpers if not helper.cancel()]
        wait(started)
    for helper in started:
        helper.result()
