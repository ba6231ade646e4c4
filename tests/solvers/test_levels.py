"""Levels of factors: their shares from noisy means, and coordinates in which none of them is special."""

import dataclasses

import numpy as np
import pytest

from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.losses import Huber
from privfit.solvers import EmpiricalBayesDescent
from privfit.solvers.geometry import Marginals, released_geometry
from privfit.solvers.hessian_model import HessianModel
from privfit.solvers.levels import level_coding, level_shares
from privfit.solvers.shrinkage import shrunk
from privfit.terms.encoder import FormulaEncoder

from .simulated import oracle_for, problem_for

LEVELS = 24


def apart(coding):
    """Return the distances between all pairs of levels, (k + 1, k + 1); the first has no indicator."""
    places = np.vstack([np.zeros(len(coding)), coding])
    return np.linalg.norm(places[:, None] - places, axis=2)


def by_level(level):
    """Return rows of a constant and the indicators of all levels but the first."""
    x = (level[:, None] == np.arange(LEVELS)).astype(float)
    x[:, 0] = 1.0
    return x


def declared(loss, x):
    """Return the problem of rows whose columns are declared to be indicators of one factor."""
    known = {"indicators": (True,) * LEVELS, "factors": (tuple(range(1, LEVELS)),)}
    return dataclasses.replace(problem_for(loss, x, norm_bound=np.sqrt(2.0)), bounded=True, **known)


def test_levels_that_are_as_frequent_as_each_other_are_not_shrunk_to_none():
    """Their sum decides how frequent the level left out is; noise is as large as a share."""
    truth, noise = np.full(LEVELS - 1, 1.0 / LEVELS), 1.0 / LEVELS
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(50):
        noisy = truth + noise * rng.normal(size=truth.size)
        to_zero = shrunk(noisy, np.full(truth.size, noise**2), energy=1.0).mean
        errors.append([(found - truth).sum() ** 2 for found in (level_shares(noisy, noise), to_zero)])
    of_levels, of_zero = np.mean(errors, axis=0)
    assert of_levels < 0.5 * of_zero


def test_a_large_share_among_many_small_ones_is_left_alone():
    truth = np.append(np.full(40, 0.001), 0.9)
    rng = np.random.default_rng(1)
    found = np.array([level_shares(truth + 0.01 * rng.normal(size=41), 0.01) for _ in range(20)])
    assert np.abs(found[:, -1] - 0.9).max() < 0.04
    assert np.sqrt(np.mean((found[:, :-1] - 0.001) ** 2)) < 0.005


@pytest.mark.parametrize("noise", [0.0, 1e-9, 0.1, 1e6])
def test_shares_are_shares_and_without_noise_the_means(noise):
    noisy = np.array([-0.2, 0.0, 0.3, 1.4])
    found = level_shares(noisy, noise)
    assert ((found >= 0.0) & (found <= 1.0)).all()
    if noise < 1e-3:
        np.testing.assert_allclose(found, np.clip(noisy, 0.0, 1.0), atol=1e-6)
    assert level_shares(np.zeros(0), noise).size == 0


def test_where_noise_hides_shares_all_levels_are_as_far_from_each_other():
    distances = apart(level_coding(np.full(5, 0.01), 10.0))
    np.testing.assert_allclose(distances[~np.eye(6, dtype=bool)], distances[0, 1], rtol=1e-2)


def test_without_noise_levels_are_whitened_by_their_shares():
    shares = np.array([0.5, 0.2, 0.05])
    coding = level_coding(shares, 1e-12)
    covariance = np.diag(shares) - np.outer(shares, shares)
    np.testing.assert_allclose(coding.T @ covariance @ coding, np.eye(3), atol=1e-8)


@pytest.mark.parametrize("added", [1e-4, 0.1, 3.0])
def test_it_does_not_matter_which_level_is_left_out(added):
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    first = apart(level_coding(shares[1:], added))
    moved = np.roll(np.arange(4), 1)
    last = apart(level_coding(shares[moved][1:], added))
    np.testing.assert_allclose(last, first[np.ix_(moved, moved)], rtol=1e-8)


def test_factors_are_known_from_schemas_and_formulas():
    levels = {"type": "categorical", "levels": ["u", "v", "w"]}
    number = {"type": "numeric", "lower": 0, "upper": 1}
    schema = Schema({"a": number, "b": levels, "c": levels, "y": number})
    of_schema = SchemaEncoder(schema, target="y", target_kind="binary").design
    assert of_schema.factors == ((2, 3), (4, 5))
    of_formula = FormulaEncoder("y ~ a * C(b)", schema, target_kind="binary").design
    assert [of_formula.names[place] for place in of_formula.factors[0]] == ["C(b)[T.v]", "C(b)[T.w]"]
    assert len(of_formula.factors) == 1


def test_an_effect_of_the_level_left_out_is_found_where_the_factor_is_known():
    """Without it steps along the direction of that level are slow."""
    loss, n = Huber(1.0), 14_000
    effect = np.where(np.arange(LEVELS) == 0, 0.6, 0.0)
    errors = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        level = rng.integers(LEVELS, size=n)
        x, y = by_level(level), effect[level] + 0.2 * rng.normal(size=n)
        known, solver = declared(loss, x), EmpiricalBayesDescent()
        row = []
        for problem in (known, dataclasses.replace(known, factors=())):
            solution = solver.run(problem, oracle_for(problem, solver, x, y, mu=0.15, seed=seed))
            fitted = x @ solution.problem.coefficients(solution.theta)
            row.append(np.mean((fitted - effect[level]) ** 2))
        errors.append(row)
    of_factor, of_columns = np.mean(errors, axis=0)
    assert of_factor < 0.5 * of_columns


def test_a_hessian_by_what_is_seen_is_closer_than_a_multiple_of_the_identity():
    rng = np.random.default_rng(3)
    n = 14_000
    x, y = by_level(rng.integers(LEVELS, size=n)), rng.normal(size=n)
    problem, off, off_identity = declared(Huber(1.0), x), [], []
    for seed in range(5):
        oracle = oracle_for(problem, EmpiricalBayesDescent(), x, y, mu=0.1, seed=seed)
        problem_, marginals, frame = released_geometry(problem, oracle, basis_of=Marginals.level_coding)
        model = HessianModel(problem_, frame, marginals, smallest=0.4)
        z = x @ frame.basis
        flat = model.at(model.start)
        truth = flat[0, 0] * z.T @ z / n
        off.append(np.linalg.norm(model.as_seen(model.start) - truth))
        off_identity.append(np.linalg.norm(flat - truth))
        unknown = HessianModel(dataclasses.replace(problem_, indicators=()), frame, marginals)
        np.testing.assert_array_equal(unknown.as_seen(unknown.start), unknown.at(unknown.start))
    assert np.mean(off) < 0.9 * np.mean(off_identity)
