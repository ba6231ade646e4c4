"""What a row adds to a sum does not depend on its place, nor on how many rows there are.

A slope with a kink turns the last bit of a predictor into its whole bound.
"""

from itertools import pairwise

import numpy as np
import pytest

from privfit.data.blocks import Block, CodedBlock, CodedKernel
from privfit.data.coded import CodedMatrix, Layout
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.shares import RowShares, ShareRule
from privfit.data.source import ArraySource
from privfit.losses import Hinge, Huber, Multinomial, Quantile
from privfit.privacy.relation import Relation
from privfit.problem.query_kernels import query_kernel
from privfit.problem.totals import query_total

from .conftest import asked, make_problem
from .test_coded_rows import LAYOUT, responses
from .test_neighbours import OF_ROWS, flat_mean

P = 8
STORAGES = ("written out", "float64", "float32", "codes")


def rows_of(storage, rng, n):
    """Return random rows of eight columns, the first of which is 1."""
    if storage == "codes":
        x = CodedMatrix.empty(LAYOUT, n)
        x.numbers[:] = rng.normal(size=(n, 3))
        x.codes[:, 0], x.codes[:, 1] = rng.integers(3, 6, n), rng.integers(6, 8, n)
        return x
    numbers = np.column_stack([np.ones(n), rng.normal(size=(n, P - 1))])
    if storage == "written out":
        return numbers
    return CodedMatrix.of_array(Layout(P, True, tuple(range(1, P))), numbers, storage)


def check_alone(problem, kind, at, x, *, rng, slack=0.0):
    """Check that the first row adds the same at every place, where no other row has a weight."""
    kernel, length = query_kernel(problem, kind, at), problem.sum_length(kind)
    y = responses(problem.loss, rng, 41)
    make = CodedBlock if isinstance(x, CodedMatrix) else Block
    by_code = isinstance(kernel, CodedKernel)

    def term(n, place):
        of = rng.permutation(np.arange(1, 41))[:n]
        of[place] = 0
        weight = np.zeros(n)
        weight[place] = 0.5
        out = np.zeros((1, length))
        block = make(x[of], y[of], weight)
        kernel(block if by_code else block.written_out(), out)
        return out[0]

    alone = term(1, 0)
    for n in range(1, 41):
        for place in {0, n // 2, n - 1}:
            gap = np.abs(term(n, place) - alone).max()
            assert gap <= slack, f"row {place} of {n}"


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("loss", "kind"), asked(*OF_ROWS))
def test_a_row_adds_the_same_wherever_it_is(loss, kind, storage, rng):
    problem = make_problem(loss, p=P)
    check_alone(problem, kind, point(problem, rng, kind), rows_of(storage, rng, 41), rng=rng)


@pytest.mark.parametrize("kind", ["gradient", "bounded_gradient", "secant"])
def test_a_row_of_several_classes_adds_the_same_wherever_it_is(kind, rng):
    """But for the rounding of its bounded term; predictors are what rounding left of large numbers."""
    problem, x = make_problem(Multinomial(4), p=P), rows_of("written out", rng, 41)
    points = 1e8 * rng.normal(size=(3, P))
    points -= np.outer(points @ x[0], x[0]) / (x[0] @ x[0])
    at = np.concatenate([points.ravel(), points.ravel() + 1e-7]) if kind == "secant" else points.ravel()
    check_alone(problem, kind, at, x, rng=rng, slack=2.0**-50)


def at_kinks(loss, at, rng):
    """Return rows whose predictors are at a kink but for rounding, and on either side of it."""
    found = []
    for _ in range(60):
        x = np.append(1.0, 0.4 * rng.normal(size=P - 1))
        if loss.target_kind == "binary":
            x[1:] *= (1.0 - at[0]) / (x[1:] @ at[1:])  # the predictor is 1 but for rounding
        if np.linalg.norm(x) < 1.5:
            near = x @ at - (loss.threshold if isinstance(loss, Huber) else 0.0)
            found += [
                (x, 1.0 if loss.target_kind == "binary" else y) for y in (near, np.nextafter(near, 9.0))
            ]
    return found


def largest_gap(answers):
    """Return the largest distance of any two."""
    return max(np.linalg.norm(one - other) for one in answers for other in answers)


KINKS = [
    pytest.param(loss, kind, id=f"{loss.name}-{kind}")
    for loss, kinds in (
        (Hinge(), ("gradient", "bounded_gradient", "meat", "sizes")),
        (Quantile(0.3), ("gradient", "bounded_gradient", "meat", "residuals")),
        (Huber(0.5), ("hessian",)),
    )
    for kind in kinds
]


def stored(x, storage):
    return (
        x if storage == "written out" else CodedMatrix.of_array(Layout(P, True, (*range(1, P),)), x, storage)
    )


@pytest.mark.parametrize("storage", ["written out", "float64"])
@pytest.mark.parametrize(("loss", "kind"), KINKS)
def test_one_row_more_or_less_moves_no_other_row_over_a_kink(loss, kind, storage, rng):
    problem = make_problem(loss, p=P, n_rows=41, relation=Relation.ADD_REMOVE)
    at, bound = rng.normal(size=P), problem.sensitivity(kind)
    kernel, length = query_kernel(problem, kind, at), problem.sum_length(kind)
    for x, y in at_kinks(loss, at, rng):
        sums = []
        for n in (*range(1, 41), CHUNK_ROWS, CHUNK_ROWS + 1):
            source = ArraySource(stored(np.tile(x, (n, 1)), storage), np.full(n, y), norm_bound=1.5)
            sums.append(flat_mean(problem, kind, source.sum(kernel, length)))
        gaps = [np.linalg.norm(one - other) for one, other in pairwise((*sums[:40],))]
        assert max(*gaps, np.linalg.norm(sums[-1] - sums[-2])) <= bound


@pytest.mark.parametrize(("loss", "kind"), KINKS)
def test_a_person_with_other_rows_moves_no_other_person_over_a_kink(loss, kind, rng):
    rule = ShareRule("id", 1)
    problem = make_problem(loss, p=P, n_rows=8, shares=rule)
    at, bound = rng.normal(size=P), problem.sensitivity(kind)
    for x, y in at_kinks(loss, at, rng):
        answers = []
        for more in range(1, 18):
            of = np.append(np.full(more, 7), np.arange(7))  # all others come after
            shares = RowShares(rule, np.ones(of.size), of, 8)
            source = ArraySource(np.tile(x, (of.size, 1)), np.full(of.size, y), norm_bound=1.5, shares=shares)
            answers.append(flat_mean(problem, kind, query_total(problem, kind, at)(source)))
        assert largest_gap(answers) <= bound


def point(problem, rng, kind):
    at = rng.normal(size=problem.size)
    if problem.loss.has_scale:
        at[-1] = 0.7
    return np.concatenate([at, at + np.pad([1e-9], (0, at.size - 1))]) if kind == "secant" else at
