"""The exact, secret sum of a query over the privacy units of a table."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from privfit._checks import FloatArray
from privfit.data.blocks import TravellingKernel, UnitKernel
from privfit.data.source import RowSource
from privfit.problem.kernels import second_moment_kernel
from privfit.problem.objective import Problem
from privfit.problem.plan import ReleaseKind
from privfit.problem.query_kernels import matrices_kernel, query_kernel, score_terms, share_rows

Total = Callable[[RowSource], FloatArray]

HESSIAN_AND_MEAT: tuple[ReleaseKind, ReleaseKind] = ("hessian", "meat")
"""What `matrices_total` sums, in its order."""


def query_total(problem: Problem, kind: ReleaseKind, at: FloatArray) -> Total:
    """Return what computes the flat sum of a query, shape (`Problem.sum_length`,), from a source.

    Parameters
    ----------
    problem : Problem
    kind : str
        Of a query, see `Problem.query`.
    at : array of shape (size,), or (2 * size,) for a secant

    Raises
    ------
    PlanViolation
        If the query cannot be asked at this point.

    Notes
    -----
    The terms of all queries but one add up over the rows of a unit. The meat sums the outer products of the
    units' scores, each of which is the sum over the rows of that unit (Liang and Zeger 1986, *Longitudinal
    data analysis using generalized linear models*). It is the second moment of these scores, which are held
    to the bound of the query as rows are to theirs: so the rounding of the scores cannot matter.
    """
    length = problem.sum_length(kind)
    if kind != "meat" or problem.unit is None:
        kernel = TravellingKernel(query_kernel, problem, kind, at)
        return lambda source: source.sum(kernel, length)
    units = UnitKernel(
        partial(score_terms, problem, at),
        problem.size,
        math.sqrt(problem.query(kind).bound),
        partial(second_moment_kernel, None),
    )
    return lambda source: source.sum_units(units, length)


def matrices_total(problem: Problem, at: FloatArray) -> Callable[[RowSource], list[FloatArray]]:
    """Return what computes the flat sums of the Hessian and of the meat at ``at``, in one pass if it can.

    Each is the sum that `query_total` computes.

    Parameters
    ----------
    problem : Problem
    at : array of shape (size,)
    """
    if not share_rows(problem):
        each = [query_total(problem, kind, at) for kind in HESSIAN_AND_MEAT]
        return lambda source: [total(source) for total in each]
    kernel = TravellingKernel(matrices_kernel, problem, at)
    lengths = [problem.sum_length(kind) for kind in HESSIAN_AND_MEAT]
    return lambda source: np.split(source.sum(kernel, sum(lengths)), lengths[:1])
