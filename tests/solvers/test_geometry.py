"""Coordinates from released moments: what noise in a second moment may and may not do to them."""

import dataclasses

import numpy as np
import pytest

from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.losses import Logistic
from privfit.privacy.mechanisms import svec
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers import EmpiricalBayesDescent, WhitenedGradientDescent
from privfit.solvers.drawn import denoised
from privfit.solvers.geometry import Frame, Marginals, farthest, released_geometry
from privfit.solvers.hessian_model import HessianModel
from privfit.terms.encoder import FormulaEncoder
from tests.problem.conftest import make_problem
from tests.solvers.simulated import oracle_for, problem_for


def noisy_eigen(matrix, noise, rng):
    """Return the eigenvalues and eigenvectors of a matrix with symmetric normal noise."""
    half = rng.normal(size=matrix.shape)
    disturbed = matrix + noise * (half + half.T) / 2.0
    values, vectors = np.linalg.eigh(disturbed)
    return values, vectors


def test_noise_has_the_law_of_released_matrices():
    """Standard deviation 1 on the diagonal: svec of the noise has equal variances."""
    rng = np.random.default_rng(0)
    draws = np.array([svec((half + half.T) / 2.0) for half in rng.normal(size=(4000, 3, 3))])
    np.testing.assert_allclose(draws.std(axis=0), 1.0, atol=0.08)


@pytest.mark.parametrize("p", [1, 2, 10, 60])
def test_where_noise_hides_all_differences_eigenvalues_are_about_equal(p):
    rng = np.random.default_rng(p)
    spreads, means = [], []
    for _ in range(20):
        values = noisy_eigen(np.eye(p), 0.1, rng)[0]
        found = denoised(values, 0.1)
        assert (np.diff(found) >= 0.0).all()
        spreads.append(found.std() / max(values.std(), 1e-300))
        means.append(found.mean() - values.mean())
    np.testing.assert_allclose(means, 0.0, atol=1e-9)
    if p > 2:
        assert np.mean(spreads) < 0.5


@pytest.mark.parametrize("p", [10, 60])
def test_they_are_closer_to_the_variances_along_the_noisy_directions(p):
    rng = np.random.default_rng(p)
    matrix = np.diag(np.geomspace(3.0, 0.1, p))
    before, after = 0.0, 0.0
    for _ in range(20):
        values, vectors = noisy_eigen(matrix, 0.15, rng)
        truth = np.einsum("ij,ik,kj->j", vectors, matrix, vectors)
        before += np.mean((np.maximum(values, 0.0) - truth) ** 2)
        after += np.mean((denoised(values, 0.15) - truth) ** 2)
    assert after < 0.9 * before


def test_without_noise_nothing_changes_and_nothing_is_negative():
    values = np.array([0.0, 1.0, 1.0, 4.0])
    np.testing.assert_array_equal(denoised(values, 0.0), values)
    assert (denoised(np.array([-3.0, -1.0, 2.0]), 1.0) >= 0.0).all()


def test_declared_bounds_say_how_far_a_number_can_take_a_row():
    """Columns: the constant, a number of mean 0.5, an indicator; whitened by 1/0.2 and 1/0.1, then turned."""
    problem = dataclasses.replace(make_problem(Logistic()), indicators=(True, False, True))
    marginals = Marginals(np.array([1.0, 0.5, 0.01]), np.array([0.0, 0.04, 0.01]), 0.0, 0.0, None)
    basis = np.diag([1.0, 5.0, 10.0])
    turned = basis @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert farthest(problem, marginals, basis) == pytest.approx(1.5 * 5.0)
    assert farthest(problem, marginals, turned) == pytest.approx(1.5 * 5.0)
    only = dataclasses.replace(problem, indicators=(True, True, True))
    assert farthest(only, marginals, basis) == 0.0
    assert farthest(make_problem(Logistic()), marginals, basis) == np.inf


def test_the_second_moment_of_a_rare_level_is_what_its_share_says_whatever_its_rows_weigh():
    """Columns: the constant, a number, levels of 2 %, of 97 % and one that noise hides; rows weigh little."""
    problem = dataclasses.replace(
        make_problem(Logistic()),
        columns=("c", "x", "u", "v", "w"),
        indicators=(True, False, True, True, True),
        start=(0.0,) * 5,
        penalised=(False, True, True, True, True),
    )
    marginals = Marginals(np.array([1.0, 0.0, 0.02, 0.0, 0.97]), np.zeros(5), 1e-12, 0.005, None)
    least = marginals.of_indicators(problem)
    np.testing.assert_allclose(least[1:], [0.0, 0.5 * 0.02 * 0.98, 0.5 * 0.005 * 0.995, 0.5 * 0.97 * 0.03])
    moment = np.diag([1.0, 1.0, 1e-4, 1e-4, 1e-4])
    planned = PlannedRelease("second_moment", 15, 1.0, 1.0, 1e-9)
    released = Release(planned, np.zeros(5), moment)
    frame = Frame.of(problem, np.eye(5), released, marginals=marginals, size=1.0)
    np.testing.assert_allclose(np.diag(frame.basis) ** -2.0, [1.0, 1.0, *least[2:]], rtol=1e-3)
    unknown = dataclasses.replace(problem, indicators=())
    anyhow = Frame.of(unknown, np.eye(5), released, marginals=marginals, size=1.0)
    np.testing.assert_allclose(np.diag(anyhow.basis)[2:] ** -2.0, 1e-4, rtol=1e-2)


@pytest.mark.parametrize("correlation", [0.0, 0.95])
def test_what_is_alike_are_coefficients_of_numbers_and_effects_of_levels(correlation):
    """Columns: the constant, two numbers, an indicator of 2 %, two of three levels; no noise."""
    problem = dataclasses.replace(
        make_problem(Logistic()),
        columns=("c", "x", "z", "u", "v", "w"),
        indicators=(True, False, False, True, True, True),
        factors=((3,), (4, 5)),
        start=(0.0,) * 6,
        penalised=(False, *[True] * 5),
    )
    variance = np.array([0.0, 0.3, 0.1, 0.02 * 0.98, 0.25, 0.16])
    marginals = Marginals(np.array([1.0, 0.1, 0.2, 0.02, 0.5, 0.2]), variance, 1e-9, 0.0, None)
    standard, moment = marginals.level_coding(problem), np.eye(6)
    moment[1, 2] = moment[2, 1] = correlation
    released = Release(PlannedRelease("second_moment", 21, 1.0, 1.0, 0.0), np.zeros(6), moment)
    frame = Frame.of(problem, standard, released, marginals=marginals, size=1.0)
    alike = HessianModel(problem, frame, marginals).alike
    encoded = (frame.basis @ alike)[1:, 1:]
    prior = encoded @ encoded.T
    levels = 2.0 * np.array([[2.0, 1.0], [1.0, 2.0]])  # two less a third that is independent
    expected = np.zeros((5, 5))
    expected[:3, :3] = np.diag([1.0 / 0.3, 1.0 / 0.1, 4.0])
    expected[3:, 3:] = levels
    np.testing.assert_allclose(4.0 * prior / prior[2, 2], expected, atol=1e-5)
    assert np.sum(alike[1:] ** 2) == pytest.approx(5.0)


def test_indicators_are_known_from_schemas_and_formulas():
    levels = {"type": "categorical", "levels": ["u", "v", "w"]}
    number = {"type": "numeric", "lower": 0, "upper": 1}
    schema = Schema({"a": number, "b": levels, "y": number})
    of_schema = SchemaEncoder(schema, target="y", target_kind="binary").design
    assert [column.indicator for column in of_schema.columns] == [True, False, True, True]
    of_formula = FormulaEncoder("y ~ a * C(b)", schema, target_kind="binary").design
    numbers = [column.name for column in of_formula.columns if not column.indicator]
    assert numbers == ["a", "a:C(b)[T.v]", "a:C(b)[T.w]"]


def test_rows_that_bounds_keep_short_are_not_paid_for():
    """Norm bounds of the last coordinates: with tight bounds smaller than with wide ones, same rows."""
    rng = np.random.default_rng(1)
    raw = rng.uniform(-1.0, 1.0, size=(4000, 2))
    y = (rng.random(4000) < 1 / (1 + np.exp(-raw[:, 0]))).astype(float)
    scales = []
    for width in (1.0, 40.0):
        x = np.column_stack([np.ones(4000), raw / width])
        problem = dataclasses.replace(
            problem_for(Logistic(), x, norm_bound=np.sqrt(3.0)), bounded=True, indicators=(True, False, False)
        )
        solver = WhitenedGradientDescent()
        view = solver.run(problem, oracle_for(problem, solver, x, y, mu=0.3, seed=0)).problem
        rows_at_limit = view.norm_bound / np.linalg.norm(x @ view.basis, axis=1)
        scales.append(float(np.median(rows_at_limit)))
    assert scales[0] < 0.75 * scales[1]


def second_moment_and_seen(mu, seed=0):
    """Return those of a table's rows in whitened coordinates; some columns vary little beside the others."""
    rng = np.random.default_rng(21)
    n, p = 6000, 12
    mixed = rng.normal(size=(n, p - 1)) @ np.linalg.cholesky(0.9 + 0.1 * np.eye(p - 1)).T
    x = np.column_stack([np.ones(n), mixed])
    y = (rng.random(n) < 0.5).astype(float)
    problem = problem_for(Logistic(), x, norm_bound=6.0)
    oracle = oracle_for(problem, EmpiricalBayesDescent(), x, y, mu=mu, seed=seed)
    frame = released_geometry(problem, oracle)[2]
    z = x @ frame.basis
    return z.T @ z / n, frame.seen


def test_without_noise_all_of_the_second_moment_is_seen():
    moment, seen = second_moment_and_seen(np.inf)
    np.testing.assert_allclose(seen, np.eye(12), atol=1e-6)
    np.testing.assert_allclose(moment, np.eye(12), atol=0.25)  # of rows that are weighted down, too


def test_the_less_the_budget_the_less_is_seen_of_hidden_directions():
    means, common = [], []
    for mu in (1.0, 0.2, 0.05):
        values = np.array([np.linalg.eigvalsh(second_moment_and_seen(mu, seed)[1]) for seed in range(10)])
        assert values.min() >= 0.2 - 1e-9
        assert values.max() <= 1.0 + 1e-9
        means.append(values[:, :-2].mean())
        common.append(values[:, -2].mean())
    assert means[0] > means[1] + 0.1 > means[2] + 0.2
    assert min(common) > 0.7  # what all columns share is hardly hidden
