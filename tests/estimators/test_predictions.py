"""Predictions and scores of rows: cells without a prediction, and the scale that scores compare on."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import r2_score

import privfit as pf

ENTRIES = {
    "x": {"type": "numeric", "lower": 0, "upper": 1},
    "g": {"type": "categorical", "levels": ["a", "b"]},
    "cost": {"type": "numeric", "lower": 1, "upper": 1000, "transform": "log"},
    "visits": {"type": "numeric", "lower": 0, "upper": 20},
    "ill": {"type": "categorical", "levels": ["no", "yes"]},
}
MODELS = {
    "ill": [
        pf.LogisticRegression,
        pf.LinearSVC,
        lambda **given: pf.MEstimator(loss=pf.losses.Logistic(), **given),
    ],
    "cost": [
        pf.LinearRegression,
        pf.HuberRegressor,
        pf.QuantileRegressor,
        lambda **given: pf.MEstimator(loss=pf.losses.PseudoHuber(0.5), **given),
    ],
    "visits": [
        pf.PoissonRegressor,
        lambda **given: pf.MEstimator(loss=pf.losses.Poisson(3.0, 20.0), **given),
    ],
}
CASES = [(response, make) for response, models in MODELS.items() for make in models]


def frame(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(size=n), rng.choice(["a", "b"], n)
    line = 1.5 * x + (g == "b")
    return pd.DataFrame(
        {
            "x": x,
            "g": g,
            "cost": np.exp(1 + line + 0.3 * rng.normal(size=n)),
            "visits": rng.poisson(np.exp(line / 2)).astype(float),
            "ill": np.where(rng.logistic(size=n) < line - 1, "yes", "no"),
        }
    )


def fitted(response, make, **given):
    rows = frame()
    schema = pf.Schema({name: ENTRIES[name] for name in ("x", "g", response)})
    model = make(schema=schema, solver="non-private", **given).fit(rows, response)
    return model, rows


def answers(model):
    names = ("predict", "predict_proba", "predict_log_proba", "decision_function")
    return [getattr(model, name) for name in names if hasattr(model, name)]


@pytest.mark.parametrize(("response", "make"), CASES)
@pytest.mark.parametrize(("name", "cell"), [("g", "c"), ("g", None), ("x", np.nan)])
def test_no_row_without_a_prediction_gets_one(response, make, name, cell):
    model, rows = fitted(response, make)
    bad = rows.head(3).copy()
    bad.loc[1, name] = cell
    for ask in answers(model):
        with pytest.raises(pf.SchemaError, match=f"column '{name}' holds"):
            ask(bad)
    with pytest.raises(pf.SchemaError, match=f"column '{name}' holds"):
        model.score(bad, bad[response])


@pytest.mark.parametrize("cell", [np.nan, np.inf])
@pytest.mark.parametrize("make", [pf.LogisticRegression, pf.LinearRegression])
def test_rows_without_a_schema_must_be_finite(make, cell):
    x = frame()[["x"]].to_numpy()
    model = make(solver="non-private").fit(x, (x[:, 0] > 0.4).astype(float))
    for ask in answers(model):
        with pytest.raises(pf.SchemaError, match="X holds a cell that is NaN or infinite"):
            ask(np.array([[0.2], [cell]]))


def test_the_fit_of_unknown_levels_is_silent(recwarn):
    rows = frame()
    rows.loc[:5, "g"], rows.loc[5:10, "x"] = "c", np.nan
    schema = pf.Schema({name: ENTRIES[name] for name in ("x", "g", "ill")})
    pf.LogisticRegression(schema=schema, random_state=0).fit(rows, "ill")
    assert not recwarn.list


@pytest.mark.parametrize(("response", "make"), [case for case in CASES if case[0] != "ill"])
def test_scores_compare_on_the_scale_of_predictions(response, make):
    model, rows = fitted(response, make)
    rows.loc[:4, response] = 1e6  # the fit takes it for the bound
    scale = np.log if response == "cost" else np.asarray
    seen = scale(np.clip(rows[response], ENTRIES[response]["lower"], ENTRIES[response]["upper"]))
    assert model.score(rows, rows[response]) == pytest.approx(r2_score(seen, model.predict(rows)))
    assert model.score(rows, rows[response]) > 0.1


@pytest.mark.parametrize(("response", "make"), CASES)
def test_a_score_takes_what_a_fit_takes(response, make):
    model, rows = fitted(response, make)
    expected = model.score(rows, rows[response].to_numpy())
    assert model.score(rows) == model.score(rows, response) == expected
    assert model.score(rows[["g", "x", response]]) == expected
    with pytest.raises(pf.SchemaError, match=f"^y: the response of the fit is '{response}', got 'x'"):
        model.score(rows, "x")
    with pytest.raises(pf.SchemaError, match=f"column '{response}' is not in the data"):
        model.score(rows[["x", "g"]])


def test_a_score_without_a_schema_needs_responses():
    X = np.random.default_rng(0).normal(size=(100, 2))
    model = pf.LinearRegression(solver="non-private").fit(X, X[:, 0])
    with pytest.raises(pf.InvalidArgument, match="y is needed"):
        model.score(X)


def test_numbers_in_a_column_of_objects_are_levels_whatever_stands_beside_them():
    """One cell turns a column of numbers into one of objects; it must not decide how others are read."""
    rows = frame()
    rows["g"] = np.where(rows["g"] == "a", 1.0, 2.0)
    entries = {"x": ENTRIES["x"], "g": {"type": "categorical", "levels": ["1", "2"]}, "ill": ENTRIES["ill"]}
    other = rows.astype({"g": object})
    other.loc[0, "g"] = "unknown"
    rows.loc[0, "g"] = 9.0
    fits = [
        pf.LogisticRegression(schema=pf.Schema(entries), random_state=0).fit(table, "ill").coef_
        for table in (rows, other)
    ]
    np.testing.assert_array_equal(*fits)


@pytest.mark.parametrize("make", MODELS["ill"])
def test_labels_of_scores_match_declared_ones_as_in_a_fit(make):
    rows = frame()
    ill = (rows["ill"] == "yes").astype(int)
    declared = pf.Schema({"x": ENTRIES["x"], "ill": {"type": "categorical", "levels": ["0", "1"]}})
    model = make(schema=declared, solver="non-private").fit(rows.assign(ill=ill), "ill")
    wanted = np.mean(model.predict(rows) == ill.astype(str))
    for labels in (ill, ill.astype(float), ill.astype(str), ill.astype(object), ill.tolist()):
        assert model.score(rows, labels) == wanted
    with pytest.raises(pf.errors.LabelError):
        model.score(rows, ill.replace({0: 2}))
    with pytest.raises(pf.errors.SchemaError, match="missing label"):
        model.score(rows, ill.astype(float).replace({0.0: np.nan}))


@pytest.mark.parametrize(
    "model",
    [
        pf.LinearRegression(solver="non-private"),
        pf.PoissonRegressor(count_bound=5, solver="non-private"),
        pf.MEstimator(loss=pf.losses.Huber(1.0), solver="non-private"),
    ],
    ids=["ols", "poisson", "m-estimator"],
)
def test_a_missing_response_has_no_score_and_is_named(model):
    rows = np.linspace(-1.0, 1.0, 40)[:, np.newaxis]
    response = np.tile([0.0, 1.0], 20)
    model.fit(rows, response)
    response[3] = np.nan
    with pytest.raises(pf.errors.SchemaError, match="y holds a missing response; drop such rows"):
        model.score(rows, response)


@pytest.mark.parametrize("make", MODELS["ill"])
def test_labels_of_a_score_need_not_be_whole_numbers(make):
    rows = frame()
    labels = np.where(rows["ill"] == "yes", 2.5, 1.5)
    model = make(classes=[1.5, 2.5], solver="non-private").fit(rows[["x"]], labels)
    right = model.predict(rows[["x"]]) == labels
    assert model.score(rows[["x"]], labels) == np.mean(right)
    weight = np.linspace(0.0, 1.0, len(rows))
    assert model.score(rows[["x"]], labels, weight) == pytest.approx(np.average(right, weights=weight))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(rows[["x"]], labels[:1])


@pytest.mark.parametrize(("response", "make"), CASES)
@pytest.mark.parametrize("with_schema", [True, False])
def test_arguments_that_are_set_after_a_fit_change_no_prediction(response, make, with_schema):
    model, rows = fitted(response, make)
    x = rows[["x", "g"]]
    if not with_schema:
        x = rows[["x"]]
        given = {"count_bound": 20.0} if response == "visits" else {}
        y = (
            rows[response] / (1 if response == "visits" else 1000)
            if response != "ill"
            else rows["ill"] == "yes"
        )
        model = make(solver="non-private", **given).fit(x, y)
    before = [answer(x) for answer in answers(model)]
    other = None if with_schema else pf.Schema({"x": ENTRIES["x"], response: ENTRIES[response]})
    model.set_params(schema=other, fit_intercept=False)
    for then, now in zip(before, (answer(x) for answer in answers(model)), strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_loss_or_scale_that_is_set_after_a_fit_changes_no_prediction():
    rows = frame()
    for response, loss, other in (
        ("ill", pf.losses.Logistic(), pf.losses.PseudoHuber(0.5)),
        ("cost", pf.losses.PseudoHuber(0.5), pf.losses.Logistic()),
    ):
        model, _ = fitted(response, pf.MEstimator, loss=loss)
        expected, score = model.predict(rows), model.score(rows, rows[response])
        model.set_params(loss=other)
        np.testing.assert_array_equal(model.predict(rows), expected)
        assert model.score(rows, rows[response]) == score
    huber, _ = fitted("cost", pf.HuberRegressor, scale=0.1)
    estimated, _ = fitted("cost", pf.HuberRegressor)
    scale = estimated.scale_
    assert scale == estimated.result_.scale
    assert (huber.set_params(scale=5.0).scale_, estimated.set_params(scale=5.0).scale_) == (0.1, scale)


def test_names_of_an_earlier_fit_do_not_stay():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(size=(400, 2)), rng.uniform(size=400)
    model = pf.LinearRegression(solver=pf.solvers.OnlineToBatch(), inference=False, random_state=0)
    model.fit(pd.DataFrame(x, columns=["a", "b"]), y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    model.fit(pf.RowStream([(x, y)], n_rows=400, columns=2))
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(x).shape == (400,)


NUMBERS = {name: {"type": "numeric", "lower": -3, "upper": 3} for name in ("b", "a", "y")}
ANOTHER_ORDER = r"is an array, .* had them in another order than the schema; pass a data frame .* of b, a$"


def numbers(*names):
    cells = np.random.default_rng(2).uniform(-1, 1, (300, 2))
    return pd.DataFrame(cells, columns=["a", "b"])[list(names)], pd.Series(cells[:, 0], name="y")


def saved(result):
    return pf.FitResult.from_json(result.to_json())


@pytest.mark.parametrize("made", [pd.DataFrame, dict, pa.Table.from_pandas, pl.from_pandas])
def test_an_array_is_refused_where_the_fitted_table_had_another_order(made):
    """It was taken to be in the order of the schema, silently."""
    x, y = numbers("a", "b")
    model = pf.LinearRegression(schema=NUMBERS, solver="non-private").fit(made(x), y)
    np.testing.assert_allclose(model.predict(x), y, atol=1e-6)
    with pytest.raises(pf.SchemaError, match=f"^X {ANOTHER_ORDER}"):
        model.predict(x.to_numpy())
    for result in (model.result_, saved(model.result_)):
        np.testing.assert_allclose(result.predict(x), y, atol=1e-6)
        for asked in (result.predict, result.decision_function, result.get_prediction, result.get_margeff):
            with pytest.raises(pf.SchemaError, match=f"^data {ANOTHER_ORDER}"):
                asked(x.to_numpy())


@pytest.mark.parametrize("made", [lambda x: x, lambda x: x.assign(c="?"), lambda x: x.to_numpy()])
def test_an_array_is_in_the_order_of_the_schema(made):
    x, y = numbers("b", "a")
    model = pf.LinearRegression(schema=NUMBERS, solver="non-private").fit(made(x), y)
    for predict in (model.predict, model.result_.predict, saved(model.result_).predict):
        np.testing.assert_allclose(predict(x.to_numpy()), y, atol=1e-6)
        np.testing.assert_allclose(predict(x[["a", "b"]]), y, atol=1e-6)


def test_a_formula_does_not_change_the_order_of_arrays():
    for order in (("a", "b"), ("b", "a")):
        x, y = numbers(*order)
        result = pf.ols("y ~ a + b", x.assign(y=y), schema=NUMBERS, solver="non-private")
        for one in (result, saved(result)):
            if order == ("b", "a"):
                np.testing.assert_allclose(one.predict(x.to_numpy()), y, atol=1e-6)
            else:
                with pytest.raises(pf.SchemaError, match=ANOTHER_ORDER):
                    one.predict(x.to_numpy())


def test_no_mean_of_counts_is_predicted_above_their_bound():
    """A slope may lead beyond it where no rows are, or rows that count little; no count has such a mean."""
    schema = {
        "x": {"type": "numeric", "lower": 0, "upper": 40},
        "y": {"type": "numeric", "lower": 0, "upper": 20, "target": True},
    }
    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 2.0, 2_000)
    rows = pd.DataFrame({"x": x, "y": rng.poisson(np.exp(x)).clip(0, 20)})
    model = pf.PoissonRegressor(5.0, delta=1e-6, schema=schema, random_state=0).fit(rows)
    far = pd.DataFrame({"x": [1.0, 40.0]})
    assert model.coef_[0] > 0.5
    for found in (model.predict(far), model.result_.predict(far)):
        assert np.asarray(found)[1] == 20.0
        assert 0.0 < np.asarray(found)[0] < 20.0
    assert model.result_.get_prediction(far).predicted[1] > 20.0
