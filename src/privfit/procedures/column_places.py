"""Shares of rows by place, of all columns in one release."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from privfit._checks import FloatArray, IntArray
from privfit.data.blocks import TravellingKernel
from privfit.errors import PlanViolation
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoiseSource
from privfit.problem.objective import Problem
from privfit.problem.perturb import perturb_vector
from privfit.problem.place_kernels import places_kernel
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.queries import mean_sensitivity
from privfit.problem.rows import Rows
from privfit.problem.schedule import planned_noise


@final
@dataclass(frozen=True, eq=False)
class ColumnPlaces(AbstractProcedure):
    """Shares of rows by the place of each of their numbers among the edges of its column, with noise.

    Parameters
    ----------
    edges : tuple of arrays
        Of each column after the constant one and, if it is asked for, of the response last, in increasing
        order. Only how many there are enters the plan: they may follow from earlier releases.
    allowance : Allowance
        What the release costs.

    Notes
    -----
    *Guarantee.* A row is in one place of each of the d columns, with the same share of at most 1; so are the
    rows of a unit together. Its term has no negative entry, an L1 norm of at most d and an L2 norm of at most
    ``sqrt(d)``. Terms of two rows have no negative product, so that replacing one by the other changes the
    sum by at most ``sqrt(2 d)`` in L2 and ``2 d`` in L1 norm. Gaussian noise is calibrated to the former,
    the Laplace noise of a pure allowance to the latter, rounding included.
    """

    edges: tuple[FloatArray, ...]
    allowance: Allowance

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the planned release: a place more than it has edges for every column."""
        columns, size = len(self.edges), self._edges.size + len(self.edges)
        pure, relation = self.allowance.pure, problem.relation
        largest = float(columns) if pure else math.sqrt(columns)
        exact = relation.vector_sensitivity(largest) if pure else relation.outer_sensitivity(largest)
        sensitivity = mean_sensitivity(
            exact, largest=largest, n_rows=problem.n_rows, most_rows=problem.most_rows
        )
        return planned_noise("places", size, sensitivity, self.allowance)

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Count the rows and add the planned noise."""
        others = problem.n_coef - len(self.edges)  # the constant column, unless the response stands for it
        if others not in (0, 1) or not problem.has_intercept or problem.basis is not None:
            raise PlanViolation("places are asked for of all columns but a constant, and of the response")
        planned = self.planned(problem)
        kernel = TravellingKernel(places_kernel, self._edges, self._starts)
        mean = rows.sum(kernel, planned.size) / problem.n_rows
        return perturb_vector(mean, planned, noise)

    def parts(self, outcome: FloatArray) -> list[FloatArray]:
        """Return the shares of each column, from the outcome."""
        return np.split(outcome, self._starts[1:-1] + np.arange(1, len(self.edges)))

    @cached_property
    def _edges(self) -> FloatArray:
        return np.concatenate(self.edges)

    @cached_property
    def _starts(self) -> IntArray:
        return np.cumsum([0, *(one.size for one in self.edges)])
