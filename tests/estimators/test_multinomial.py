"""LogisticRegression with more than two classes: contract, agreement with other packages, bad input."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import privfit as pf
from privfit.data.synthetic import multinomial_model
from tests.small_sample import hc1

from .test_estimators import NO_TELLTALE_CELL, assert_fails_as_expected

BETA, INTERCEPT = [[1.0, -0.5], [-0.5, 0.8]], [0.3, -0.2]
TWO_CLASSES = "the table has two classes or one, and three are declared; labels are not read off the data"
TOO_FEW_ROWS = "the table has fewer than twice as many rows as coefficients"
EXPECTED = {
    "check_n_features_in_after_fitting": TOO_FEW_ROWS,
    "check_estimators_dtypes": TOO_FEW_ROWS,
    "check_dtype_object": "it holds labels that are not declared",
    "check_classifiers_one_label": TWO_CLASSES,
    "check_classifiers_classes": "it holds labels that are not declared",
    "check_classifiers_train": TWO_CLASSES,
    "check_classifiers_regression_target": "a response that holds no label is refused, in other words",
    "check_supervised_y_no_nan": "a row without a label contributes nothing; an error would tell of it",
    "check_estimators_nan_inf": NO_TELLTALE_CELL,
    "check_decision_proba_consistency": TWO_CLASSES,
    "check_all_zero_sample_weights_error": "weights are private; an error would tell that all are 0",
    "check_sample_weight_equivalence_on_dense_data": TOO_FEW_ROWS,
    "check_classifiers_one_label_sample_weights": TWO_CLASSES,
}


def table(n=4000, seed=1):
    return multinomial_model(n, BETA, intercept=INTERCEPT, seed=seed)


def scikit_learn(x, y, l2=0.0):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        strength = np.inf if l2 == 0.0 else 1.0 / (l2 * len(y))
        return linear_model.LogisticRegression(C=strength, tol=1e-10, max_iter=10_000).fit(x, y)


def test_check_estimator_with_three_declared_classes():
    model = pf.LogisticRegression(classes=[0, 1, 2], solver="newton", random_state=0, weight_bound=10.0)
    assert model.__sklearn_tags__().classifier_tags.multi_class
    results = check_estimator(model, expected_failed_checks=EXPECTED, on_skip=None)
    assert_fails_as_expected(results, EXPECTED)


@pytest.mark.parametrize("classes", [None, [0, 1], ["a", "b"]])
def test_two_classes_are_binary(classes):
    assert not pf.LogisticRegression(classes=classes).__sklearn_tags__().classifier_tags.multi_class


@pytest.mark.parametrize("l2", [0.0, 0.02])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_noise_it_agrees_with_scikit_learn(l2, fit_intercept):
    x, y = table()
    exact = linear_model.LogisticRegression(
        C=np.inf if l2 == 0.0 else 1.0 / (l2 * len(y)),
        tol=1e-10,
        max_iter=10_000,
        fit_intercept=fit_intercept,
    ).fit(x, y)
    model = pf.LogisticRegression(
        classes=[0, 1, 2], solver="non-private", l2=l2, fit_intercept=fit_intercept
    ).fit(x, y)
    assert model.coef_.shape == (3, 2)
    np.testing.assert_allclose(model.coef_, exact.coef_, atol=1e-6)
    np.testing.assert_allclose(model.intercept_, exact.intercept_, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(x), exact.predict_proba(x), atol=1e-6)
    np.testing.assert_allclose(model.decision_function(x), exact.decision_function(x), atol=1e-5)
    np.testing.assert_array_equal(model.predict(x), exact.predict(x))


def test_without_noise_it_agrees_with_statsmodels():
    sm = pytest.importorskip("statsmodels.api")
    x, y = table()
    exact = sm.MNLogit(y, sm.add_constant(x)).fit(disp=0, method="newton", tol=1e-12, cov_type="HC0")
    exact = hc1(exact)
    result = pf.LogisticRegression(classes=[0, 1, 2], solver="non-private").fit(x, y).result_
    np.testing.assert_allclose(result.estimate, exact.params.T.ravel(), atol=1e-8)
    np.testing.assert_allclose(result.bse, exact.bse.T.ravel(), rtol=1e-6)


def test_a_large_budget_comes_close_to_the_exact_fit():
    x, y = table(n=20_000)
    exact = pf.LogisticRegression(classes=[0, 1, 2], solver="non-private").fit(x, y)
    for mu, off in ((3.0, 0.1), (1e3, 2e-3)):
        model = pf.LogisticRegression(classes=[0, 1, 2], budget=pf.Budget.gdp(mu), random_state=1).fit(x, y)
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=off)


def test_the_result_names_differences_from_the_first_class():
    x, y = table()
    labels = np.array(["no", "maybe", "yes"], dtype=object)
    frame = pd.DataFrame(x, columns=["age", "dose"])
    model = pf.LogisticRegression(classes=["no", "maybe", "yes"], random_state=0).fit(
        frame, labels[y.astype(int)]
    )
    result = model.result_
    assert result.model == "Multinomial logistic regression"
    assert list(result.names) == [
        f"{name}: {column}" for name in ("maybe", "yes") for column in ("Intercept", "age", "dose")
    ]
    assert list(model.classes_) == ["maybe", "no", "yes"]
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(model.coef_[0] - model.coef_[1], result.params[["maybe: age", "maybe: dose"]])
    np.testing.assert_allclose(model.intercept_[2] - model.intercept_[1], result.params["yes: Intercept"])
    assert set(model.predict(frame)) <= set(labels)
    np.testing.assert_allclose(model.predict_proba(frame).sum(axis=1), 1.0)
    assert "maybe: age" in result.summary().as_text()
    assert pf.FitResult.from_json(result.to_json()).params.equals(result.params)
    same = result.wald_test("maybe: age = yes: age")
    assert same.df == 1
    assert result.wald_test("maybe: age, yes: age").df == 2


def test_the_reference_class_does_not_change_the_fit_but_by_rounding():
    """Without noise; with noise the law is the same, see the test on the noise of pairs of classes."""
    x, y = table()
    first = pf.LogisticRegression(classes=[0, 1, 2], solver="non-private").fit(x, y)
    other = pf.LogisticRegression(classes=[2, 0, 1], solver="non-private").fit(x, y)
    np.testing.assert_allclose(other.coef_, first.coef_, atol=1e-8)
    np.testing.assert_allclose(
        other.result_.bse["1: x0"] ** 2,
        first.result_.cov_params().loc["1: x0", "1: x0"]
        + first.result_.cov_params().loc["2: x0", "2: x0"]
        - 2 * first.result_.cov_params().loc["1: x0", "2: x0"],
        rtol=1e-6,
    )


SCHEMA = {
    "age": {"type": "numeric", "lower": 17, "upper": 90},
    "sex": {"type": "categorical", "levels": ["F", "M"]},
    "job": {"type": "categorical", "levels": ["none", "part", "full"], "target": True},
}


def people(n=6000, seed=0):
    rng = np.random.default_rng(seed)
    age, male = rng.uniform(17, 90, n), rng.random(n) < 0.5
    scores = np.column_stack([np.zeros(n), 0.5 + 0.4 * male, 1.0 - 0.02 * (age - 50) - 0.3 * male])
    job = (scores + rng.gumbel(size=(n, 3))).argmax(axis=1)
    return pd.DataFrame(
        {"age": age, "sex": np.where(male, "M", "F"), "job": np.array(["none", "part", "full"])[job]}
    )


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_a_schema_declares_the_classes(relation):
    given = {"n_rows": 6000} if relation == "add_remove" else {}
    frame = people()
    model = pf.LogisticRegression(
        schema=pf.Schema(SCHEMA), budget=pf.Budget.gdp(1.0), relation=relation, random_state=2, **given
    ).fit(frame)
    truth = {"part: sex[T.M]": 0.4, "full: age": -0.02, "full: sex[T.M]": -0.3, "part: age": 0.0}
    interval = model.result_.conf_int(level=0.99999)
    for name, value in truth.items():
        assert interval.loc[name, "lower"] < value < interval.loc[name, "upper"]
    assert (model.result_.bse[list(truth)] < 0.3).all()
    assert list(model.classes_) == ["full", "none", "part"]
    assert model.predict_proba(frame).shape == (6000, 3)
    by_name = pf.LogisticRegression(
        schema=pf.Schema(SCHEMA), budget=pf.Budget.gdp(1.0), relation=relation, random_state=2, **given
    ).fit(frame, "job")
    np.testing.assert_array_equal(by_name.coef_, model.coef_)


def test_rows_with_missing_cells_contribute_nothing():
    x, y = table()
    x_more, y_more = np.vstack([x, [[np.nan, 1.0], [0.0, 0.0]]]), np.append(y, [1.0, np.nan])
    exact = pf.LogisticRegression(classes=[0, 1, 2], solver="non-private").fit(x, y)
    more = pf.LogisticRegression(classes=[0, 1, 2], solver="non-private").fit(x_more, y_more)
    np.testing.assert_allclose(more.coef_, exact.coef_, atol=1e-9)


def test_a_class_without_rows_is_fitted_too():
    x, y = table()
    model = pf.LogisticRegression(classes=[0, 1, 2, 3], random_state=0).fit(x, y)
    assert model.coef_.shape == (4, 2)
    assert np.isfinite(model.coef_).all()
    assert model.predict_proba(x)[:, 3].mean() < 0.1


def test_scores_and_cross_validation():
    x, y = table()
    model = pf.LogisticRegression(classes=[0, 1, 2], epsilon=3.0, inference=False, random_state=0)
    exact = scikit_learn(x, y).score(x, y)
    assert cross_val_score(model, x, y, cv=3).mean() > exact - 0.05


@pytest.mark.parametrize(
    ("classes", "error", "names"),
    [
        ([0], pf.SchemaError, "at least two"),
        ([], pf.SchemaError, "at least two"),
        ([0, 1, 1], pf.SchemaError, "distinct"),
        ([0, 1, "b"], pf.SchemaError, "all numbers"),
        ([0, 1, 3], pf.LabelError, "not declared"),
        ([0, 1], pf.LabelError, "not declared"),
        (None, pf.LabelError, "classes="),
    ],
)
def test_classes_that_do_not_fit(classes, error, names):
    x, y = table(n=300)
    with pytest.raises(error, match=names) as caught:
        pf.LogisticRegression(classes=classes).fit(x, y)
    assert "\n" not in str(caught.value)


def test_more_coefficients_than_rows_support():
    x, y = table(n=30)
    with pytest.raises(pf.TooLittleData, match="57 coefficients"):
        pf.LogisticRegression(classes=list(range(20))).fit(x, y)
    with pytest.raises(pf.TooLittleData, match="147 coefficients"):
        pf.LogisticRegression(classes=list(range(50))).fit(x, y)


def test_two_coefficients_with_one_name_are_refused_before_the_data_are_read():
    x, y = table(n=300)
    frame = pd.DataFrame(x, columns=["b: c", "c"])
    labels = np.array(["z", "a", "a: b"], dtype=object)[y.astype(int)]
    with pytest.raises(pf.SchemaError, match="rename"):
        pf.LogisticRegression(classes=["z", "a", "a: b"]).fit(frame, labels)


def test_what_refuses_classes():
    x, y = table(n=300)
    with pytest.raises(pf.Incompatible, match="NoisyNewton"):
        pf.LogisticRegression(classes=[0, 1, 2], solver="objective-perturbation").fit(x, y)
    with pytest.raises(pf.SchemaError, match="two labels"):
        pf.LinearSVC(classes=[0, 1, 2]).fit(x, y)
    with pytest.raises(pf.Incompatible, match="LogisticRegression"):
        pf.MEstimator(loss=pf.losses.Multinomial(3)).fit(x, y)
    with pytest.raises(pf.Incompatible, match="class response"):
        pf.LinearSVC(loss=pf.losses.Multinomial(3)).fit(x, y > 0)


def test_an_undeclared_label_costs_nothing(tmp_path):
    x, y = table(n=300)
    ledger = pf.Ledger(tmp_path / "ledger.db")
    ledger.grant("people", pf.Budget(2.0, 1e-5))
    before = ledger.remaining("people")
    with pytest.raises(pf.LabelError):
        pf.LogisticRegression(classes=[0, 1], ledger=ledger, dataset="people").fit(x, y)
    assert ledger.remaining("people") == before
