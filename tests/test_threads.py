"""Parts of a pass are worked on once each, whatever the threads do."""

import os
import threading
from contextlib import nullcontext

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from privfit._threads import share, small_matrices
from privfit.data.reduction import each_stretch


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_part_is_worked_on_once(threads):
    done = []
    share(done.append, 40, threads)
    assert sorted(done) == list(range(40))


@pytest.mark.parametrize("parts", [1, 2, 30])
def test_an_error_is_raised_and_stops_the_work(parts):
    def work(k):
        raise ValueError(k)

    with pytest.raises(ValueError, match=r"^[01]$"):
        share(work, parts, 2)


def test_an_error_on_another_thread_is_raised():
    here, failed = threading.current_thread(), threading.Event()

    def work(_):
        if threading.current_thread() is here:
            assert failed.wait(30)
        else:
            failed.set()
            raise KeyError

    with pytest.raises(KeyError):
        share(work, 4, 2)


def test_a_pass_inside_another_and_passes_at_the_same_time_end():
    done = []
    share(lambda k: share(lambda j: done.append((k, j)), 3, 3), 10, 3)
    assert sorted(done) == [(k, j) for k in range(10) for j in range(3)]


@pytest.mark.parametrize("fails", [False, True])
def test_blas_leaves_the_cores_to_the_threads_of_a_pass_and_has_them_again_afterwards(monkeypatch, fails):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    started, ended, inside = threading.Event(), threading.Event(), []

    def overlapping(_):
        started.set()
        assert ended.wait(30)

    other = threading.Thread(target=share, args=(overlapping, 1, 2))

    def work(_):
        inside.append(blas_threads())
        share(lambda _: inside.append(blas_threads()), 1, 2)
        other.start()
        assert started.wait(30)
        if fails:
            raise KeyError

    with threadpool_limits(limits=3, user_api="blas"):
        with pytest.raises(KeyError) if fails else nullcontext():
            share(work, 1, 2)
        assert inside == [{1}, {1}]
        assert blas_threads() == {3}
        ended.set()
        other.join()
        assert blas_threads() == {3}


@pytest.mark.parametrize(("size", "left"), [(1, 1), (256, 1), (257, 3)])
def test_beside_small_matrices_blas_has_one_thread_and_its_own_again_afterwards(size, left):
    with threadpool_limits(limits=3, user_api="blas"):
        with small_matrices(size):
            assert blas_threads() == {left}
        assert blas_threads() == {3}
        with pytest.raises(KeyError), small_matrices(size):
            raise KeyError
        assert blas_threads() == {3}


def test_passes_beside_small_matrices_leave_blas_one_thread():
    inside = []
    with threadpool_limits(limits=3, user_api="blas"):
        with small_matrices(10):
            share(lambda _: inside.append(blas_threads()), 1, 2)
            inside.append(blas_threads())
        assert blas_threads() == {3}
    assert inside == [{1}, {1}]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_threads_are_started_anew_after_a_fork():
    meeting = threading.Barrier(2, timeout=30)
    share(lambda _: meeting.wait(), 2, 2)  # both threads exist
    child = os.fork()
    if child == 0:
        status = 1
        try:
            meeting = threading.Barrier(2, timeout=30)
            share(lambda _: meeting.wait(), 2, 2)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("n_rows", [0, 1, 4096, 300_000])
def test_every_chunk_is_worked_on_once_and_none_warns(monkeypatch, threads, n_rows):
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    times = np.zeros(n_rows)

    def work(rows):
        times[rows] += 1.0
        assert np.isnan(np.log(-times[rows])).all()  # a warning is an error in tests

    each_stretch(work, n_rows)
    assert (times == 1.0).all()
