"""Fits in which a person has several rows, and fits with survey weights."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from sklearn import linear_model

import privfit as pf
from privfit.solvers import BY_NAME
from tests.small_sample import hc1

REAL_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
PEOPLE = 900
SCHEMA = pf.Schema(
    {
        "y": {"type": "numeric", "lower": -4, "upper": 4, "target": True},
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "z": {"type": "numeric", "lower": 0, "upper": 1},
        "w": {"type": "numeric", "lower": 0, "upper": 2},
    }
)
YES = pf.Schema(SCHEMA.to_dict() | {"y": {"type": "numeric", "lower": 0, "upper": 1, "target": True}})


@pytest.fixture(scope="module")
def frame():
    """Rows of persons with 1 to 6 rows, correlated within a person, in any order."""
    rng = np.random.default_rng(3)
    size = rng.integers(1, 7, PEOPLE)
    person = np.repeat(np.arange(PEOPLE), size)
    x, z = rng.uniform(-1, 1, person.size), np.repeat(rng.uniform(0, 1, PEOPLE), size)
    y = 0.3 + 0.6 * x - 0.4 * z + np.repeat(0.3 * rng.normal(size=PEOPLE), size)
    frame = pd.DataFrame(
        {
            "y": y + 0.2 * rng.normal(size=person.size),
            "x": x,
            "z": z,
            "w": rng.uniform(0.1, 2.0, person.size),
            "person": [f"p{k}" for k in person],
        }
    )
    return frame.sample(frac=1, random_state=1, ignore_index=True)


def counting(frame, rows_per_unit, weights):
    size = frame.groupby("person")["y"].transform("size")
    return (frame[weights] if weights else 1.0) / np.maximum(size, rows_per_unit)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("rows_per_unit", [1, 3, 6])
def test_the_exact_fit_is_the_clustered_weighted_one(frame, rows_per_unit, weights):
    options = {"unit": "person", "rows_per_unit": rows_per_unit, "weights": weights, "solver": "non-private"}
    ours = pf.ols("y ~ x + z", frame, schema=SCHEMA, residual_bound=50, **options)
    by_row = counting(frame, rows_per_unit, weights)
    theirs = smf.wls("y ~ x + z", frame, weights=by_row).fit(
        cov_type="cluster", cov_kwds={"groups": frame["person"], "use_correction": False}
    )
    theirs = hc1(theirs, PEOPLE)
    np.testing.assert_allclose(ours.params, theirs.params, atol=1e-6)
    np.testing.assert_allclose(ours.cov_params(), theirs.cov_params(), rtol=1e-6)
    assert ours.nobs == PEOPLE


@pytest.mark.filterwarnings("ignore:cov_type not fully supported")  # weights are no counts here
def test_the_exact_logistic_fit_is_the_clustered_weighted_one(frame):
    data = frame.assign(y=(frame["y"] > 0.2).astype(float))
    ours = pf.logit("y ~ x + z", data, schema=YES, unit="person", weights="w", solver="non-private")
    model = smf.glm(
        "y ~ x + z", data, family=sm.families.Binomial(), freq_weights=np.asarray(counting(data, 1, "w"))
    )
    theirs = model.fit(
        cov_type="cluster", cov_kwds={"groups": data["person"], "use_correction": False}, tol=1e-12
    )
    theirs = hc1(theirs, PEOPLE)
    np.testing.assert_allclose(ours.params, theirs.params, atol=1e-6)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)


def test_the_exact_weighted_fits_are_those_of_scikit_learn(frame):
    x, y, w = frame[["x", "z"]].to_numpy(), frame["y"].to_numpy(), frame["w"].to_numpy()
    options = {"weight_bound": 2.0, "solver": "non-private"}
    ours = pf.LinearRegression(residual_bound=50, **options).fit(x, y, sample_weight=w)
    theirs = linear_model.LinearRegression().fit(x, y, sample_weight=w)
    np.testing.assert_allclose([ours.intercept_, *ours.coef_], [theirs.intercept_, *theirs.coef_], atol=1e-6)
    label = (y > 0.2).astype(int)
    ours = pf.LogisticRegression(**options).fit(x, label, w)
    theirs = linear_model.LogisticRegression(C=1e12, tol=1e-12, max_iter=1000).fit(x, label, sample_weight=w)
    np.testing.assert_allclose(
        [*ours.intercept_, *ours.coef_[0]], [*theirs.intercept_, *theirs.coef_[0]], atol=1e-5
    )
    wls = sm.WLS(y, sm.add_constant(x), weights=w).fit(cov_type="HC1")
    ours = pf.LinearRegression(residual_bound=50, **options).fit(x, y, sample_weight=w)
    np.testing.assert_allclose(ours.result_.bse, wls.bse, rtol=1e-6)


def test_a_large_budget_gives_the_exact_fit(frame):
    options = {"schema": SCHEMA, "unit": "person", "weights": "w"}
    exact = pf.ols("y ~ x + z", frame, solver="non-private", **options)
    private = pf.ols("y ~ x + z", frame, budget=pf.Budget.gdp(1e6), random_state=0, **options)
    np.testing.assert_allclose(private.params, exact.params, atol=1e-3)
    np.testing.assert_allclose(private.bse, exact.bse, rtol=1e-2)


def test_a_pure_budget_says_as_much_of_people_as_one_with_delta(frame):
    """One perturbed minimiser in place of many gradients, which a pure budget pays for one by one."""
    options = {"schema": YES, "unit": "person", "epsilon": 6.0}
    data = frame.assign(y=(frame["y"] > 0.2).astype(float))
    widths = {
        delta: np.median(
            [pf.logit("y ~ x + z", data, delta=delta, random_state=k, **options).bse for k in range(9)]
        )
        for delta in (0.0, 1e-6)
    }
    assert 0.0 < widths[0.0] < 1.2 * widths[1e-6] < np.inf


def test_small_shares_do_not_make_standard_errors_long(frame):
    """Rows count a fortieth on average: the meat is a small part of the bread, and nearly as plain to see."""
    data = pd.concat([frame] * 8, ignore_index=True)
    data["y"], data["w"] = (data["y"] > 0.2).astype(float), 0.05 * data["w"]
    options = {"schema": YES, "weights": "w"}
    exact = pf.logit("y ~ x + z", data, solver="non-private", **options)
    fits = [
        pf.logit("y ~ x + z", data, budget=pf.Budget.gdp(60), random_state=k, **options) for k in range(6)
    ]
    assert np.median([np.max(fit.bse / exact.bse) for fit in fits]) < 1.4
    assert np.median([fit.dof.min() for fit in fits]) > 8.0


def test_all_ways_to_name_a_unit_are_the_same(frame):
    marked = SCHEMA.with_roles(unit="person", weights="w")
    rows = pf.Schema({name: column for name, column in SCHEMA.items() if name != "w"})
    x = frame[["x", "z"]]
    fits = [
        pf.ols("y ~ .", frame, schema=marked, random_state=0),
        pf.ols("y ~ x + z", frame, schema=SCHEMA, unit="person", weights="w", random_state=0),
        pf.LinearRegression(schema=marked, random_state=0).fit(frame).result_,
        pf.LinearRegression(schema=SCHEMA, unit="person", weights="w", random_state=0)
        .fit(frame, "y")
        .result_,
        pf.LinearRegression(schema=rows, weight_bound=2.0, random_state=0)
        .fit(x, frame["y"], sample_weight=frame["w"], groups=frame["person"])
        .result_,
    ]
    for fit in fits:
        np.testing.assert_array_equal(fit.estimate, fits[0].estimate)
        assert fit.nobs == PEOPLE
    assert [fit.plan.unit for fit in fits] == ["person"] * 4 + ["groups"]


def test_the_result_says_what_is_protected(frame):
    fit = pf.ols("y ~ x", frame, schema=SCHEMA, unit="person", rows_per_unit=3, weights="w", epsilon=2)
    assert fit.privacy.unit == "value of person"
    assert "replace one value of person" in fit.privacy.guarantee
    assert "all rows of any one value of person" in fit.privacy.sentence
    text = fit.summary().as_text()
    for words in (
        "No. units:        900",
        "person, counted as up to 3 rows",
        "clustered by person",
        "Weights:          w",
    ):
        assert words in text
    again = pf.FitResult.from_json(fit.to_json())
    assert (again.plan.unit, again.plan.rows_per_unit, again.plan.weights) == ("person", 3, "w")
    assert "900 units" in repr(fit)


def test_a_ledger_holds_to_the_unit_of_its_schema(frame, tmp_path):
    ledger = pf.Ledger(tmp_path / "l.db")
    ledger.grant("survey", pf.Budget(5.0, 1e-5), schema=SCHEMA.with_roles(unit="person"))
    options = {"schema": SCHEMA, "ledger": ledger, "dataset": "survey", "epsilon": 1.0}
    with pytest.raises(pf.PrivfitError, match="was granted with a schema"):
        pf.ols("y ~ x", frame, **options)
    pf.ols("y ~ x", frame, unit="person", **options)
    pf.ols("y ~ x", frame, unit="person", weights="w", **options)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", BY_NAME)
def test_a_solver_protects_people_or_says_that_it_does_not(frame, name, relation):
    solver = BY_NAME[name]
    data = frame.assign(y=(frame["y"] > 0.2).astype(float)) if "sgd" in name else frame
    options = {
        "schema": SCHEMA, "unit": "person", "relation": relation, "solver": name, "inference": False,
        "n_rows": 1000 if relation == "add_remove" else None, "random_state": 0, "delta": 1e-6,
    }  # fmt: skip
    if solver.sums_rows:
        fit = pf.ols("y ~ x + z", data, epsilon=2.0, **options)
        assert np.isfinite(fit.estimate).all()
        assert fit.plan.unit == "person"
    else:
        with pytest.raises(pf.Incompatible, match=r"protects single rows|relation='replace' only"):
            pf.ols("y ~ x + z", data, epsilon=2.0, **options)


@pytest.mark.parametrize("name", BY_NAME)
def test_every_solver_takes_survey_weights(frame, name):
    options = {"schema": SCHEMA, "weights": "w", "solver": name, "inference": False, "random_state": 0}
    fit = pf.ols("y ~ x + z", frame, epsilon=4.0, l2=0.01, **options)
    assert np.isfinite(fit.estimate).all()


def test_rows_of_nobody_count_nothing(frame):
    stray = frame.iloc[:50].assign(person=[None, "", " ", "\t", None] * 10, y=4.0)
    options = {"schema": SCHEMA, "unit": "person", "random_state": 0}
    alone = pf.ols("y ~ x", frame, **options)
    beside = pf.ols("y ~ x", pd.concat([stray, frame], ignore_index=True), **options)
    np.testing.assert_allclose(beside.estimate, alone.estimate, atol=1e-9)
    assert beside.nobs == PEOPLE


def test_a_table_of_nobody_is_refused_by_name(frame):
    nobody = frame.assign(id=[None] * len(frame))
    with pytest.raises(pf.PrivfitError, match="no row has an identifier in 'id'"):
        pf.ols("y ~ x", nobody, schema=SCHEMA, epsilon=1.0, delta=1e-6, unit="id")


def test_the_number_of_rows_of_a_person_stays_private(frame):
    """Everything but the noise follows from the number of persons."""
    more = pd.concat([frame, *[frame[frame["person"] == "p5"]] * 40], ignore_index=True)
    plans = [pf.ols("y ~ x", data, schema=SCHEMA, unit="person").plan for data in (frame, more)]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_number_of_rows_of_one_person_decides_nothing(n):
    """With one row scikit-learn's own refusal came, which tells of it."""
    with pytest.raises(pf.TooLittleData) as caught:
        pf.LinearRegression().fit(np.zeros((n, 1)), np.zeros(n), groups=np.zeros(n))
    assert str(caught.value) == "so few of 'groups' cannot support 2 coefficients; give at least 4"


def test_too_few_people(frame):
    few = frame[frame["person"].isin(["p1", "p2", "p3"])]
    with pytest.raises(pf.TooLittleData, match="so few of 'person' cannot support"):
        pf.ols("y ~ x", pd.concat([few] * 50), schema=SCHEMA, unit="person")


ARRAYS = (np.linspace(-1, 1, 60).reshape(30, 2), np.linspace(0, 1, 30))


@pytest.mark.parametrize(
    ("arguments", "given", "error", "rule"),
    [
        ({}, {"sample_weight": np.ones(30)}, pf.InvalidArgument, "weight_bound is needed"),
        ({"weight_bound": 0.0}, {"sample_weight": np.ones(30)}, pf.InvalidArgument, "must be positive"),
        ({"weight_bound": -1.0}, {}, pf.InvalidArgument, "must be positive"),
        ({"weight_bound": 2.0}, {"sample_weight": np.ones(29)}, pf.SchemaError, "as long as X"),
        ({"weight_bound": 2.0}, {"sample_weight": np.ones((30, 2))}, pf.SchemaError, "one-dimensional"),
        ({}, {"groups": np.ones(29)}, pf.SchemaError, "as long as X"),
        ({"unit": "person"}, {}, pf.InvalidArgument, "fit\\(X, y, groups=...\\)"),
        ({"weights": "w"}, {}, pf.InvalidArgument, "fit\\(X, y, groups=...\\)"),
        ({"rows_per_unit": 3}, {}, pf.InvalidArgument, "goes with unit"),
        ({"rows_per_unit": 0}, {"groups": np.ones(30)}, pf.InvalidArgument, "at least 1"),
    ],
)
def test_what_cannot_be_is_refused(arguments, given, error, rule):
    with pytest.raises(error, match=rule):
        pf.LinearRegression(**arguments).fit(*ARRAYS, **given)


@pytest.mark.parametrize(
    ("role", "part"), [("unit", "identifies the privacy unit"), ("weights", "holds the survey weights")]
)
def test_the_response_has_no_other_part(frame, role, part):
    bare = pf.Schema({name: SCHEMA[name] for name in ("x", "z", "w")})
    rule = f"column 'w' {part} and cannot be the response"
    with pytest.raises(pf.FormulaError, match=rule):
        pf.ols("w ~ x", frame, schema=bare, **{role: "w"})
    with pytest.raises(pf.SchemaError, match=rule):
        pf.LinearRegression(schema=bare, **{role: "w"}).fit(frame, "w")
    for fit in (
        lambda: pf.ols("y ~ x", frame, schema=SCHEMA, **{role: "y"}),
        lambda: pf.LinearRegression(schema=SCHEMA, **{role: "y"}).fit(frame),
    ):
        with pytest.raises(pf.SchemaError, match=f"{role}='y': the schema marks it as the response"):
            fit()


def test_a_predictor_may_be_the_weight(frame):
    assert "w" in pf.ols("y ~ x + w", frame, schema=SCHEMA, weights="w", epsilon=8).params


@pytest.mark.parametrize("role", ["unit", "weights"])
def test_roles_are_names_of_columns(frame, role):
    for given in (frame["w"], ["person"], 3):
        kind = type(given).__name__
        rule = f"{role} must be the name of a column, a text; got {kind}"
        with pytest.raises(pf.InvalidArgument, match=rule):
            pf.ols("y ~ x", frame, schema=SCHEMA, **{role: given})
        with pytest.raises(pf.InvalidArgument, match=rule):
            pf.LinearRegression(schema=SCHEMA, **{role: given}).fit(frame)


def test_a_unit_is_named_once(frame):
    marked = SCHEMA.with_roles(unit="person", weights="w")
    with pytest.raises(pf.InvalidArgument, match="groups: the privacy unit is 'person'"):
        pf.LinearRegression(schema=marked).fit(frame, groups=frame["person"])
    with pytest.raises(pf.InvalidArgument, match="sample_weight: the weights are 'w'"):
        pf.LinearRegression(schema=marked, weight_bound=2.0).fit(frame, sample_weight=frame["w"])


def test_weights_have_one_bound(frame):
    """That of a column is its declared upper bound, and a fit without weights needs none."""
    with pytest.raises(pf.InvalidArgument, match=r"^weight_bound goes .* that of 'w' is the upper bound"):
        pf.LinearRegression(schema=SCHEMA, weights="w", weight_bound=2.0).fit(frame)
    pf.LinearRegression(weight_bound=2.0, solver="non-private").fit(*ARRAYS)


@pytest.mark.parametrize("roles", [{"unit": "person"}, {"weights": "w"}])
def test_a_stream_is_refused(frame, roles):
    stream = pf.RowStream([frame], n_rows=len(frame))
    model = pf.LinearRegression(schema=SCHEMA, solver=pf.solvers.OnlineToBatch(), inference=False, **roles)
    with pytest.raises(pf.Incompatible, match="stream"):
        model.fit(stream)


@pytest.mark.parametrize(
    ("roles", "named"),
    [
        ({"unit": "person"}, "unit"),
        ({"weights": "w"}, "weights"),
        ({"unit": "person", "weights": "w"}, "unit and weights"),
    ],
)
def test_what_a_stream_does_not_keep_is_named(frame, roles, named):
    model = pf.LinearRegression(schema=SCHEMA, solver=pf.solvers.OnlineToBatch(), inference=False, **roles)
    with pytest.raises(pf.Incompatible, match=f"^{named}: a stream of rows is read once"):
        model.fit(pf.RowStream([frame], n_rows=len(frame)))


@pytest.mark.parametrize(("beside", "argument"), [("groups", "unit"), ("sample_weight", "weights")])
def test_what_is_given_beside_a_store_is_named(frame, beside, argument, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    model = pf.LinearRegression(schema=SCHEMA, weight_bound=2.0)
    with pytest.raises(pf.Incompatible, match=f"^{beside}: .* name it with {argument}=$"):
        model.fit(pf.RowCache(tmp_path / "rows.parquet"), "y", **{beside: frame["w"]})


def test_a_response_beside_the_table(frame):
    inside = pf.LinearRegression(schema=SCHEMA, unit="person", random_state=0).fit(frame)
    beside = pf.LinearRegression(schema=SCHEMA, unit="person", random_state=0)
    beside.fit(frame.drop(columns="y"), frame["y"])
    np.testing.assert_array_equal(inside.coef_, beside.coef_)
    np.testing.assert_array_equal(inside.predict(frame), beside.predict(frame))


@pytest.mark.statistical
@pytest.mark.parametrize(("kind", "delta"), [("unit", 1e-6), ("weights", 1e-6), ("unit", 0.0)])
def test_intervals_cover_the_truth(kind, delta):
    """30 fits of 3 coefficients, each 95 %: fewer than 66 of 90 has a chance below 1e-6."""
    covered = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        size = rng.integers(1, 6, 3000) if kind == "unit" else np.ones(3000, dtype=int)
        x = rng.uniform(-1, 1, (size.sum(), 2))
        noise = 0.4 * np.repeat(rng.normal(size=3000), size) + 0.3 * rng.normal(size=size.sum())
        y = 0.2 + x @ [0.5, -0.5] + noise
        given = {"groups": np.repeat(np.arange(3000), size)} if kind == "unit" else {}
        bound = None if kind == "unit" else 3.0
        if bound:
            given = {"sample_weight": rng.uniform(0.5, 3.0, y.size)}
        model = pf.LinearRegression(epsilon=8.0, delta=delta, weight_bound=bound, random_state=seed)
        interval = model.fit(x, y, **given).result_.conf_int()
        covered += int(
            ((interval["lower"] <= [0.2, 0.5, -0.5]) & (interval["upper"] >= [0.2, 0.5, -0.5])).sum()
        )
    assert covered >= 66


@pytest.mark.parametrize("rows_per_unit", [1, 5])
def test_the_rand_health_insurance_experiment(rows_per_unit):
    """5,912 people, 20,190 rows: the exact fit is the cluster-robust one; the private one agrees."""
    path = REAL_DATA / "rand_hie_full.csv.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    data = pd.read_csv(path)
    data["visited"] = (data["mdvis"] > 0).astype(float)
    schema = {
        "visited": {"type": "numeric", "lower": 0, "upper": 1},
        "logc": {"type": "numeric", "lower": 0, "upper": 4.65},
        "xage": {"type": "numeric", "lower": 0, "upper": 65},
        "zper": {"type": "identifier"},
    }
    formula, options = "visited ~ logc + xage", {"schema": schema, "rows_per_unit": rows_per_unit}
    exact = pf.logit(formula, data, solver="non-private", **options)
    assert exact.nobs == 5912
    weights = 1.0 / np.maximum(data.groupby("zper")["zper"].transform("size"), rows_per_unit)
    model = smf.glm(formula, data, family=sm.families.Binomial(), freq_weights=np.asarray(weights))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a covariance with weights that are no counts
        clusters = {"groups": data["zper"], "use_correction": False}
        theirs = hc1(model.fit(tol=1e-12, cov_type="cluster", cov_kwds=clusters), 5912)
    np.testing.assert_allclose(exact.params, theirs.params, atol=1e-6)
    np.testing.assert_allclose(exact.bse, theirs.bse, rtol=1e-5)
    private = pf.logit(formula, data, epsilon=4.0, random_state=0, **options)
    assert (np.abs(private.params - exact.params) < 6.0 * private.bse).all()
    assert (private.bse / exact.bse).between(0.8, 4.0).all()


IDENTIFIERS = [10**17 + k for k in range(400)]
"""Whole numbers that no float tells apart."""


@pytest.mark.parametrize("odd", [0.5, None, float("nan"), "p-1"])
@pytest.mark.parametrize("form", [list, lambda ids: pd.Series(ids, dtype=object)])
def test_how_one_person_is_called_does_not_decide_who_the_others_are(odd, form):
    """The type that NumPy would give all identifiers depends on a single one."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, size=(400, 2))
    fitted = pf.LinearRegression(inference=False, random_state=0)
    found = [
        fitted.fit(x, x[:, 0], groups=form(ids)).result_.nobs
        for ids in (IDENTIFIERS, [odd, *IDENTIFIERS[1:]])
    ]
    missing = odd is None or odd != odd  # noqa: PLR0124 -- NaN
    assert found == [400, 399 if missing else 400]
