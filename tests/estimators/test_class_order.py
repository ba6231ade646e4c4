"""Classes in scikit-learn's order: its scorers, calibration and searches take ``classes_`` for sorted."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

import privfit as pf
from privfit.data.synthetic import multinomial_model

N = 1500
TWO, THREE = ("low", "high"), ("low", "mid", "high")
ORDERS = [*permutations(TWO), *permutations(THREE)]
X, _OF_THREE = multinomial_model(N, [[1.5, -0.5], [-0.5, 1.2]], intercept=[0.3, -0.2], seed=1)
TABLE = pd.DataFrame(X, columns=["age", "dose"])
CODES = {2: (_OF_THREE == 1).astype(int), 3: _OF_THREE.astype(int)}
LABELS = {2: np.array(TWO, dtype=object)[CODES[2]], 3: np.array(THREE, dtype=object)[CODES[3]]}


def sigmoid(**given):
    return pf.MEstimator(loss=pf.losses.Logistic(), **given)


BINARY = {"logistic": pf.LogisticRegression, "svc": pf.LinearSVC, "m-estimator": sigmoid}
CASES = [(kind, order) for kind in BINARY for order in permutations(TWO)] + [
    ("logistic", order) for order in permutations(THREE)
]


def made(kind, order, *, declared="classes", **given):
    """Return an estimator without noise whose labels are declared in an order."""
    given = {"solver": "non-private", "inference": False} | given
    if declared == "classes":
        return BINARY[kind](classes=list(order), **given)
    number = {"type": "numeric", "lower": -5, "upper": 5}
    label = {"type": "categorical", "levels": list(order), "target": True}
    return BINARY[kind](schema={"age": number, "dose": number, "risk": label}, **given)


def scored(kind, order, scoring, **given):
    return cross_val_score(
        made(kind, order, **given), TABLE, LABELS[len(order)], cv=3, scoring=scoring, error_score="raise"
    )


@pytest.mark.parametrize("declared", ["classes", "schema"])
@pytest.mark.parametrize(("kind", "order"), CASES)
def test_attributes_and_predictions_do_not_depend_on_the_declared_order(kind, order, declared):
    y = LABELS[len(order)]
    fits = [made(kind, one, declared=declared).fit(TABLE, y) for one in (sorted(order), order)]
    ours, theirs = fits[1], fits[0]
    assert ours.classes_.tolist() == sorted(order)
    for name in ("coef_", "intercept_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-6)
    for name in ("decision_function", "predict_proba"):
        if hasattr(theirs, name):
            np.testing.assert_allclose(getattr(ours, name)(TABLE), getattr(theirs, name)(TABLE), atol=1e-6)
    np.testing.assert_array_equal(ours.predict(TABLE), theirs.predict(TABLE))
    assert ours.score(TABLE, y) == np.mean(ours.predict(TABLE) == y)


@pytest.mark.parametrize("declared", ["classes", "schema"])
@pytest.mark.parametrize(("kind", "order"), CASES)
def test_the_result_keeps_the_declared_order(kind, order, declared):
    """Its reference class is the first; columns and signs of the estimator are those of ``classes_``."""
    model = made(kind, order, declared=declared, solver="auto", epsilon=20.0, random_state=3)
    model.fit(TABLE, LABELS[len(order)])
    result, decided = model.result_, model.decision_function(TABLE)
    found = result.decision_function(TABLE)
    if len(order) == 2:
        sign = 1.0 if model.classes_[1] == order[1] else -1.0
        np.testing.assert_allclose(decided, sign * found, rtol=1e-6, atol=1e-9)
        np.testing.assert_array_equal([*model.intercept_, *model.coef_[0]], sign * result.params.to_numpy())
        np.testing.assert_array_equal(model.predict(TABLE), np.array(order)[(found > 0).astype(int)])
    else:
        assert [name.split(":")[0] for name in result.names[::3]] == list(order[1:])
        np.testing.assert_allclose(decided, found[list(model.classes_)], rtol=1e-6, atol=1e-9)
        rows = dict(zip(model.classes_, np.column_stack([model.intercept_, model.coef_]), strict=True))
        for k, label in enumerate(order[1:]):
            difference = rows[label] - rows[order[0]]
            np.testing.assert_allclose(difference, result.estimate[3 * k : 3 * k + 3], atol=1e-12)
    if hasattr(model, "predict_proba"):
        shares, means = model.predict_proba(TABLE), result.predict(TABLE)
        for label in order if len(order) == 3 else order[1:]:
            column = shares[:, list(model.classes_).index(label)]
            np.testing.assert_allclose(column, means[f"P({label})"] if len(order) == 3 else means, rtol=1e-6)


@pytest.mark.parametrize("declared", ["classes", "schema"])
@pytest.mark.parametrize(("kind", "order"), [case for case in CASES if len(case[1]) == 2])
def test_a_ranking_is_scored_the_right_way_round(kind, order, declared):
    """It was 1 minus that, for labels whose negative one comes last in the alphabet."""
    assert scored(kind, order, "roc_auc", declared=declared).min() > 0.7
    if kind == "logistic":
        assert scored(kind, order, "neg_log_loss", declared=declared).min() > -0.6
        assert scored(kind, order, "roc_auc_ovr", declared=declared).min() > 0.7


@pytest.mark.parametrize("declared", ["classes", "schema"])
@pytest.mark.parametrize("order", list(permutations(THREE)))
def test_probabilities_of_classes_are_scored_by_their_columns(order, declared):
    model = made("logistic", order, declared=declared).fit(TABLE, LABELS[3])
    shares = model.predict_proba(TABLE)
    assert scored("logistic", order, "neg_log_loss", declared=declared) == pytest.approx(
        -log_loss(LABELS[3], shares, labels=sorted(order)), abs=0.1
    )
    assert scored("logistic", order, "roc_auc_ovr", declared=declared) == pytest.approx(
        roc_auc_score(LABELS[3], shares, multi_class="ovr", labels=sorted(order)), abs=0.05
    )
    assert roc_auc_score(LABELS[3] == "high", shares[:, 0]) > 0.75


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_calibration(kind, order):
    y = LABELS[len(order)]
    model = CalibratedClassifierCV(made(kind, order, declared="schema"), cv=3).fit(TABLE, y)
    assert model.classes_.tolist() == sorted(order)
    shares = model.predict_proba(TABLE)
    for k, label in enumerate(sorted(order)):
        assert roc_auc_score(y == label, shares[:, k]) > 0.65
    assert model.score(TABLE, y) > made(kind, order).fit(X, y).score(X, y) - 0.05


@pytest.mark.parametrize(("kind", "order"), CASES)
def test_a_search_finds_the_better_model(kind, order):
    """A fit that is nearly all noise was chosen where it ranks rows less badly the wrong way round."""
    scorings = ["roc_auc"] if len(order) == 2 else ["roc_auc_ovr"]
    for scoring in scorings + ["neg_log_loss"] * (kind == "logistic"):
        model = made(kind, order, declared="schema", solver="auto", random_state=0)
        search = GridSearchCV(model, {"epsilon": [0.01, 1e4]}, scoring=scoring, cv=2)
        assert search.fit(TABLE, LABELS[len(order)]).best_params_ == {"epsilon": 1e4}
        assert search.cv_results_["mean_test_score"][1] > {"neg_log_loss": -1.0}.get(scoring, 0.7)


@pytest.mark.parametrize(
    "order", [(True, False), (1, 0), (1, -1), (10, 9), (2.0, 1), ("b", "B"), ("10", "9"), (3, 10, 1)]
)
def test_labels_of_one_kind_are_sorted_by_it(order):
    """Text as NumPy sorts it, by code points, and numbers by their size."""
    y = np.array(order)[CODES[len(order)]]
    model = made("logistic", order).fit(X, y)
    assert model.classes_.tolist() == np.unique(y).tolist()
    assert model.score(X, y) > 0.6
    assert cross_val_score(made("logistic", order), X, y, cv=3, scoring="roc_auc_ovr").min() > 0.7


@pytest.mark.parametrize("mixed", [["a", 1], [True, "no"], [0, False], ["a", 1, 2.5]])
def test_labels_that_have_no_order_are_refused(mixed):
    with pytest.raises(pf.SchemaError, match="all text, all numbers or all true/false"):
        made("logistic", mixed).fit(X, LABELS[2])


def test_no_minus_sign_where_there_is_nothing():
    model = made("svc", TWO, fit_intercept=False).fit(TABLE, LABELS[2])
    assert not np.signbit(model.intercept_).any()
    assert model.predict(TABLE[:1] * 0.0).tolist() == ["high"]


@pytest.mark.parametrize("method", ["predict_proba", "decision_function", "predict"])
@pytest.mark.parametrize("order", ORDERS)
def test_predictions_of_held_out_rows_where_the_table_holds_the_labels(order, method):
    """Given apart, scikit-learn puts numbers in their place for all methods but ``predict``."""
    y = LABELS[len(order)]
    found = cross_val_predict(
        made("logistic", order, declared="schema"), TABLE.assign(risk=y), cv=3, method=method
    )
    fitted = getattr(made("logistic", order, declared="schema").fit(TABLE, y), method)(TABLE)
    assert found.shape == fitted.shape
    if method == "predict":
        assert np.mean(found == fitted) > 0.95
    else:
        assert np.corrcoef(np.ravel(found), np.ravel(fitted))[0, 1] > 0.95


@pytest.mark.parametrize("order", [*permutations(TWO), *permutations(THREE)])
def test_logarithms_of_probabilities_are_finite_far_out(order):
    """Where a probability itself is 0 in floating point; elsewhere they are its logarithm."""
    model = made("logistic", order).fit(X, LABELS[len(order)])
    found = model.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(found), model.predict_proba(X), rtol=1e-12)
    far = model.predict_log_proba(np.array([[1e4, 1e4], [-1e4, -1e4]]))
    assert np.isfinite(far).all()
    assert far.min() < -745.0
    np.testing.assert_allclose(np.exp(far).sum(axis=1), 1.0)
