"""Levels whose reference noise hides: their differences, and predictions at them, are known all the same."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.errors import PrivfitError
from privfit.inference.covariance import Bread
from privfit.inference.recoded import Known, Recoded, other_references
from privfit.losses import Logistic
from tests.solvers.simulated import problem_for

LEVELS = ["rare", "b", "c", "d"]
EFFECTS = np.array([0.0, 0.5, -0.5, 0.2])
NAMES = ("Intercept", "x", "g[T.b]", "g[T.c]", "g[T.d]")
SCHEMA = {
    "x": {"type": "numeric", "lower": -4, "upper": 4},
    "g": {"type": "categorical", "levels": LEVELS},
    "y": {"type": "numeric", "lower": -8, "upper": 8},
    "d": {"type": "categorical", "levels": [0, 1]},
    "k": {"type": "categorical", "levels": ["u", "v", "w"]},
}


def rows(seed, n=10_000):
    rng = np.random.default_rng(seed)
    g, x = rng.choice(4, n, p=[0.002, 0.5, 0.298, 0.2]), rng.normal(size=n)
    score = 0.5 * x + EFFECTS[g]
    chance = 1.0 / (1.0 + np.exp(-score))
    positive, second = rng.random(n) < chance, rng.random(n) < 0.5
    return pd.DataFrame(
        {
            "x": x,
            "g": np.array(LEVELS)[g],
            "y": score + rng.normal(size=n),
            "d": positive.astype(int),
            "k": np.where(positive, np.where(second, "v", "w"), "u"),
        }
    )


def fitted(model, seed, formula="{} ~ x + g", **options):
    response = {"ols": "y", "logit": "d"}[model]
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": seed, "schema": SCHEMA} | options
    return getattr(pf, model)(formula.format(response), rows(seed), **options)


def test_differences_cover_and_are_as_long_as_from_another_reference():
    """Right intervals cover fewer than 35 of 48 truths with a probability below 1e-7, half of them with .999.

    Those are differences within 24 tables of each model.
    """
    covered = 0
    for model in ("ols", "logit"):
        results = [fitted(model, seed) for seed in range(24)]
        lost = np.array([np.isinf(result.bse.to_numpy())[[0, 2, 3, 4]].all() for result in results])
        assert lost.sum() >= 12
        tests = [result.t_test("g[T.b] - g[T.c]") for result in results]
        ends = np.array([test.conf_int().to_numpy()[0] for test in tests])
        assert np.isfinite(ends).all(axis=1).sum() >= 21
        covered += ((ends[:, 0] <= 1.0) & (ends[:, 1] >= 1.0)).sum()
        from_c = "{} ~ x + C(g, Treatment('c'))"
        others = [fitted(model, seed, from_c).bse.to_numpy()[3] for seed in range(6)]
        assert 0.8 < np.median([test.bse.iloc[0] for test in tests]) / np.median(others) < 1.25
    assert covered >= 35


@pytest.fixture(scope="module")
def result():
    found = fitted("logit", 0)
    assert found.recoded is not None
    return found


def test_predictions_at_other_levels_have_intervals(result):
    at = pd.DataFrame({"x": 0.0, "g": LEVELS})
    predicted = result.get_prediction(at).summary_frame()
    assert np.isfinite(predicted["mean_se"]).tolist() == [False, True, True, True]
    assert predicted["mean"].between(predicted["mean_ci_lower"], predicted["mean_ci_upper"])[1:].all()


def test_joint_tests_are_those_of_the_same_differences(result):
    joint = result.wald_test("g[T.b] = g[T.c]")
    one = result.t_test("g[T.b] - g[T.c]")
    assert joint.testable
    np.testing.assert_allclose(joint.pvalue, one.pvalues.iloc[0], rtol=1e-9)
    assert result.wald_test("g[T.b] = g[T.c], g[T.d] = g[T.c]").testable
    assert not result.wald_test("g[T.b] = 0").testable
    assert not result.wald_test("g[T.b] = g[T.c], g[T.b] = 0").testable


def test_a_term_is_tested_by_what_is_known_of_it(result):
    test = result.compare_without("g")
    assert (test.df, test.left_out) == (2, 1)
    same = result.wald_test("g[T.b] = g[T.c], g[T.d] = g[T.b]")
    np.testing.assert_allclose(test.statistic, same.statistic, rtol=1e-9)
    assert "1 further coefficient." in str(test)
    assert "1 further coefficient." in str(test.summary())
    assert "hides: g; df" in " ".join(str(result.wald_test_terms()).split())
    assert result.compare_without("x").left_out == 0


def test_a_term_of_which_nothing_is_known_cannot_be_tested(result):
    hidden = np.where(np.arange(5) == 1, np.inf, np.diag(result.cov_noise))
    test = replace(result, cov_noise=np.diag(hidden), recoded=None).compare_without("x")
    assert not test.testable
    assert (test.df, test.left_out) == (1, 0)


def test_what_touches_the_hidden_level_stays_unknown(result):
    for combination in ("g[T.b]", "Intercept", "2*g[T.b] - g[T.c]", "Intercept + g[T.b] - g[T.c]"):
        assert np.isinf(result.t_test(combination).bse).all()


def test_it_is_kept(result):
    again = pf.FitResult.from_json(result.to_json())
    combination = "g[T.b] - 0.5*g[T.c] - 0.5*g[T.d]"
    assert again.t_test(combination).bse.iloc[0] == result.t_test(combination).bse.iloc[0] < np.inf


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept["dof"].pop(),
        lambda kept: kept["matrix"].pop(),
        lambda kept: kept["matrix"][0].__setitem__(0, 2.0),
        lambda kept: kept["matrix"][0].__setitem__(0, 0.0),
        lambda kept: kept["matrix"][0].__setitem__(0, "nan"),
        lambda kept: kept.update(
            matrix=[[1.0]], cov_noise=[[1.0]], cov_sampling=[[1.0]], dof=[1.0], joint_dof=[1.0]
        ),
    ],
)
def test_what_does_not_fit_is_refused(result, change):
    record = json.loads(result.to_json())
    change(record["result"]["recoded"])
    with pytest.raises(PrivfitError):
        pf.FitResult.from_json(json.dumps(record))


def test_every_class_has_it():
    schema = {name: SCHEMA[name] for name in ("x", "g", "k")}
    model = pf.LogisticRegression(epsilon=1.0, delta=1e-6, random_state=0, schema=schema)
    found = model.fit(rows(0, 40_000)[list(schema)], "k").result_
    lost = np.isinf(found.bse.to_numpy()).reshape(2, -1)
    assert lost[:, 0].any()
    for label, none in zip(("v", "w"), lost[:, 0], strict=True):
        if none:
            assert np.isfinite(found.t_test(f"{label}: g[T.b] - {label}: g[T.c]").bse).all()


def test_a_reference_that_is_seen_is_left_alone():
    assert fitted("ols", 0, "{} ~ x + C(g, Treatment('b'))").recoded is None
    assert fitted("ols", 0, "{} ~ x").recoded is None


def test_errors_are_those_of_the_whole_covariance():
    """Of any covariance, whichever of its coefficients are given up."""
    rng = np.random.default_rng(1)
    root = rng.normal(size=(5, 5))
    whole, matrix = root @ root.T, np.eye(5)
    matrix[0, 3], matrix[[2, 3, 4], 3] = 1.0, -1.0
    lost, other = whole.copy(), matrix @ whole @ matrix.T
    for covariance, places in ((lost, [0, 2, 3, 4]), (other, [3])):
        covariance[places], covariance[:, places] = 0.0, 0.0
        covariance[places, places] = np.inf
    ones = np.ones(5)
    recoded = Recoded(matrix, np.zeros((5, 5)), other, 7.0 * ones, 5.0 * ones)
    known = Known(ones, lost, 9.0 * ones, 8.0 * ones, recoded)
    weights = np.array([[0, 0, 1, -1, 0], [1, 2, 0.25, 0, 0.75], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0]])
    se, dof = known.errors(weights)
    np.testing.assert_allclose(se[:3] ** 2, np.diag(weights @ whole @ weights.T)[:3], rtol=1e-12)
    assert np.isinf(se[3])
    assert dof.tolist()[:3] == [7.0, 7.0, 9.0]
    told, turned = known.told_by(weights[:2])
    np.testing.assert_allclose(turned @ told.estimate, weights[:2] @ known.estimate, rtol=1e-12)
    assert (told.dof_of(1)[0], told.dof_of(2)[0]) == (7.0, 5.0)
    assert known.told_by(weights[2:3])[0] is known
    assert known.told_by(weights)[0] is known


def made_up(covariance, other):
    """Five coefficients, of a factor of which noise hides the reference, and what is known of them."""
    matrix, ones = np.eye(5), np.ones(5)
    matrix[0, 3], matrix[[2, 3, 4], 3] = 1.0, -1.0
    recoded = Recoded(matrix, np.zeros((5, 5)), other, ones, ones)
    return Known(ones, covariance, ones, ones, recoded)


@pytest.mark.parametrize("unit", [-1e9, -1.0, 1e-12])
def test_weights_that_rounding_leaves_touch_nothing(unit):
    """0.1 + 0.2 is not 0.3, and whole terms of a small unit are no rounding."""
    known = made_up(np.diag([np.inf, 1.0, np.inf, np.inf, np.inf]), np.diag([1.0, 1.0, 1.0, np.inf, 1.0]))
    weights = unit * np.array([[0.3, 0.0, 0.1, 0.2, 0.0], [1.0, 1.0, 1.0, 0.0, 0.0]])
    expected = abs(unit) * np.sqrt([0.3**2 + 0.1**2, 3.0])
    np.testing.assert_allclose(known.errors(weights)[0], expected, rtol=1e-9)


def test_joint_tests_look_at_all_that_any_of_the_combinations_touches():
    known = made_up(np.diag([np.inf, 1.0, np.inf, np.inf, np.inf]), np.diag([1.0, 1.0, 1.0, np.inf, 1.0]))
    both = np.array([[0, 0, 1, -1, 0], [0, 1, 0, 0, 0]])
    assert known.told_by(both)[0] is known.otherwise
    assert known.told_by(np.array([[0, 0, 1, -1, 0], [0, 0, 1, 0, 0]]))[0] is known


def test_what_is_known_is_found_whatever_the_degrees_of_freedom():
    lost = np.diag([np.inf, 1.0, np.inf, np.inf, np.inf])
    known = made_up(lost, np.diag([1.0, 1.0, 1.0, np.inf, 1.0]))
    normal = np.full(5, np.inf)
    other = replace(known.recoded, dof=normal, joint_dof=normal)
    known = replace(known, dof=normal, joint_dof=normal, recoded=other)
    factor = np.eye(5)[2:]
    np.testing.assert_array_equal(known.part_of(factor), [[1, -1, 0], [0, -1, 1]] @ factor)
    np.testing.assert_array_equal(replace(known, recoded=None).part_of(np.eye(5)), np.eye(5)[1:2])


def test_what_is_kept_cannot_be_changed(result):
    with pytest.raises(ValueError, match="read-only"):
        result.recoded.dof[0] = 1.0


def test_others_are_told_from_the_most_frequent_level():
    """Two factors, of which one has a reference that shows, and a bread of the shares of their levels."""
    problem = replace(
        problem_for(Logistic(), np.ones((10, 6))),
        indicators=(True, False, True, True, True, True),
        factors=((2, 3), (4, 5)),
    )
    shares = np.array([1.0, 0.0, 0.3, 0.6, 0.3, 0.1])
    matrix = np.diag(np.where(shares > 0.0, shares, 1.0))
    matrix[0], matrix[:, 0] = np.where(shares > 0.0, shares, 0.0), np.where(shares > 0.0, shares, 0.0)
    bread = Bread(matrix, np.linalg.inv(matrix), 0.0, np.zeros((6, 0)))
    unknown = np.array([True, False, True, True, False, False])
    found = other_references(problem, bread, unknown)
    expected = np.eye(6)
    expected[0, 3], expected[[2, 3], 3] = 1.0, -1.0
    np.testing.assert_array_equal(found, expected)
    assert other_references(problem, bread, unknown & (np.arange(6) > 0)) is None
    assert other_references(problem, bread, np.arange(6) == 0) is None
    assert other_references(replace(problem, penalised=(True,) * 6), bread, unknown) is None
    one_class = np.concatenate([unknown, np.zeros(6, dtype=bool)])
    np.testing.assert_array_equal(other_references(problem, bread, one_class), np.kron(np.eye(2), expected))
    assert other_references(problem, bread, unknown[:5]) is None
    some = np.array([True, False, False, True, False, False])
    np.testing.assert_array_equal(other_references(problem, bread, some), expected)
