"""Releases that are the same whatever the rows are, so that any difference that is left is a leak."""

import numpy as np

from privfit.problem.oracle import Oracle
from privfit.problem.share_kernels import NORM_CLASSES

AT_THE_DOOR = {"draw", "walk"}
"""Outcomes that are drawn, or whose noise the procedure itself adds to lattice values, step by step: they are
replaced as they leave the procedure. All others are masked where noise is added."""


class Masking:
    """A source of noise that answers with numbers that have nothing to do with what it is given.

    It stands in for noise so large that the rows are gone from every release. The k-th call of a kind gives
    the same numbers in every fit.
    """

    private = True
    label = "OpenDP, operating system's entropy"

    def __init__(self):
        self.calls = 0

    def _next(self):
        self.calls += 1
        return np.random.default_rng(self.calls)

    def gaussian(self, value, sd):
        return sd * self._next().normal(size=value.size)

    def radial(self, value, scale):
        return scale * self._next().normal(size=value.size)

    def laplace(self, value, scale):
        return scale * self._next().laplace(size=value.size)

    def uniform(self, size):
        return self._next().random(size)

    def integers(self, high, size):
        return self._next().integers(high, size=size)

    def select(self, scores, scale):
        return int(self._next().integers(scores.size))


class Showing(Masking):
    """The same, where shares of rows in classes of norms, counts or exposures are always some."""

    def _shown(self, size):
        shares = np.zeros(size)
        shares[[25, 33]] = 0.7, 0.3
        return shares

    def gaussian(self, value, sd):
        return self._shown(value.size) if value.size == NORM_CLASSES else super().gaussian(value, sd)

    def laplace(self, value, scale):
        return self._shown(value.size) if value.size == NORM_CLASSES else super().laplace(value, scale)


def mask(monkeypatch, source=Masking):
    """Make every fit use the masking source, and hide outcomes that are drawn."""
    record = Oracle._record

    def hidden(oracle, planned, at, value):
        if planned.kind in AT_THE_DOOR:
            rng = np.random.default_rng(len(oracle.released) + 1000)
            value = 0.1 * rng.normal(size=np.shape(value))
        return record(oracle, planned, at, value)

    monkeypatch.setattr("privfit.estimators.options.make_source", lambda _: source())
    monkeypatch.setattr(Oracle, "_record", hidden)
