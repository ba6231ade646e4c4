"""Support vector machine, quantile, Poisson and M-estimator: contract, agreement, intervals, refusals."""

import pickle
import re
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.estimator_checks import check_estimator

import privfit as pf
from privfit.data.synthetic import linear_model, logistic_model
from tests.small_sample import hc1

from .test_estimators import (
    LABELLED_FIT,
    LABELS_ARE_DECLARED,
    NO_TELLTALE_ERROR,
    ROWS,
    assert_fails_as_expected,
)

REGRESSOR = ROWS | {"check_supervised_y_no_nan": NO_TELLTALE_ERROR}
CLASSIFIER = LABELLED_FIT | {
    "check_classifier_data_not_an_array": LABELS_ARE_DECLARED,
    "check_classifiers_classes": LABELS_ARE_DECLARED,
    "check_estimators_dtypes": LABELS_ARE_DECLARED,
    "check_fit2d_1feature": LABELS_ARE_DECLARED,
}
ESTIMATORS = {
    "svc": (pf.LinearSVC(), CLASSIFIER),
    "quantile": (pf.QuantileRegressor(), REGRESSOR),
    "poisson": (pf.PoissonRegressor(count_bound=20.0), REGRESSOR),
    "numeric": (pf.MEstimator(loss=pf.losses.PseudoHuber(0.5)), REGRESSOR),
    "binary": (pf.MEstimator(loss=pf.losses.Logistic()), CLASSIFIER),
    "count": (pf.MEstimator(loss=pf.losses.Poisson(2.5, 12.0)), REGRESSOR),
}
each = pytest.mark.parametrize("name", list(ESTIMATORS))
N = 6000


def made(name, **changes):
    return clone(ESTIMATORS[name][0]).set_params(**changes)


def counts(n, seed=1, coef=(0.5, -0.3), intercept=0.2):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, len(coef)))
    return x, rng.poisson(np.exp(intercept + x @ np.array(coef))).astype(float)


def simulated(name, n=N, seed=1):
    if name in ("svc", "binary"):
        return logistic_model(n, (1.0, -0.5), intercept=0.3, seed=seed)
    if name in ("poisson", "count"):
        return counts(n, seed)
    return linear_model(n, (1.0, -0.5), intercept=0.3, noise_sd=0.5, seed=seed)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "count"])
def test_check_estimator(name):
    """By few steps: which ones does not matter to the contract, and `test_estimators` takes the default."""
    estimator, expected = ESTIMATORS[name]
    results = check_estimator(
        clone(estimator).set_params(solver="newton", epsilon=1000.0, random_state=0, weight_bound=10.0),
        expected_failed_checks=expected,
        on_skip=None,
    )
    assert_fails_as_expected(results, expected)


@each
def test_a_huge_budget_gives_the_non_private_fit(name):
    x, y = simulated(name)
    exact = made(name, solver="non-private").fit(x, y)
    loud = made(name, budget=pf.Budget.gdp(1e7), random_state=0).fit(x, y)
    np.testing.assert_allclose(loud.result_.params, exact.result_.params, atol=2e-5)
    np.testing.assert_allclose(loud.result_.bse, exact.result_.bse, rtol=1e-2)
    assert not exact.result_.private


@lru_cache
def estimate_of_a_large_table(name):
    return made(name, solver="non-private").fit(*simulated(name, n=200_000, seed=2)).result_.params


@each
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_intervals_hold_the_non_private_estimate_of_a_large_table(name, relation):
    target = estimate_of_a_large_table(name)
    given = {"n_rows": N} if relation == "add_remove" else {}
    x, y = simulated(name)
    fit = made(name, budget=pf.Budget.gdp(1.0), relation=relation, random_state=3, **given).fit(x, y)
    interval = fit.result_.conf_int(level=0.9999)
    assert (interval["lower"] < target).all()
    assert (interval["upper"] > target).all()
    assert (fit.result_.bse < 0.3).all()


@each
def test_unseeded_fits_are_private_within_budget_and_pickle(name):
    x, y = simulated(name, n=500)
    fit = made(name, epsilon=2.0).fit(x, y)
    assert fit.result_.private
    assert np.sqrt(sum(release.mu**2 for release in fit.result_.plan.releases)) <= pf.Budget(2.0, 1e-6).mu
    copy = pickle.loads(pickle.dumps(fit))  # noqa: S301
    np.testing.assert_array_equal(copy.predict(x), fit.predict(x))


def test_poisson_agrees_with_statsmodels():
    x, y = counts(N)
    fit = pf.PoissonRegressor(count_bound=1e3, predictor_bound=8, solver="non-private").fit(x, y)
    model = sm.GLM(y, sm.add_constant(x), family=sm.families.Poisson())
    reference = hc1(model.fit(cov_type="HC0", tol=1e-12))
    np.testing.assert_allclose(fit.result_.params, reference.params, atol=1e-8)
    np.testing.assert_allclose(fit.result_.bse, reference.bse, rtol=1e-7)
    np.testing.assert_allclose(fit.predict(x), reference.fittedvalues, rtol=1e-7)


@pytest.mark.parametrize("quantile", [0.25, 0.5, 0.8])
def test_a_narrow_width_gives_the_quantile_regression(quantile):
    x, y = linear_model(20_000, (1.0, -0.5), intercept=0.3, noise_sd=0.5, seed=5)
    fit = pf.QuantileRegressor(quantile=quantile, width=0.05, solver="non-private").fit(x, y)
    reference = sm.QuantReg(y, sm.add_constant(x)).fit(q=quantile)
    np.testing.assert_allclose(fit.result_.params, reference.params, atol=6e-3)
    np.testing.assert_allclose(fit.result_.bse, reference.bse, rtol=0.08)
    assert np.mean(y < fit.predict(x)) == pytest.approx(quantile, abs=0.01)


def test_the_support_vector_machine_minimises_the_smoothed_hinge():
    from scipy.optimize import minimize

    x, y = simulated("svc", n=2000)
    fit = pf.LinearSVC(l2=0.01, solver="non-private").fit(x, y)
    design, side = sm.add_constant(x), 2.0 * y - 1.0

    def objective(theta):
        short = np.maximum(0.0, 1.0 - side * (design @ theta))
        loss = np.where(short <= 1.0, 0.5 * short**2, short - 0.5)
        return loss.mean() + 0.005 * (theta[1:] @ theta[1:])

    best = minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(fit.result_.params, best, atol=1e-6)
    np.testing.assert_array_equal(fit.predict(x), (fit.decision_function(x) > 0).astype(int))
    assert not hasattr(fit, "predict_proba")


def test_m_estimators_take_the_kind_of_their_loss():
    assert is_classifier(made("binary"))
    assert is_regressor(made("numeric"))
    assert not hasattr(made("numeric"), "decision_function")
    x, y = simulated("binary")
    labels = np.where(y == 1, "yes", "no").astype(object)
    binary = made("binary", classes=("no", "yes"), random_state=0).fit(x, labels)
    assert set(binary.predict(x)) == {"no", "yes"}
    assert binary.coef_.shape == (1, 2)
    assert binary.score(x, labels) > 0.6
    assert pf.LinearSVC(random_state=0).fit(x, y).score(x, y) > 0.6
    x, y = counts(N)
    count = made("count", random_state=0).fit(x, y)
    assert (count.predict(x) > 0).all()
    assert count.predict(x).mean() == pytest.approx(y.mean(), rel=0.1)


def array_slope(y, eta):
    return np.tanh(eta - y)


@pytest.mark.parametrize("vectorized", [False, True])
def test_a_loss_from_outside_works_from_end_to_end(vectorized):
    loss = pf.losses.Custom(
        lambda y, eta: np.log(np.cosh(eta - y)),
        array_slope,
        lambda y, eta: 1.0 - np.tanh(eta - y) ** 2,
        slope_bound=1.0,
        curvature_bound=1.0,
        vectorized=vectorized,
        name="log cosh",
    )
    x, y = simulated("numeric")
    own = pf.MEstimator(loss=loss, random_state=3).fit(x, y)
    built_in = pf.MEstimator(loss=pf.losses.LogCosh(1.0), random_state=3).fit(x, y)
    np.testing.assert_allclose(own.result_.params, built_in.result_.params, atol=1e-6)
    np.testing.assert_allclose(own.result_.bse, built_in.result_.bse, rtol=1e-5)
    assert "log cosh" in own.result_.to_json()
    assert "array_slope" not in own.result_.to_json()


SCHEMA = pf.Schema(
    {
        "visits": {"type": "numeric", "lower": 0, "upper": 12},
        "age": {"type": "numeric", "lower": 20, "upper": 80},
        "sex": {"type": "categorical", "levels": ["F", "M"]},
    }
)


@pytest.fixture
def frame():
    rng = np.random.default_rng(6)
    age, sex = rng.uniform(20, 80, N), rng.choice(["F", "M"], N)
    visits = rng.poisson(np.exp(-1.0 + 0.02 * age + 0.3 * (sex == "M"))).astype(float)
    visits[::50] = np.nan
    return pd.DataFrame({"visits": visits, "age": age, "sex": sex})


@pytest.mark.parametrize(
    "model",
    [
        pf.PoissonRegressor(schema=SCHEMA),
        pf.MEstimator(loss=pf.losses.Poisson(np.log(12), 12.0), schema=SCHEMA),
    ],
)
def test_counts_are_reported_in_raw_units(model, frame):
    fit = clone(model).set_params(solver="non-private").fit(frame, "visits")
    usable = frame.dropna()
    exog = sm.add_constant(pd.DataFrame({"age": usable["age"], "sex[T.M]": 1.0 * (usable["sex"] == "M")}))
    reference = sm.GLM(usable["visits"].clip(upper=12), exog, family=sm.families.Poisson()).fit(tol=1e-12)
    np.testing.assert_allclose(fit.result_.params, reference.params, atol=1e-8)
    np.testing.assert_allclose(fit.predict(usable), reference.fittedvalues, rtol=1e-6)
    noisy = clone(model).set_params(epsilon=4.0, random_state=0).fit(frame, "visits")
    interval = noisy.result_.conf_int(0.9999)
    assert ((interval["lower"] < [-1.0, 0.02, 0.3]) & (interval["upper"] > [-1.0, 0.02, 0.3])).all()


@pytest.mark.parametrize("constant", [-3.0, -2.0, -1.0])
def test_counts_with_small_means_are_fitted_as_they_are(constant):
    """Log means far below minus the logarithm of the bound on counts; false alarms below 1e-6."""
    rng = np.random.default_rng(17)
    x = rng.uniform(-1, 1, 20_000)
    rows = pd.DataFrame({"x": x, "y": rng.poisson(np.exp(constant + x))})
    schema = pf.Schema(
        {"x": {"type": "numeric", "lower": -1, "upper": 1}, "y": {"type": "numeric", "lower": 0, "upper": 5}}
    )
    reference = sm.GLM(rows["y"], sm.add_constant(rows[["x"]]), family=sm.families.Poisson()).fit(tol=1e-12)
    model = pf.PoissonRegressor(schema=schema, epsilon=4.0, random_state=1)
    plain = clone(model).set_params(solver="non-private").fit(rows, "y")
    np.testing.assert_allclose(plain.result_.params, reference.params, atol=0.02)
    interval = clone(model).fit(rows, "y").result_.conf_int(1.0 - 1e-7)
    assert np.isfinite(interval).all(axis=None)
    assert ((interval["lower"] < [constant, 1.0]) & (interval["upper"] > [constant, 1.0])).all()
    short = clone(model).set_params(inference=False).fit(rows, "y")
    np.testing.assert_allclose([short.intercept_, *short.coef_.ravel()], [constant, 1.0], atol=0.6)


def test_quantiles_are_reported_in_raw_units():
    x, y = linear_model(20_000, (1.0,), intercept=2.0, noise_sd=0.5, design="uniform", seed=3)
    schema = pf.Schema(
        {
            "y": {"type": "numeric", "lower": -4, "upper": 8},
            "x": {"type": "numeric", "lower": -1, "upper": 1},
        }
    )
    rows = pd.DataFrame({"x": x[:, 0], "y": y})
    fit = pf.QuantileRegressor(schema=schema, quantile=0.75, width=0.1, solver="non-private").fit(rows, "y")
    reference = sm.QuantReg(y, sm.add_constant(x)).fit(q=0.75)
    np.testing.assert_allclose(fit.result_.params, reference.params, atol=0.02)
    assert fit.result_.plan.model == f"SmoothedQuantile(tau=0.75, width={0.1 / 6:g})"
    default = pf.QuantileRegressor(schema=schema, solver="non-private").fit(rows, "y")
    assert default.result_.plan.model == "SmoothedQuantile(tau=0.5)"
    assert re.fullmatch(r"Quantile regression \(quantile 0.5, smoothed by ±0\.\d+\)", default.result_.model)


@pytest.mark.parametrize("quantile", [0.05, 0.95])
def test_far_quantiles_are_found(quantile):
    """From the mean, far from them, where the loss is much steeper, steps once led beyond all rows."""
    x, y = linear_model(50_000, (1.0, -0.5, 0.0), intercept=0.3, noise_sd=0.3, design="uniform", seed=4)
    unit = {"type": "numeric", "lower": -1, "upper": 1}
    schema = pf.Schema({"a": unit, "b": unit, "c": unit, "y": {"type": "numeric", "lower": -3, "upper": 3}})
    rows = pd.DataFrame(x, columns=list("abc")).assign(y=y)
    model = pf.QuantileRegressor(schema=schema, quantile=quantile, random_state=0)
    plain = clone(model).set_params(solver="non-private").fit(rows, "y").result_.params
    for epsilon in (1.0, 10.0):
        noisy = clone(model).set_params(epsilon=epsilon).fit(rows, "y").result_
        assert (np.abs(noisy.params - plain) < 5.0 * noisy.bse).all()
        assert (noisy.bse < 0.15).all()
        point = clone(model).set_params(epsilon=epsilon, inference=False).fit(rows, "y").result_.params
        np.testing.assert_allclose(point, plain, atol=0.05)


CUSTOM_KINK = pf.losses.Custom(
    lambda y, eta: abs(eta - y), lambda y, eta: np.sign(eta - y), slope_bound=1.0, vectorized=True
)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (pf.LinearSVC(loss="hinge"), "SmoothedHinge"),
        (pf.MEstimator(loss=pf.losses.Hinge()), "ProjectedNoisyGradientDescent"),
        (pf.MEstimator(loss=pf.losses.Quantile(0.3)), "SmoothedQuantile"),
        (pf.MEstimator(loss=pf.losses.Quantile(), solver="newton"), "SmoothedQuantile"),
        (pf.MEstimator(loss=pf.losses.Quantile(), solver="gradient-descent", inference=False), "Smoothed"),
        (
            pf.MEstimator(loss=pf.losses.Quantile(), solver=pf.solvers.NoisyGradientDescent(step_size=0.1)),
            "inference=False",
        ),
        (pf.MEstimator(loss=pf.losses.Quantile(), solver="non-private"), "SmoothedQuantile"),
        (pf.MEstimator(loss=CUSTOM_KINK), "finite curvature bound"),
        (pf.MEstimator(loss=pf.losses.Sigmoid()), "RandomRoundSGD"),
        (pf.MEstimator(loss=pf.losses.Sigmoid(), solver="gradient-descent"), "inference=False"),
        (pf.LinearSVC(loss=pf.losses.Huber()), "numeric response"),
    ],
)
def test_what_a_loss_cannot_do_is_refused_with_a_remedy(model, says):
    x, y = logistic_model(200, (1.0,), seed=1)
    with pytest.raises(pf.Incompatible, match=says) as caught:
        model.fit(x, y)
    assert "\n" not in str(caught.value)


def test_kinked_and_non_convex_losses_run_where_they_may():
    x, y = logistic_model(5000, (1.0, -0.5), intercept=0.3, seed=1)
    descent = pf.solvers.NoisyGradientDescent(step_size=0.2, n_steps=60, report="last")
    given = {"solver": descent, "inference": False, "random_state": 0, "epsilon": 4.0}
    assert pf.LinearSVC(loss="hinge", **given).fit(x, y).score(x, y) > 0.65
    assert pf.MEstimator(loss=pf.losses.Sigmoid(), **given).fit(x, y).score(x, y) > 0.65
    x, y = simulated("numeric")
    median = pf.MEstimator(loss=pf.losses.Quantile(), **given).fit(x, y)
    np.testing.assert_allclose(median.coef_, [1.0, -0.5], atol=0.2)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (pf.LinearSVC(loss="squared_hinge"), "loss must be one of"),
        (pf.QuantileRegressor(quantile=1.0), "quantile"),
        (pf.QuantileRegressor(width=0), "width"),
        (pf.PoissonRegressor(), "count_bound is needed"),
        (pf.PoissonRegressor(count_bound=-1), "count_bound"),
        (pf.PoissonRegressor(count_bound=5, predictor_bound=51), "predictor_bound"),
        (pf.MEstimator(), "loss is needed"),
        (pf.MEstimator(loss="huber"), "loss is needed"),
    ],
)
def test_arguments_are_checked(model, says):
    x, y = logistic_model(50, (1.0,), seed=1)
    with pytest.raises(pf.InvalidArgument, match=says):
        model.fit(x, y)


def test_an_array_loss_that_fails_on_a_row_does_not_stop_the_fit():
    def failing(y, eta):
        if (np.abs(y - 7341.5) < 0.1).any():
            raise ValueError(str(y))
        return np.tanh(eta - y)

    loss = pf.losses.Custom(
        failing, failing, lambda y, eta: 0.0 * eta, slope_bound=1, curvature_bound=1, vectorized=True
    )
    x, y = simulated("numeric", n=200)
    y[5] = 7341.5
    fitted = pf.MEstimator(loss=loss).fit(x, y)
    assert np.isfinite(fitted.coef_).all()


def _exponential(y, eta):
    return np.exp(np.minimum(eta, 2.0)) * (1.0 + eta - np.minimum(eta, 2.0)) - y * eta


def _exponential_slope(y, eta):
    return np.exp(np.minimum(eta, 2.0)) - y


def _exponential_curvature(y, eta):
    return np.where(eta < 2.0, np.exp(np.minimum(eta, 2.0)), 0.0)


@pytest.mark.parametrize("coded", [True, False])
def test_a_loss_from_outside_takes_counts_whose_marginals_one_row_hardly_moves(coded):
    """A count of 0 among others once moved released marginals by most of their range, or stopped the fit."""
    loss = pf.losses.Custom(
        _exponential, _exponential_slope, _exponential_curvature, slope_bound=8.0, curvature_bound=8.0,
        target_kind="count", convex=True, vectorized=True,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, size=4000)
    y = 1.0 + np.minimum(rng.poisson(0.5 + group), 6)
    schema = pf.Schema(
        {
            "g": {"type": "categorical", "levels": [0, 1]},
            "y": {"type": "numeric", "lower": 0, "upper": 8},
        }
    )

    def released(response):
        common = {"epsilon": 1.0, "inference": False, "random_state": 0}
        if coded:
            model = pf.MEstimator(loss=loss, schema=schema, **common).fit({"g": group, "y": response}, y="y")
        else:
            model = pf.MEstimator(loss=loss, count_bound=8.0, **common)
            model.fit(group[:, None].astype(float), response)
        (found,) = [one for one in model.result_.releases if one.planned.kind == "marginals"]
        return found

    first, second = released(y), released(np.concatenate([[0.0], y[1:]]))
    assert 0.0 < np.linalg.norm(first.value - second.value) <= first.planned.sensitivity


@pytest.mark.parametrize("inference", [True, False])
def test_rows_may_be_far_longer_than_the_unit_scale(inference):
    """The frame of an intercept was searched for ever with such a bound, after the reservation."""
    x, y = simulated("binary", 500)
    fit = pf.LogisticRegression(norm_bound=1e4, inference=inference, random_state=0).fit(100.0 * x, y)
    assert np.isfinite(fit.coef_).all()
