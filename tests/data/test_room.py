"""Memory that arrays leave to others."""

import gc
import threading

import numpy as np
import pytest

from privfit.data.room import InMemory, Reused


def place(array):
    """Return where an array is in memory."""
    return array.__array_interface__["data"][0]


def test_memory_goes_to_the_next_array_of_about_its_length():
    room = Reused(1 << 20)
    array = room.new(1000)
    array[:] = 1.0
    first = place(array)
    del array
    for n_rows in (799, 1001):
        assert place(room.new(n_rows)) != first
    again = room.new(800)
    assert (place(again), again.shape, again.dtype) == (first, (800,), np.float64)
    again[:] = 2.0
    assert again.sum() == 1600.0


@pytest.mark.parametrize("part", [lambda a: a[5:6], lambda a: a[::2][1:], lambda a: a.reshape(2, -1).T[3]])
def test_it_does_not_while_a_part_is_in_use(part):
    room = Reused(1 << 20)
    array = room.new(100)
    first, held = place(array), part(array)
    held[:] = 7.0
    del array
    gc.collect()
    other = room.new(100)
    other[:] = 0.0
    assert place(other) != first
    assert (held == 7.0).all()
    del held
    assert place(room.new(100)) == first


def test_no_more_is_kept_than_is_allowed():
    room = Reused(8 * 250)
    arrays = [room.new(100) for _ in range(3)]
    first = [place(array) for array in arrays]
    del arrays
    kept = {id(memory) for memory in room._free}
    assert len(kept) == 2
    assert {place(memory) for memory in room._free} <= set(first)
    large = room.new(300)
    del large
    assert {id(memory) for memory in room._free} == kept


def test_nothing_is_kept_for_no_rows():
    for room in (Reused(100), InMemory()):
        assert room.new(0).shape == (0,)
        room.leave(slice(0))
    room = Reused(100)
    room.new(0)
    assert room._free == []


def test_threads_have_arrays_of_their_own():
    room, mixed = Reused(1 << 20), []

    def work(number):
        for _ in range(300):
            array = room.new(200)
            array[:] = number
            mixed.extend(array[array != number])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mixed == []
