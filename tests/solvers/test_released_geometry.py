"""Marginals, norms and second moments that are made by hand, and the coordinates that they lead to."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.linalg import sqrtm

from privfit.losses import ConcomitantHuber, Logistic, Multinomial, Poisson
from privfit.privacy.allowance import Allowance
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import NORM_CLASSES
from privfit.solvers.drawn import denoised
from privfit.solvers.geometry import (
    Frame,
    Marginals,
    farthest,
    planned_geometry,
    released_geometry,
    standardised,
    whitened,
)
from privfit.solvers.levels import level_coding, level_contrasts, level_shares
from privfit.solvers.response import MeanResponse
from privfit.solvers.shrinkage import shrunk

from .simulated import problem_for


def released(kind, value, sd):
    value = np.asarray(value, dtype=float)
    return Release(PlannedRelease(kind, value.size, 1.0, 1.0, sd), np.zeros(1), value)


def columns(p, loss=None, *, bound=2.0, **changes):
    problem = problem_for(loss or Logistic(), np.ones((100, p)), norm_bound=bound)
    return dataclasses.replace(problem, **changes)


MADE = [0.8, 0.4, -0.2, 0.32, 0.24, 0.4, 0.48, 1.28]
"""Means of three columns, their squares over a bound of 2, and twice those of the response."""


def test_marginals_are_those_of_rows_that_count():
    found = Marginals.of(columns(3), released("marginals", MADE, 0.0))
    np.testing.assert_allclose(found.mean, [1.0, 0.5, -0.25])
    np.testing.assert_allclose(found.variance, [0.0, 0.6 - 0.25, 1.0 - 0.0625], atol=1e-15)
    assert found.floor == pytest.approx(1e-6 * 4.0)
    assert found.noise == 0.0
    assert found.counting == 1.0
    assert found.response.mean == pytest.approx(0.5 + 0.5 * 0.3)
    assert found.response.spread == pytest.approx(0.5 * math.sqrt(0.8 - 0.3**2))
    beyond = Marginals.of(columns(3), released("marginals", [0.8, 1.7, -1.7, *MADE[3:]], 0.0))
    np.testing.assert_allclose(beyond.mean, [1.0, 2.0, -2.0])
    np.testing.assert_array_equal(beyond.variance[1:], 0.0)


def test_noise_in_marginals_is_that_of_rows_that_count():
    found = Marginals.of(columns(3), released("marginals", MADE, 0.02))
    assert found.noise == pytest.approx(0.025)
    assert found.floor == pytest.approx(2.0 * 0.02 * 2.0)
    assert found.response.error == pytest.approx(0.5 * 0.02 / 1.6)
    variance = np.full(2, 0.025**2)
    expected = shrunk(np.array([0.5, -0.25]), variance, energy=4.0).mean
    np.testing.assert_allclose(found.mean, [1.0, *expected])
    levels = Marginals.of(columns(3, indicators=(True, False, True)), released("marginals", MADE, 0.02))
    np.testing.assert_allclose(levels.mean[1], shrunk(np.array([0.5]), variance[:1], energy=4.0).mean[0])
    np.testing.assert_allclose(levels.mean[2], level_shares(np.array([-0.25]), 0.025)[0])
    both = Marginals.of(columns(3, indicators=(True,) * 3), released("marginals", MADE, 0.02))
    np.testing.assert_allclose(both.mean, [1.0, *level_shares(np.array([0.5, -0.25]), 0.025)])


@pytest.mark.parametrize(
    ("first", "sd", "usable", "hidden"),
    [
        (1.3, 0.02, 1.0, False),
        (0.0625, 0.02, 0.0625, False),
        (0.375, 0.125, 0.375, False),
        (0.05, 0.02, 0.06, True),
        (-0.1, 0.02, 0.06, True),
        (0.7, 0.4, 1.0, True),
        (1.1, 0.4, 1.0, False),
        (0.0, 0.0, 1e-12, True),
    ],
)
def test_rows_are_divided_by_their_mean_weight_three_deviations_at_least(first, sd, usable, hidden):
    problem = columns(1, Poisson(math.log(8.0), 8.0))
    found = Marginals.of(problem, released("marginals", [first, 0.1, 0.0, 0.0], sd))
    assert found.noise == pytest.approx(sd / usable)
    assert found.response.error == pytest.approx(4.0 if hidden else 4.0 * sd / (2.0 * usable))


def test_rows_of_next_to_no_weight_are_not_divided_by_nothing():
    found = Marginals.of(columns(2), released("marginals", [0.0, 1e-13, 0.0, 0.0, 0.0, 0.0], 0.0))
    np.testing.assert_allclose(found.mean, [0.0, 0.1])


def test_without_a_constant_columns_are_not_centred():
    problem = columns(3, penalised=(True,) * 3, indicators=(False, True, True), factors=((1, 2),))
    found = Marginals.of(problem, released("marginals", MADE, 0.02))
    np.testing.assert_allclose(found.mean, MADE[:3])
    np.testing.assert_allclose(found.variance, 2.0 * np.array(MADE[3:6]))
    assert found.noise == 0.02
    expected = np.diag(1.0 / np.sqrt(2.0 * np.array(MADE[3:6]) + 0.08))
    np.testing.assert_allclose(found.standardising(problem), expected)
    np.testing.assert_allclose(found.level_coding(problem), expected)


def marginals_of(mean, variance, *, floor=0.04, noise=0.02, response=None):
    return Marginals(np.array(mean), np.array(variance), floor, noise, response)


FACTOR = {"indicators": (True, False, True, True), "factors": ((2, 3),)}


def test_columns_are_centred_and_divided_by_their_deviation():
    marginals = marginals_of([1.0, 0.5, 0.3, 0.2], [0.0, 0.32, 0.21, 0.16])
    one, two, three = 1.0 / 0.6, 1.0 / 0.5, 1.0 / math.sqrt(0.2)
    expected = np.diag([1e-3, one, two, three])
    expected[0, 1:] = -0.5 * one, -0.3 * two, -0.2 * three
    np.testing.assert_allclose(marginals.standardising(columns(4, **FACTOR)), expected)
    coded = level_coding(np.array([0.3, 0.2]), 0.04 * math.sqrt(2.0 / 2.0))
    expected[2:, 2:] = coded
    expected[0, 2:] = -np.array([0.3, 0.2]) @ coded
    np.testing.assert_allclose(marginals.level_coding(columns(4, **FACTOR)), expected)
    three_levels = columns(4, indicators=(True,) * 4, factors=((1, 2, 3),))
    coded = level_coding(np.array([0.5, 0.3, 0.2]), 0.04 * math.sqrt(2.0 / 3.0))
    np.testing.assert_allclose(marginals.level_coding(three_levels)[1:, 1:], coded)
    alike = np.zeros((4, 4))
    alike[0, 0], alike[1, 1], alike[2:, 2:] = 2.0, one, level_contrasts(2)
    np.testing.assert_allclose(marginals.alike(columns(4, **FACTOR)), alike)


def test_half_of_what_shares_say_is_sure():
    marginals = marginals_of([1.0, 0.5, 0.9, 0.001], [0.0, 0.3, 0.1, 0.1])
    found = marginals.of_indicators(columns(4, **FACTOR))
    np.testing.assert_allclose(found[1:], [0.0, 0.5 * 0.1 * 0.9, 0.5 * 0.02 * 0.98])
    even = marginals_of([1.0, 0.5, 0.5, 0.4], [0.0, 0.3, 0.1, 0.1]).of_indicators(columns(4, **FACTOR))
    np.testing.assert_allclose(even[2:], [0.125, 0.12])


def test_steps_start_at_the_constant_of_every_class_and_at_a_scale():
    def response(problem, **facts):
        return MeanResponse(problem, mean=0.25, error=0.0, **facts)

    logit = columns(3)
    found = marginals_of(np.zeros(3), np.zeros(3), response=response(logit, spread=0.4)).start(logit)
    np.testing.assert_allclose(found, [math.log(1.0 / 3.0), 0.0, 0.0])
    scaled = columns(3, ConcomitantHuber(), response_bound=1.0)
    for spread, scale in ((0.4, 0.4), (1e-4, 1e-3)):
        marginals = marginals_of(np.zeros(3), np.zeros(3), response=response(scaled, spread=spread))
        np.testing.assert_allclose(marginals.start(scaled), [0.25, 0.0, 0.0, scale])
    bare = columns(3, penalised=(True,) * 3)
    marginals = marginals_of(np.zeros(3), np.zeros(3), response=response(bare, spread=0.4))
    np.testing.assert_array_equal(marginals.start(bare), 0.0)
    classes = columns(2, Multinomial(3), start=(0.0,) * 4)
    of_classes = Marginals.of(classes, released("marginals", [1.0, 0.0, 0.5, 0.1, 1.0, 0.6, 0.4], 0.0))
    start = of_classes.start(classes).reshape(2, 2)
    np.testing.assert_array_equal(start[:, 1], 0.0)
    np.testing.assert_allclose(start[:, 0], of_classes.response.constant())
    assert np.abs(start[:, 0]).min() > 0.0


def test_the_coefficients_of_a_constant():
    basis = np.array([[0.5, -1.0], [0.0, 2.0]])
    frame = Frame(basis, np.zeros(2), 2.0, np.eye(2), 2.0)
    np.testing.assert_allclose(basis @ frame.constant(3.0), [3.0, 0.0], atol=1e-15)


def whitened_by(problem, standard, moment, sd, *, mean, size=1.5, counting=0.75):
    marginals = dataclasses.replace(marginals_of(mean, np.ones(len(mean))), counting=counting)
    return Frame.of(problem, standard, released("second_moment", moment, sd), marginals=marginals, size=size)


@pytest.mark.parametrize("sd", [0.0, 0.01])
@pytest.mark.parametrize("constant", [True, False])
def test_a_second_moment_whitens_what_it_shows(constant, sd):
    """Rows that count are a share of 3/4, and weighted down at a squared norm of 1.5: twice the release."""
    rng = np.random.default_rng(3)
    half = rng.normal(size=(4, 4))
    released_moment, first = half @ half.T / 8.0, int(constant)
    problem = columns(4, penalised=(not constant, True, True, True))
    standard, mean = np.diag([1e-3 if constant else 0.7, 0.5, 2.0, 1.0]), np.array([1.0, 0.2, 0.1, -0.3])
    standard[0, first:] += 0.1 * constant
    frame = whitened_by(problem, standard, released_moment, sd, mean=mean)
    values, vectors = np.linalg.eigh(2.0 * released_moment[first:, first:])
    values = denoised(values, 2.0 * sd)
    added = max(2.0 * 2.0 * sd, 1e-8)
    inner, parts = (vectors * values) @ vectors.T, values / (values + added)
    root = np.real(sqrtm(np.linalg.inv(inner + added * np.eye(len(inner)))))
    expected = standard.copy()
    expected[:, first:] = standard[:, first:] @ root
    if constant:
        expected[0, 0] = 1.0
    np.testing.assert_allclose(frame.basis, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(frame.center, expected.T @ mean, rtol=1e-6, atol=1e-9)
    assert frame.dimension == pytest.approx(first + parts.sum())
    seen = np.eye(4)
    seen[first:, first:] = (vectors * np.sqrt(np.maximum(parts, 0.04))) @ vectors.T
    np.testing.assert_allclose(frame.seen, seen, atol=1e-9)


def test_directions_without_curvature_are_not_seen():
    frame = whitened_by(columns(3), np.eye(3), np.diag([1.0, 0.5, 0.0]), 0.02, mean=[1.0, 0.0, 0.0])
    values = denoised(np.array([0.0, 1.0]), 0.04)
    parts = values / (values + 0.08)
    assert parts.min() < 0.04
    assert parts.max() > 0.16
    np.testing.assert_allclose(np.sort(np.diag(frame.seen))[:2], [0.2, math.sqrt(parts.max())], rtol=1e-6)
    alone = whitened_by(columns(1, bound=1e6), np.eye(1), np.ones((1, 1)), 0.5, mean=[1.0])
    assert alone.dimension == 1.0
    assert alone.basis.tolist() == [[1.0]]
    bare = columns(2, penalised=(True, True))
    hidden = whitened_by(bare, np.eye(2), np.zeros((2, 2)), 0.5, mean=[0.0, 0.0])
    assert hidden.dimension == 1.0


@pytest.mark.parametrize("scale", [1.0, 50.0, 1e3, 1e5])
def test_what_is_added_grows_until_no_row_is_stretched_too_far(scale):
    """By factors of 4: rows of norm 2 may be at most 409.6 roots of the dimension."""
    problem = columns(3, penalised=(True,) * 3)
    frame = whitened_by(problem, scale * np.eye(3), np.diag([0.5, 0.5, 0.0]), 0.0, mean=np.zeros(3))
    added = 1e-8
    while 2.0 * scale / math.sqrt(added) > 0.1 * 4096.0 * math.sqrt(max(2.0 / (1.0 + added), 1.0)):
        added *= 4.0
    np.testing.assert_allclose(np.diag(frame.basis).max(), scale / math.sqrt(added))


def test_a_number_that_is_far_counts_by_its_bounds():
    problem = columns(3, indicators=(True, False, False))
    marginals = marginals_of([1.0, -0.5, 0.25], [0.0, 1.0, 1.0])
    assert farthest(problem, marginals, np.diag([9.0, 2.0, 3.0])) == pytest.approx(1.25 * 3.0)
    assert farthest(problem, marginals, np.diag([9.0, 3.0, 3.0])) == pytest.approx(1.5 * 3.0)


def test_coordinates_may_stretch_rows_by_so_much_and_no_more():
    basis = np.eye(3)
    for found, bound in ((standardised(columns(3), basis), 1.0), (whitened(columns(3), basis), 2.0**-8)):
        assert (found.norm_bound, found.amplification) == (bound, 4096.0 * bound)


def test_means_are_believed_within_the_bound_on_rows():
    made = [1.0, 0.5, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0]
    found = Marginals.of(columns(3, bound=0.5), released("marginals", made, 0.25))
    noisy, variance = np.array([0.5, -0.5]), np.full(2, 0.25**2)
    expected = shrunk(noisy, variance, energy=0.25).mean
    assert abs(expected - shrunk(noisy, variance, energy=0.125).mean).max() > 1e-3
    np.testing.assert_allclose(found.mean[1:], expected)


def test_three_releases_are_planned_each_with_its_part():
    problem = columns(3)
    parts = {"marginals": 0.5, "norms": 0.25, "second_moment": 0.75}
    amounts = (Allowance.gaussian(part) for part in parts.values())
    planned = planned_geometry(
        problem, **dict(zip(("for_marginals", "for_norms", "for_moment"), amounts, strict=True))
    )
    assert {one.kind: one.mu for one in planned} == parts
    by_kind = {one.kind: one for one in planned}
    assert by_kind["norms"].sensitivity == pytest.approx(math.sqrt(2.0) / 100, rel=1e-6)
    assert by_kind["second_moment"].sensitivity == pytest.approx(math.sqrt(2.0) / 100, rel=1e-6)


class Made:
    """An oracle that answers with releases that are made by hand, and keeps what it was told."""

    def __init__(self, problem, releases):
        self.releases, self.parts, self.rows, self.bases = {one.kind: one for one in releases}, [], [], []
        self.plan, self.problem = dataclasses.make_dataclass("Plan", ["releases"])(()), problem

    def release(self, kind, at):
        np.testing.assert_array_equal(at, self.problem.start)
        return self.releases[kind]

    def change_basis(self, problem):
        self.bases.append(problem)

    def change_rows(self, n_rows):
        self.rows.append(n_rows)

    def sample(self, part):
        self.parts.append(part)


def geometry(problem, marginals, norms, *, sd=0.0, norms_sd=1e-6, moment_sd=0.01, **how):
    """Return what three releases lead to, where norms are shares by class, and the oracle."""
    shares = [norms.get(number, 0.0) for number in range(NORM_CLASSES)]
    moment = released("second_moment", np.diag([1.0, *[0.5] * (problem.n_coef - 1)]), moment_sd)
    moment = dataclasses.replace(moment, planned=dataclasses.replace(moment.planned, kind="second_moment"))
    oracle = Made(problem, [])
    oracle.releases = {
        "marginals": released("marginals", marginals, sd),
        "norms": released("norms", shares, norms_sd),
        "second_moment": moment,
    }
    oracle.plan.releases = tuple(one.planned for one in oracle.releases.values())
    return released_geometry(problem, oracle, **how), oracle


def limit_of(norms, *, allowed=0.0, part=1.0, p=3, **noise):
    """Return the squared norm at which rows are weighted down in the second moment."""
    problem = columns(p, bound=8.0)
    made = [1.0, *[0.0] * (p - 1), *[0.4] * p, 0.0, 0.5]
    (_, marginals, _), oracle = geometry(
        problem, made, norms, moment_noise=allowed, part_of=lambda _: part, **noise
    )
    standard, of_norms, of_moment = marginals.standardising(problem), *oracle.bases
    np.testing.assert_allclose(of_norms.basis, standard / math.sqrt(p))
    assert of_norms.norm_bound == 2.0**-8
    assert of_moment.norm_bound == 1.0
    assert oracle.parts == [part]
    return (standard[1, 1] / of_moment.basis[1, 1]) ** 2


def test_rows_are_weighted_down_beyond_what_most_of_them_keep_within():
    """Norms are a 256th of the root of the number of columns at the edge of the first class."""
    unit = 3.0 * 2.0**-16
    seen = {26: 0.5, 28: 0.3, 30: 0.2}
    assert limit_of(seen) == pytest.approx(unit * 2.0 ** (2.0 * (14.0 + 6.0 / 8.0) / 2.0))
    assert limit_of({26: 0.6, 28: 0.2, 30: 0.2}) == pytest.approx(unit * 2.0 ** (14.0 + 4.0 / 8.0))
    assert limit_of({2: 1.0}) == pytest.approx(0.05 * 3.0)
    assert limit_of(dict.fromkeys(range(NORM_CLASSES), 1e-7)) == pytest.approx(3.0)


def test_longer_rows_count_in_full_where_noise_allows_that():
    """What noise there is has the spectral norm of a root of twice the columns, per part of the rows."""
    unit, seen = 3.0 * 2.0**-16, {26: 0.9, 34: 0.1}
    most = unit * 2.0 ** (2.0 * 35.0 / 4.0)
    noise = 0.01 * math.sqrt(6.0)
    assert limit_of(seen, allowed=1e9) == pytest.approx(most)
    assert limit_of(seen, allowed=0.5 * most * noise) == pytest.approx(0.5 * most)
    assert limit_of(seen, allowed=0.5 * most * noise, part=0.5) == pytest.approx(0.25 * most)
    assert limit_of(seen, allowed=0.5, moment_sd=0.0) == pytest.approx(most)
    rare = limit_of({24: 0.98, 34: 0.02}, allowed=1e9, norms_sd=2e-3)
    assert rare == pytest.approx(most)


def test_rows_that_may_be_of_any_length_count_in_full_where_noise_allows_that():
    """No row is longer than its bound times the largest deviation of a column in units of another."""
    beyond, noise = {26: 0.9, NORM_CLASSES - 1: 0.1}, 0.01 * math.sqrt(6.0)
    problem = columns(3, bound=8.0)
    made = [1.0, 0.0, 0.0, 0.4, 0.4, 0.4, 0.0, 0.5]
    (_, marginals, _), _ = geometry(problem, made, beyond)
    most = (problem.norm_bound * np.linalg.norm(marginals.standardising(problem), 2)) ** 2
    assert limit_of(beyond, allowed=1e9) == pytest.approx(most)
    assert limit_of(beyond, allowed=0.7 * most * noise) == pytest.approx(0.7 * most)


def test_the_part_of_the_rows_depends_on_the_longest():
    told = []

    def part_of(longest):
        told.append(longest)
        return 0.25

    made = [1.0, 0.0, 0.0, 0.4, 0.4, 0.4, 0.0, 0.5]
    problem = columns(3)
    (found, marginals, frame), oracle = geometry(problem, made, {26: 0.6, 34: 0.15}, part_of=part_of)
    assert told == [pytest.approx(3.0 * 2.0**-16 * 2.0 ** (35.0 / 2.0))]
    assert oracle.parts == [0.25]
    assert marginals.counting == pytest.approx(0.75)
    assert found is problem
    assert frame.dimension > 1.0


def test_by_default_all_rows_are_asked_and_the_usual_count_in_full():
    made = [1.0, 0.0, 0.0, 0.4, 0.4, 0.4, 0.0, 0.5]
    (_, marginals, _), oracle = geometry(columns(3), made, {26: 0.8, 34: 0.2})
    assert oracle.parts == [1.0]
    limit = (marginals.standardising(columns(3))[1, 1] / oracle.bases[1].basis[1, 1]) ** 2
    assert limit == pytest.approx(3.0 * 2.0**-16 * 2.0 ** (13.0 + 7.0 / 8.0))


@pytest.mark.parametrize(
    ("relation", "constant", "first", "rows"),
    [
        ("replace", True, 1.5, 100),
        ("add_remove", True, 1.5, 150),
        ("add_remove", True, 1.505, 151),
        ("add_remove", True, 1.0, 100),
        ("add_remove", True, 0.6, 100),
        ("add_remove", False, 1.5, 100),
    ],
)
def test_rows_are_as_many_as_marginals_show(relation, constant, first, rows):
    problem = columns(3, relation=relation, penalised=(not constant, True, True))
    made = [first, 0.3, 0.0, 0.6, 0.6, 0.6, 0.0, 0.75]
    (found, marginals, _), oracle = geometry(problem, made, {26: 1.0}, sd=0.03)
    assert found.n_rows == rows
    assert oracle.rows == ([rows] if rows > 100 else [])
    usable = min(first * 100.0 / rows, 1.0) if constant else 1.0
    assert marginals.noise == pytest.approx(0.03 * 100.0 / rows / usable)
    if not constant:
        np.testing.assert_allclose(marginals.mean, made[:3])
