"""The scikit-learn estimators: contract, options, guarantees, bad input."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

import privfit as pf
from privfit.data.synthetic import census, census_schema, linear_model, logistic_model
from tests.small_sample import hc1

ESTIMATORS = [pf.LogisticRegression, pf.LinearRegression, pf.HuberRegressor]
LABELS_ARE_DECLARED = "labels other than 0/1, -1/1 and booleans are declared, not read off the data"
NO_TELLTALE_ERROR = "a row whose response is not finite contributes nothing; an error would tell of it"
NO_TELLTALE_OBJECT = "an error that names the type of a cell would tell of it"
NO_TELLTALE_CELL = "a row with a missing cell contributes nothing to a fit; an error would tell of it"
NO_TELLTALE_WEIGHT = "weights are private; an error would tell that all are 0"
TINY = "a table of fewer rows than coefficients is refused"
ROWS = {
    "check_dtype_object": NO_TELLTALE_OBJECT,
    "check_estimators_nan_inf": NO_TELLTALE_CELL,
    "check_all_zero_sample_weights_error": NO_TELLTALE_WEIGHT,
    "check_sample_weight_equivalence_on_dense_data": TINY,
}
LABELLED_FIT = ROWS | {
    "check_supervised_y_no_nan": NO_TELLTALE_ERROR,
    "check_sample_weights_pandas_series": LABELS_ARE_DECLARED,
    "check_sample_weights_not_an_array": LABELS_ARE_DECLARED,
    "check_sample_weights_shape": LABELS_ARE_DECLARED,
    "check_sample_weights_not_overwritten": LABELS_ARE_DECLARED,
    "check_classifiers_one_label_sample_weights": NO_TELLTALE_WEIGHT,
}
EXPECTED = {
    pf.LinearRegression: ROWS | {"check_supervised_y_no_nan": NO_TELLTALE_ERROR},
    pf.HuberRegressor: ROWS | {"check_supervised_y_no_nan": NO_TELLTALE_ERROR},
    pf.LogisticRegression: LABELLED_FIT
    | {
        "check_classifier_data_not_an_array": LABELS_ARE_DECLARED,
        "check_classifiers_classes": LABELS_ARE_DECLARED,
        "check_estimators_dtypes": LABELS_ARE_DECLARED,
        "check_fit2d_1feature": LABELS_ARE_DECLARED,
    },
}


def assert_fails_as_expected(results, expected):
    failed = {result["check_name"] for result in results if result["status"] == "xfail"}
    ran = {result["check_name"] for result in results}  # older releases of scikit-learn have fewer
    assert failed == set(expected) & ran, "an expected failure passes now; take it off the list"


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_check_estimator(estimator):
    expected = EXPECTED[estimator]
    weighted = estimator(epsilon=1000.0, random_state=0, weight_bound=10.0)  # labels of ten rows are to show
    results = check_estimator(weighted, expected_failed_checks=expected, on_skip=None)
    assert_fails_as_expected(results, expected)


def simulated(estimator, n=4000, seed=1):
    if estimator is pf.LogisticRegression:
        return logistic_model(n, (1.0, -0.5), intercept=0.3, seed=seed)
    return linear_model(n, (1.0, -0.5), intercept=0.3, noise_sd=0.5, seed=seed)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_intervals_hold_the_truth(estimator, relation):
    x, y = simulated(estimator)
    given = {"n_rows": 4000} if relation == "add_remove" else {}
    fit = estimator(budget=pf.Budget.gdp(1.0), relation=relation, random_state=3, **given).fit(x, y)
    interval = fit.result_.conf_int(level=0.9999)
    assert (interval["lower"] < [0.3, 1.0, -0.5]).all()
    assert (interval["upper"] > [0.3, 1.0, -0.5]).all()
    assert (fit.result_.bse < 0.3).all()
    assert fit.result_.privacy.relation == relation


def test_add_remove_needs_less_noise_and_a_public_number_of_rows():
    x, y = simulated(pf.LogisticRegression)
    plans, split = {}, pf.BudgetSplit(bread=0.1, meat=0.05)
    for relation, given in (("replace", {}), ("add_remove", {"n_rows": 4000})):
        fit = pf.LogisticRegression(relation=relation, random_state=0, inference=split, **given).fit(x, y)
        plans[relation] = fit.result_.plan.releases
    for one, other in zip(plans["add_remove"], plans["replace"], strict=True):
        ratio = other.sd / one.sd
        expected = {"gradient": 2.0, "marginals": np.sqrt(8.5) / 2.0}.get(one.kind, np.sqrt(2.0))
        assert ratio == pytest.approx(expected, rel=1e-4)
    with pytest.raises(pf.InvalidArgument, match="n_rows is needed"):
        pf.LogisticRegression(relation="add_remove").fit(x, y)
    with pytest.raises(pf.InvalidArgument, match="n_rows is public"):
        pf.LogisticRegression(n_rows=10).fit(x, y)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_seeded_results_are_marked_and_repeat_and_private_ones_do_neither(estimator):
    x, y = simulated(estimator, n=500)
    one, two = (estimator(random_state=7).fit(x, y) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    for text in (str(one.result_.summary()), one.result_.to_json(), repr(one.result_)):
        assert "NOT PRIVATE" in text
    assert not one.result_.private
    first, second = (estimator().fit(x, y) for _ in range(2))
    assert first.result_.private
    assert (first.coef_ != second.coef_).all()
    assert "NOT PRIVATE" not in str(first.result_.summary()) + first.result_.to_json()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_fit_spends_what_it_says(estimator):
    x, y = simulated(estimator, n=500)
    for budget in (pf.Budget(1.0, 1e-6), pf.Budget(0.1, 1e-9), pf.Budget.gdp(0.3), pf.Budget.zcdp(0.05)):
        fit = estimator(budget=budget, random_state=0).fit(x, y)
        plan = fit.result_.plan
        total = np.sqrt(sum(release.mu**2 for release in plan.releases))
        assert total <= budget.mu
        assert len(fit.result_.releases) == len(plan.releases)
        assert budget.delta_at(1.0) >= 0.0
        statement = fit.result_.privacy
        assert pf.Budget.gdp(plan.mu).delta_at(statement.epsilon) <= statement.delta * (1 + 1e-9)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_pure_budget_buys_a_pure_guarantee_and_inference(estimator):
    """Radial noise everywhere; the epsilons of the releases add up to the budget."""
    x, y = simulated(estimator, n=3000)
    result = estimator(epsilon=50.0, delta=0.0).fit(x, y).result_
    assert result.private
    assert result.privacy.delta == 0.0
    assert "δ = 0" in result.privacy.guarantee
    assert "μ" not in result.privacy.guarantee
    spent = sum(release.epsilon for release in result.plan.releases)
    assert 50.0 * (1 - 1e-9) < spent <= 50.0
    reference = estimator(solver="non-private").fit(x, y).result_.params
    assert (np.abs(result.params - reference) < 6 * result.bse).all()
    assert np.isfinite(result.bse).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_non_private_solver_agrees_with_the_usual_fit(estimator):
    import statsmodels.api as sm

    x, y = simulated(estimator)
    fit = estimator(solver="non-private").fit(x, y)
    exog = sm.add_constant(x)
    if estimator is pf.HuberRegressor:
        weights = np.clip(np.abs(y - fit.predict(x)) / fit.scale_, None, 1.345)
        assert np.mean(weights**2) == pytest.approx(0.7101645, rel=1e-6)
        residual = np.clip((y - fit.predict(x)) / fit.scale_, -1.345, 1.345)
        np.testing.assert_allclose(exog.T @ residual / len(y), 0.0, atol=1e-9)
        return
    model = sm.Logit(y, exog) if estimator is pf.LogisticRegression else sm.OLS(y, exog)
    reference = model.fit(
        cov_type="HC0", **({"disp": 0, "tol": 1e-12} if estimator is pf.LogisticRegression else {})
    )
    np.testing.assert_allclose(fit.result_.params, reference.params, atol=1e-6)
    np.testing.assert_allclose(fit.result_.bse, hc1(reference).bse, rtol=1e-6)
    assert not fit.result_.private
    assert fit.result_.releases == ()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_huge_epsilon_gives_the_non_private_fit(estimator):
    x, y = simulated(estimator)
    exact = estimator(solver="non-private").fit(x, y)
    loud = estimator(epsilon=1e6, delta=1e-6, random_state=0).fit(x, y)
    np.testing.assert_allclose(loud.result_.params, exact.result_.params, atol=2e-3)
    louder = estimator(budget=pf.Budget.gdp(1e7), random_state=0).fit(x, y)
    np.testing.assert_allclose(louder.result_.params, exact.result_.params, atol=1e-6)


def test_without_inference_the_whole_budget_goes_to_the_estimate():
    x, y = simulated(pf.LogisticRegression)
    fit = pf.LogisticRegression(inference=False, random_state=0).fit(x, y)
    assert {release.kind for release in fit.result_.plan.releases} == {
        "marginals",
        "norms",
        "second_moment",
        "bounded_gradient",
    }
    with pytest.raises(pf.Incompatible, match="inference=True"):
        fit.result_.bse  # noqa: B018
    assert "Intercept" in str(fit.result_.summary())


class TestSchema:
    schema = census_schema("income_over_50k")

    @pytest.fixture
    def frame(self):
        return pd.DataFrame(census(3000, seed=4))

    @pytest.fixture
    def complete(self, frame):
        return frame[(frame.notna() & (frame != "")).all(axis=1)]

    def test_fit_predict_from_a_frame(self, frame, complete):
        model = pf.LogisticRegression(schema=self.schema, epsilon=4, random_state=0).fit(frame)
        assert set(model.classes_) == set(self.schema[self.schema.target].levels)
        np.testing.assert_allclose(model.predict_proba(complete).sum(axis=1), 1.0)
        assert set(model.predict(complete)) <= set(model.classes_)
        assert len(model.coef_[0]) == len(model.result_.names) - 1
        accuracy = np.mean(model.predict(complete) == complete[self.schema.target])
        assert accuracy > 0.7

    def test_y_may_stand_apart_or_be_named(self, frame):
        target = self.schema.target
        fits = [
            pf.LogisticRegression(schema=self.schema, random_state=0).fit(*arguments).coef_
            for arguments in ((frame,), (frame, target), (frame.drop(columns=target), frame[target]))
        ]
        np.testing.assert_array_equal(fits[0], fits[1])
        np.testing.assert_array_equal(fits[0], fits[2])

    def test_a_series_names_the_response_that_no_column_is_marked_as(self, frame):
        target = self.schema.target
        marked = pf.LogisticRegression(schema=self.schema, random_state=0).fit(frame).coef_
        columns = self.schema.to_dict()
        bare = pf.Schema(columns | {target: {**columns[target], "target": False}})
        for y in (target, frame[target], pl.Series(target, frame[target].tolist())):
            model = pf.LogisticRegression(schema=bare, random_state=0).fit(frame, y)
            np.testing.assert_array_equal(model.coef_, marked)
            assert model.result_.target == target

    def test_the_mark_comes_before_the_name_of_a_series(self, frame):
        y = (frame["age"] > 40).map({True: "yes", False: "no"})
        levels = {"type": "categorical", "levels": ["no", "yes"], "target": True}
        schema = pf.Schema({"age": self.schema["age"], "old": levels})
        model = pf.LogisticRegression(schema=schema, random_state=0).fit(frame, y)
        assert (y.name, model.result_.target) == ("age", "old")

    @pytest.mark.parametrize("make", [np.asarray, lambda y: y.rename("other"), lambda y: y.rename(None)])
    def test_a_response_without_a_name_is_told_what_to_do(self, frame, make):
        schema = {
            "x": {"type": "numeric", "lower": 0, "upper": 90},
            "y": {"type": "numeric", "lower": 0, "upper": 90},
        }
        data = pd.DataFrame({"x": frame["age"], "y": frame["age"]})
        for y in (make(data["y"]), None):
            with pytest.raises(pf.SchemaError, match="y: the schema marks no response; mark its column"):
                pf.LinearRegression(schema=schema).fit(data, y)

    @pytest.mark.parametrize(("width", "said"), [(1, "1 column;"), (4, "4 columns;")])
    def test_an_array_of_another_width_is_told_the_predictors(self, width, said):
        schema = pf.Schema({name: {"type": "numeric", "lower": -1, "upper": 1} for name in ("a", "y", "b")})
        rule = f"X has {said} an array needs one for each of the 2 predictors, in this order: a, b"
        x = np.random.default_rng(0).uniform(-1, 1, (600, 2))
        y = pd.Series(x[:, 0], name="y")
        with pytest.raises(pf.SchemaError, match=rule):
            pf.LinearRegression(schema=schema).fit(np.zeros((600, width)), y)
        model = pf.LinearRegression(schema=schema, random_state=0).fit(x, y)
        with pytest.raises(pf.SchemaError, match=rule):
            model.predict(np.zeros((5, width)))
        with pytest.raises(pf.SchemaError, match=rule.replace("X", "data")):
            model.result_.predict(np.zeros((5, width)))

    def test_a_schema_may_be_its_declarations_or_their_file(self, frame, complete, tmp_path):
        path = tmp_path / "schema.toml"
        self.schema.to_toml(path)
        forms = (self.schema, self.schema.to_dict(), path, str(path))
        models = [pf.LogisticRegression(schema=form, random_state=0) for form in forms]
        coefs = [model.fit(frame).coef_ for model in models]
        for model, form, coef in zip(models, forms, coefs, strict=True):
            np.testing.assert_array_equal(coef, coefs[0])
            assert model.get_params()["schema"] is form
            assert clone(model).schema == form
            assert model.predict(complete[:5]).shape == (5,)

    @pytest.mark.parametrize("wrong", [5, ["age"], b"schema.toml"])
    def test_what_is_no_schema_is_named(self, frame, wrong):
        rule = f"schema must be a Schema, a mapping of columns or the path .* got {type(wrong).__name__}"
        with pytest.raises(pf.SchemaError, match=rule):
            pf.LogisticRegression(schema=wrong).fit(frame)
        with pytest.raises(pf.SchemaError, match=rule):
            pf.logit("income_over_50k ~ age", frame, schema=wrong)

    def test_a_file_is_fitted_like_its_frame(self, frame, tmp_path):
        frame.to_parquet(tmp_path / "t.parquet")
        frame.to_csv(tmp_path / "t.csv", index=False)
        coefs = [
            pf.LogisticRegression(schema=self.schema, random_state=0).fit(data).coef_
            for data in (frame, tmp_path / "t.parquet", str(tmp_path / "t.csv"))
        ]
        np.testing.assert_array_equal(coefs[0], coefs[1])
        np.testing.assert_array_equal(coefs[0], coefs[2])

    def test_predictions_agree_with_the_reported_coefficients(self, frame, complete):
        schema = census_schema("hourly_wage")
        model = pf.HuberRegressor(schema=schema, random_state=0).fit(frame)
        raw = model.result_.params
        age = complete["age"].clip(*schema["age"].limits)
        inside = age < schema["age"].upper
        change = (model.predict(complete.assign(age=age + 1)) - model.predict(complete))[inside]
        np.testing.assert_allclose(change, raw["age"], rtol=1e-6)

    def test_unbounded_values_change_nothing_beyond_the_bounds(self, frame):
        far = frame.assign(age=frame["age"].where(frame["age"] < 60, 1e9))
        near = frame.assign(age=frame["age"].where(frame["age"] < 60, self.schema["age"].upper))
        fits = [pf.LogisticRegression(schema=self.schema, random_state=0).fit(t).coef_ for t in (far, near)]
        np.testing.assert_array_equal(*fits)


TEXT = {
    "numpy": np.array,
    "bytes": lambda cells: np.array(cells, dtype="S"),
    "column": lambda cells: np.array(cells)[:, None],
    "pandas": lambda cells: pd.Series(cells, dtype="string"),
    "categories": lambda cells: pd.Series(cells, dtype="string").astype("category"),
    "polars": pl.Series,
    "arrow": pa.array,
}


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@pytest.mark.parametrize("form", TEXT)
@pytest.mark.parametrize(
    "model",
    [pf.LinearRegression(), pf.PoissonRegressor(count_bound=5), pf.MEstimator(loss=pf.losses.LogCosh(1.0))],
)
def test_a_response_of_text_is_refused_by_its_type(model, form):
    x, _ = simulated(pf.LinearRegression, n=60)
    messages = set()
    for cells in (["1", "2"] * 30, ["canary", "b"] * 30):
        with pytest.raises(pf.SchemaError, match="y is of a type that holds text; convert it") as caught:
            model.fit(x, TEXT[form](cells))
        messages.add(str(caught.value))
    assert len(messages) == 1


@pytest.mark.parametrize("make", [list, lambda cells: np.array(cells, dtype=object)])
def test_python_objects_are_read_cell_by_cell(make):
    """That one of them is text must not show, so what is no number is a missing response."""
    x, y = simulated(pf.LinearRegression, n=600)
    cells = [*y.tolist()[:-1], None]
    fits = [
        pf.LinearRegression(random_state=0).fit(x, make([*cells[:-1], last])).coef_
        for last in (None, "canary")
    ]
    np.testing.assert_array_equal(*fits)


def test_rows_that_are_not_finite_contribute_nothing():
    x, y = simulated(pf.LinearRegression, n=600)
    dirty_x, dirty_y = x.copy(), y.copy()
    dirty_x[::7, 0], dirty_x[1::7, 1], dirty_y[2::7] = np.nan, np.inf, -np.inf
    usable = np.ones(600, dtype=bool)
    usable[::7] = usable[1::7] = usable[2::7] = False
    dirty = pf.LinearRegression(solver="non-private").fit(dirty_x, dirty_y)
    clean = pf.LinearRegression(solver="non-private").fit(x[usable], y[usable])
    np.testing.assert_allclose(dirty.result_.params, clean.result_.params, atol=1e-9)
    factors = [math.sqrt(n / (n - 3)) for n in (600, usable.sum())]
    np.testing.assert_allclose(
        dirty.result_.bse / factors[0], clean.result_.bse / factors[1], rtol=1e-9
    )  # the number of rows is public
    assert dirty.result_.nobs == 600


CANARY = 987654321.5


@pytest.mark.parametrize(
    ("arguments", "data", "error", "says"),
    [
        ({"epsilon": 0}, None, pf.InvalidArgument, "epsilon"),
        ({"epsilon": -1.0}, None, pf.InvalidArgument, "epsilon"),
        ({"epsilon": "one"}, None, pf.InvalidArgument, "epsilon"),
        ({"delta": 1.0}, None, pf.InvalidArgument, "delta"),
        ({"l2": -1}, None, pf.InvalidArgument, "l2"),
        ({"relation": "nearby"}, None, pf.InvalidArgument, "relation"),
        ({"solver": "magic"}, None, pf.InvalidArgument, "solver"),
        ({"schema": {"a": 1}}, None, pf.SchemaError, "column 'a': a declaration must be a table"),
        ({"norm_bound": 0}, None, pf.InvalidArgument, "norm_bound"),
        ({"norm_bound": 1e200, "solver": "gradient-descent"}, None, pf.InvalidArgument, "norm_bound"),
        ({"classes": 2}, None, pf.InvalidArgument, "classes must be a list of labels, got int"),
        ({"classes": "01"}, None, pf.InvalidArgument, "classes must be a list of labels, got str"),
        ({"classes": {0, 1}}, None, pf.InvalidArgument, "classes must be a list of labels, got set"),
        ({"fit_intercept": "no"}, None, pf.InvalidArgument, "fit_intercept must be True or False, got str"),
        ({"budget": 3}, None, pf.InvalidArgument, "budget"),
        ({"dataset": "d", "ledger": "/nonexistent/ledger.db"}, None, pf.LedgerError, "ledger"),
        ({"dataset": "d", "ledger": 3}, None, pf.InvalidArgument, "a Ledger or the path of a file, got int"),
        ({"dataset": "d", "ledger": "x" * 300}, None, pf.LedgerError, "does not exist"),
        ({}, (np.full((9, 2), CANARY), np.full(9, CANARY)), pf.LabelError, "."),
        ({}, (np.full((9, 2), CANARY), np.full(8, 1)), pf.SchemaError, "."),
        ({}, (np.full((9, 2, 2), CANARY), np.ones(9)), pf.SchemaError, "."),
        ({}, (np.array([[f"x{CANARY}", "b"]] * 9), np.ones(9)), pf.SchemaError, "."),
        ({}, (np.zeros((0, 2)), np.zeros(0)), pf.SchemaError, "0 sample"),
        ({}, (np.full((9, 2), CANARY), None), pf.InvalidArgument, "y is needed"),
        ({}, (np.full((9, 2), CANARY + 0j), np.ones(9)), pf.SchemaError, "Complex data"),
        ({}, (scipy.sparse.csr_array(np.full((9, 2), CANARY)), np.ones(9)), pf.SchemaError, "Sparse data"),
        ({}, (np.zeros((5, 4)), np.array([0, 1, 0, 1, 0])), pf.TooLittleData, "rows"),
    ],
)
def test_bad_input_is_refused_in_one_line_without_a_value(arguments, data, error, says, tmp_path):
    x, y = data if data is not None else simulated(pf.LogisticRegression, n=60)
    with pytest.raises(error, match=says) as caught:
        pf.LogisticRegression(**arguments).fit(x, y)
    message = str(caught.value)
    assert "\n" not in message
    assert "98765" not in message


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: pd.DataFrame(x, columns=["a", "a"]), "two columns of the same name; rename one"),
        (
            lambda x: pa.table([x[:, 0], x[:, 1]], names=["a", "a"]),
            "two columns of the same name; rename one",
        ),
        (lambda x: pd.DataFrame(x, columns=["a", 1]), "convert them all to strings"),
        (lambda x: pl.DataFrame(x, schema=["a", "b"]).lazy(), r"collect\(\) a lazy frame"),
    ],
)
def test_a_frame_of_numbers_is_not_said_to_hold_none(make, says):
    """Repeated names, names that are no text and lazy frames were all "X must hold numbers"."""
    x = np.random.default_rng(0).uniform(size=(50, 2))
    with pytest.raises(pf.SchemaError, match=says):
        pf.LogisticRegression().fit(make(x), (x[:, 0] > 0.5).astype(int))


def test_nothing_is_spent_on_a_refused_fit_and_once_on_a_fit_that_ran(tmp_path):
    ledger = pf.Ledger(tmp_path / "ledger.db")
    ledger.grant("people", pf.Budget(1.0, 1e-6))
    x, y = simulated(pf.LogisticRegression, n=60)
    account = {"ledger": ledger, "dataset": "people"}
    for bad in (np.full(60, 5.0), np.full(59, 1.0)):
        with pytest.raises(ValueError, match=r"label|as long as X"):
            pf.LogisticRegression(**account).fit(x, bad)
    assert ledger.remaining("people") == pf.Budget(1.0, 1e-6)
    pf.LogisticRegression(**account).fit(x, y)
    with pytest.raises(pf.BudgetExceeded):
        pf.LogisticRegression(epsilon=0.1, **account).fit(x, y)


def test_estimators_clone_pickle_and_cross_validate():
    x, y = simulated(pf.LogisticRegression, n=400)
    model = pf.LogisticRegression(epsilon=5.0, random_state=1, l2=0.1)
    assert clone(model).get_params() == model.get_params()
    fitted = model.fit(x, y)
    copy = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_array_equal(copy.predict(x), fitted.predict(x))
    assert cross_val_score(model, x, y, cv=3).shape == (3,)


def test_a_fitted_estimator_holds_no_rows():
    """Its pickle does not grow with the table, and no attribute holds an array of the table's length."""
    sizes = []
    for n in (1000, 20_000):
        x, y = simulated(pf.LogisticRegression, n=n)
        fit = pf.LogisticRegression(random_state=0, solver=pf.solvers.NoisyGradientDescent(n_steps=10)).fit(
            x, y
        )
        sizes.append(len(pickle.dumps(fit)))
        assert all(np.size(value) < 100 for value in vars(fit).values() if isinstance(value, np.ndarray))
    assert abs(sizes[1] - sizes[0]) < 200
