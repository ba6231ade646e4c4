"""Ask all of rows that lie next to memory that must not be read, and then read that: it ends a process.

    cd tests && python -m problem.guarded_rows

Compiled loops read rows by address. A process for each side says so once all has been asked; this one says
what it ended with.
"""

import ctypes
import mmap
import os
import sys

import numpy as np

from privfit.data.blocks import Block, CodedBlock
from privfit.data.coded import CodedMatrix, Layout
from privfit.data.room import InMemory
from privfit.data.source import ArraySource
from privfit.losses import Logistic, Multinomial
from privfit.problem.clipped_kernels import clipped_gradient_kernel
from privfit.problem.place_kernels import places_kernel
from privfit.problem.query_kernels import query_kernel
from privfit.problem.steep import SteepRows, steepens

from .conftest import OF_EVERY_KIND, make_problem, serves
from .test_coded_rows import KINDS, point, responses

WIDTHS = (1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 33)
LENGTHS = (1, 3, 7, 8, 9, 33, 65)
BOUND = 2.0
OF_ONE_PREDICTOR = {"sizes", "residuals", "counts"}


class Guarded:
    """Copies arrays to where memory that must not be read begins right after them, or ends right before."""

    def __init__(self, side):
        self._side = side
        self._protect = ctypes.CDLL(None, use_errno=True).mprotect
        self._protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

    def __call__(self, values):
        page = mmap.PAGESIZE
        room = max(-(-values.nbytes // page), 1) * page
        memory = mmap.mmap(-1, room + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for guard in (start, start + page + room):
            if self._protect(guard, page, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        place = page if self._side == "before" else page + room - values.nbytes
        found = np.frombuffer(memory, values.dtype, values.size, place).reshape(values.shape)
        found[...] = values
        return found

    def read_beyond(self):
        """Read the nearest octet that must not be read."""
        values = self(np.ones(3))
        return ctypes.string_at(values.ctypes.data + (-1 if self._side == "before" else values.nbytes), 1)


def blocks(rng, guarded, loss, p, n):
    """Return rows of p columns written out, and by code in both types."""
    y, weight = guarded(responses(loss, rng, n)), guarded(rng.uniform(0.1, 1.0, n))
    yield Block(guarded(rng.normal(size=(n, p)) / p), y, weight)
    for levels in sorted({0, min(2, p - 1)}):
        layout = Layout(p, True, tuple(range(1, p - levels)), plain=int(levels > 0))
        codes = guarded(rng.integers(p - levels, p + 1, (n, layout.plain)).astype(np.uint8))
        for storage in ("float64", "float32"):
            numbers = guarded((rng.normal(size=(n, p - 1 - levels)) / p).astype(storage))
            yield CodedBlock(CodedMatrix(layout, numbers, codes), y, weight)


def ask_sums(rng, loss, block, p, n):
    source, problem = ArraySource.of_bounded(block, BOUND, InMemory()), make_problem(loss, p=p, n_rows=n)
    several = isinstance(loss, Multinomial)
    for kind in KINDS:
        if kind not in OF_ONE_PREDICTOR if several else serves(loss, kind):
            source.sum(query_kernel(problem, kind, point(problem, rng, kind)), problem.sum_length(kind))
    if loss.compiled and not several:
        source.sum(clipped_gradient_kernel(loss, rng.normal(size=p), 0.3), problem.size)


def ask_bounds(rng, loss, block, p):
    """Find norms in coordinates that move columns, and in any others, and hold slopes of rows."""
    source, moving = ArraySource.of_bounded(block, BOUND, InMemory()), np.diag(rng.uniform(0.5, 2.0, p))
    moving[0] = 1.0
    slopes = SteepRows(0.6, rng.normal(size=p), 0.2).bounds(loss, 0.5) if steepens(loss) else None
    for basis in (moving, rng.normal(size=(p, p)) + 2.0 * np.eye(p)):
        source.reweighted(basis, norm_bound=1.1, amplification=2.0**60, slopes=slopes)


def ask_places(guarded, block, p):
    """Count the places of columns with 0, 1, 2 and 3 edges, of the response or not."""
    source = ArraySource.of_bounded(block, BOUND, InMemory())
    for columns in {max(p - 1, 1), p}:
        edges = [np.linspace(-0.3, 0.3, k % 4) for k in range(columns)]
        starts = guarded(np.cumsum([0, *(one.size for one in edges)]))
        source.sum(places_kernel(guarded(np.concatenate(edges)), starts), int(starts[-1]) + columns)


def losses(place):
    """Return two losses whose loops read rows, and one of those that read but their responses otherwise."""
    others = [loss for loss in OF_EVERY_KIND if not isinstance(loss, Logistic)]
    return Logistic(), Multinomial(3), others[place % len(others)]


def say(text):
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def ask_all(side):
    rng, guarded = np.random.default_rng(0), Guarded(side)
    for i, p in enumerate(WIDTHS):
        for j, n in enumerate(LENGTHS):
            for loss in losses(i + j):
                for block in blocks(rng, guarded, loss, p, n):
                    ask_sums(rng, loss, block, p, n)
                    if isinstance(loss, Logistic):
                        ask_bounds(rng, loss, block, p)
                        ask_places(guarded, block, p)
    say(f"within {side}")
    guarded.read_beyond()


def main():
    for side in ("before", "after"):
        child = os.fork()
        if child == 0:
            try:
                ask_all(side)
            finally:
                os._exit(1)
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
