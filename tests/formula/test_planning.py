"""Plans without data: stand-in rows, forecasts against fits, budget splits and sample sizes."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import expit

import privfit as pf
from privfit.data.encode import SchemaEncoder
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.forecast import FEWEST_REHEARSALS, MOST_REHEARSALS, Forecast, t_test_power
from privfit.estimators.options import FitOptions
from privfit.estimators.rehearsal import Rehearsal
from privfit.estimators.repeated_rows import RepeatedRows
from privfit.estimators.sample_size import Wanted
from privfit.estimators.split import shortest
from privfit.estimators.stand_in import stand_in_rows
from privfit.planning import cost
from privfit.privacy.composition import compose

SCHEMA = {
    "age": {"type": "numeric", "lower": 20, "upper": 80},
    "gain": {"type": "numeric", "lower": 0, "upper": 1000, "transform": "log1p"},
    "job": {"type": "categorical", "levels": ["a", "b", "c"]},
    "high": {"type": "categorical", "levels": ["no", "yes"]},
    "wage": {"type": "numeric", "lower": 0, "upper": 100},
    "visits": {"type": "numeric", "lower": 0, "upper": 30},
}


COMMON = {"schema": SCHEMA, "model": "logit"}


STAGED = FitOptions(budget=pf.Budget(epsilon=1.0, delta=1e-6))


class Staged:
    """Forecasts standard errors (k,) that depend on the bread alone; the default's where none are given."""

    def __init__(self, errors):
        self.errors = errors

    def forecast(self, options, *, n_rows, rehearsals):
        se = np.array([self.errors.get(options.inference.bread, self.errors[None])])
        return Forecast(("a", "b"), se, np.zeros_like(se), np.full_like(se, math.inf))


def rows(columns, target, kind, **guesses):
    """Stand-in rows of some columns, encoded."""
    schema = pf.Schema({name: SCHEMA[name] for name in (*columns, target)})
    encoder = SchemaEncoder(schema, target=target, target_kind=kind)
    found = stand_in_rows(encoder, schema, Assumptions(**guesses))
    return (found.x, found.y), encoder.design


@pytest.fixture
def fewest_rehearsals(monkeypatch):
    """Forecast small tables as large ones, where noise is a small part of what is forecast."""
    monkeypatch.setattr("privfit.estimators.forecast.MOST_REHEARSALS", FEWEST_REHEARSALS)


@pytest.fixture
def few_splits(monkeypatch):
    """Try one other part each, where a test is not of which split is found."""
    monkeypatch.setattr("privfit.estimators.split.BREADS", (0.12,))
    monkeypatch.setattr("privfit.estimators.split.MEATS", (0.08,))


@pytest.fixture
def source():
    rng = np.random.default_rng(1)
    return ArraySource(rng.normal(size=(50, 3)), rng.normal(size=50), norm_bound=2.0)


def test_a_few_rows_stand_for_many(source):
    many = RepeatedRows(source, 170)

    def kernel(block, out):
        out[0] += np.array([block.x.sum(), block.y.sum()])

    np.testing.assert_allclose(many.sum(kernel, 2), 3.4 * source.sum(kernel, 2))
    assert [block.y.size for block in many.blocks()] == [50, 50, 50, 20]
    np.testing.assert_array_equal(many.take(np.array([3, 53, 153])).y, source.take(np.array([3, 3, 3])).y)
    turned = many.reweighted(np.eye(3), norm_bound=1.0, amplification=9.0)
    assert (turned.n_rows, turned.norm_bound) == (170, 1.0)
    sample = many.sampled(np.zeros, 0.1)
    np.testing.assert_allclose(10.0 * sample.sum(kernel, 2), many.sum(kernel, 2))


def test_assumed_columns_have_the_assumed_moments():
    (x, _), design = rows(
        ["age", "gain", "job"],
        "wage",
        "numeric",
        spread={"age": 0.1},
        shares={"job": [0.7, 0.1, 0.2]},
        correlation=0.5,
    )
    assert design.names == ("Intercept", "age", "log1p(gain)", "job[T.b]", "job[T.c]")
    assert x.mean(axis=0) == pytest.approx([1, 0, 0, 0.1, 0.2], abs=0.01)
    assert x[:, 1].std() == pytest.approx(0.2, rel=0.02)
    assert x[:, 2].std() == pytest.approx(1 / 3, rel=0.02)
    assert np.corrcoef(x[:, 1], x[:, 2])[0, 1] == pytest.approx(0.5, abs=0.02)


def test_shares_can_be_given_by_level():
    by_level = {"c": 0.2, "a": 0.7, "b": 0.1}
    given = ({"job": by_level}, {"job": pd.Series(by_level)}, {"job": [0.7, 0.1, 0.2]})
    (by_name, _), (in_series, _), (in_order, _) = (
        rows(["job"], "wage", "numeric", shares=one)[0] for one in given
    )
    np.testing.assert_array_equal(by_name, in_order)
    np.testing.assert_array_equal(in_series, in_order)
    (_, by_name), (_, in_order) = (
        rows(["age"], "job", "class", mean=one)[0] for one in (by_level, [0.7, 0.1, 0.2])
    )
    np.testing.assert_array_equal(by_name, in_order)


def test_guesses_by_name_may_be_a_series():
    table = {"age": 0.05, "job[T.c]": -1.0}
    (x, y), _ = rows(["age", "job"], "high", "class", coefficients=table, sd={"age": 6.0})
    series = {"coefficients": pd.Series(table), "sd": pd.Series({"age": 6.0})}
    (same, alike), _ = rows(["age", "job"], "high", "class", **series)
    np.testing.assert_array_equal(x, same)
    np.testing.assert_array_equal(y, alike)


def test_a_standard_deviation_can_be_given_in_units_of_the_column():
    (by_part, _), _ = rows(["age", "gain"], "wage", "numeric", spread={"age": 0.1})
    (by_sd, _), _ = rows(["age", "gain"], "wage", "numeric", sd={"age": 6.0})
    np.testing.assert_allclose(by_part, by_sd)


@pytest.mark.parametrize(
    ("guesses", "message"),
    [
        ({"spread": 12.0}, r"fraction of the declared range, at most 0\.5, got 12; .* sd={column"),
        ({"spread": {"age": 0.51}}, "fraction of the declared range"),
        ({"sd": {"age": 31.0}}, "sd of 'age' must be at most half its declared range, 30, got 31"),
        ({"sd": {"gain": 10.0}}, r"sd of 'log1p\(gain\)' must be at most half its declared range, 3\.454"),
        ({"sd": {"age": 10.0}, "spread": {"age": 0.1}}, "spread and sd both hold 'age'"),
        ({"sd": {"job": 1.0}}, "sd names 'job'"),
        ({"sd": {"age": 0.0}}, "sd of 'age' must be positive"),
        ({"sd": 3.0}, "sd must be a mapping by name, got float"),
        ({"center": [3.0]}, "center must be a mapping by name, got list"),
        ({"coefficients": pd.Series([1.0])}, "coefficients must be a mapping by name, got Series"),
        ({"coefficients": {"age": math.inf}}, "coefficient 'age' must lie in"),
        ({"shares": 0.5}, "shares must be a mapping by name, got float"),
        ({"center": {"age": 19.0}}, "center of 'age' must be within its bounds, 20 and 80, got 19"),
        ({"center": {"gain": 1000.5}}, "center of 'gain' must be within its bounds, 0 and 1000"),
        ({"center": {"age": math.nan}}, "center of 'age' must not be NaN"),
        ({"center": {"age": math.inf}}, "center of 'age' must lie in"),
        ({"center": {"job": 1.0}}, "center names 'job', which the schema does not declare numeric"),
    ],
)
def test_impossible_columns_are_refused(guesses, message):
    with pytest.raises(InvalidArgument, match=message):
        rows(["age", "job", "gain"], "wage", "numeric", **guesses)


@pytest.mark.usefixtures("few_rehearsals")
def test_a_plan_says_the_standard_deviations_in_units_of_the_columns():
    planned = pf.plan("high ~ age + gain", n=5000, assumptions=Assumptions(sd={"age": 12.0}), **COMMON)
    assert "standard deviation 12 (age), " in planned.assumptions
    assert "(log1p(gain))" in planned.assumptions
    guesses = Assumptions(sd={"gain": 0.5}, center={"gain": 100.0})
    planned = pf.plan("high ~ age + gain", n=5000, assumptions=guesses, **COMMON)
    assert "standard deviation 10 (age), gain about 100 with standard deviation 0.50 of log1p(gain), " in (
        planned.assumptions
    )


def test_assumed_responses_have_the_assumed_means():
    (_, y), _ = rows(["age", "job"], "high", "class", mean=0.1, signal=2.0)
    assert y.mean() == pytest.approx(0.1, abs=0.003)
    (_, y), design = rows(["age", "job"], "wage", "numeric", mean=40, residual_sd=10, signal=0.0)
    assert y.mean() * design.target.half_width + design.target.center == pytest.approx(40, abs=0.2)
    assert y.std() * design.target.half_width == pytest.approx(10, rel=0.02)
    (_, y), _ = rows(["age", "job"], "visits", "count", mean=4.0)
    assert y.mean() == pytest.approx(4.0, rel=0.01)
    (_, y), _ = rows(["age", "gain"], "job", "class", mean=[0.5, 0.1, 0.4])
    assert np.bincount(y.astype(int)) / y.size == pytest.approx([0.5, 0.1, 0.4], abs=0.01)


def test_the_mean_of_a_response_is_in_its_raw_unit():
    """About it, after the transform: its logarithm is normal, with half of the rows on either side."""
    (_, y), design = rows(["age"], "gain", "numeric", mean=100.0, residual_sd=0.1, signal=0.0)
    half = y.std() * design.target.half_width
    assert y.mean() * design.target.half_width + design.target.center == pytest.approx(np.log1p(100.0), 1e-3)
    assert half == pytest.approx(0.1, rel=0.02)
    for outside in (-1.0, 1001.0):
        with pytest.raises(InvalidArgument, match=r"mean must lie in \[0, 1000\]"):
            rows(["age"], "gain", "numeric", mean=outside)


def test_a_column_is_about_its_centre_after_its_transform():
    (x, _), design = rows(["age", "gain"], "wage", "numeric", center={"age": 40.0, "gain": 9.0}, spread=0.05)
    raw = x * [column.half_width for column in design.columns] + [c.center for c in design.columns]
    assert raw.mean(axis=0) == pytest.approx([1.0, 40.0, np.log(10.0)], rel=1e-3)


def test_given_coefficients_are_those_of_the_stand_in_rows():
    table = {"age": 0.05, "job[T.c]": -1.0}
    (x, y), design = rows(["age", "job"], "high", "class", coefficients=table, mean=0.4)
    b = np.zeros(x.shape[1])
    for _ in range(30):
        chance = expit(x @ b)
        b += np.linalg.solve((x.T * (chance * (1 - chance))) @ x, x.T @ (y - chance))
    matrix, _ = design.reporting_map()
    found = dict(zip(design.names, matrix @ b, strict=True))
    assert found["age"] == pytest.approx(0.05, rel=0.1)
    assert found["job[T.c]"] == pytest.approx(-1.0, abs=0.1)
    assert found["job[T.b]"] == pytest.approx(0.0, abs=0.1)


def test_a_reference_table_stands_in_as_it_is():
    reference = pd.DataFrame({"age": np.linspace(30, 40, 200), "job": ["a", "c"] * 100})
    (x, y), _ = rows(["age", "job"], "high", "class", reference=reference, mean=0.3)
    assert x.shape == (200, 4)
    assert x[:, 1].min() >= (30 - 50) / 30
    assert y.mean() == pytest.approx(0.3, abs=0.01)
    with_response = reference.assign(high=["yes"] * 50 + ["no"] * 150)
    (_, y), _ = rows(["age", "job"], "high", "class", reference=with_response)
    np.testing.assert_array_equal(y, [1.0] * 50 + [0.0] * 150)


def test_rows_of_a_reference_table_with_missing_cells_stand_in_for_nobody():
    age, high = [30.0, None, 50.0, 60.0], ["yes", "no", None, "no"]
    reference = pd.DataFrame({"age": age * 10, "high": high * 10})
    (x, y), _ = rows(["age"], "high", "class", reference=reference)
    np.testing.assert_array_equal(y, [1.0, 0.0] * 10)
    assert np.isfinite(x).all()
    assert len(x) == 20


@pytest.mark.parametrize(
    ("guesses", "message"),
    [
        ({"coefficients": {"agee": 1.0}}, "coefficients names 'agee'"),
        ({"coefficients": {"Intercept": 1.0}}, "the intercept is from mean"),
        ({"coefficients": {}, "signal": 1.0}, "give it or coefficients"),
        ({"spread": {"job": 0.1}}, "spread names 'job'"),
        ({"shares": {"job": [0.5, 0.5]}}, "3 positive numbers, in order or by level"),
        ({"shares": {"job": 0.5}}, "shares of 'job' must be 3 positive numbers"),
        ({"shares": {"job": "abc"}}, "shares of 'job' must be 3 positive numbers"),
        ({"shares": {"job": {"a": 0.5, "b": [0.2], "c": 0.3}}}, "shares of 'job' must be 3 positive numbers"),
        ({"shares": {"job": {"a": 0.5, "b": 0.5}}}, "by level must name all of 'a', 'b', 'c' and no other"),
        ({"shares": {"job": {"a": 0.5, "b": 0.3, "d": 0.2}}}, "shares of 'job' by level must name all of"),
        ({"shares": {"job": [0.5, 0.5, 0.5]}}, "add up to 1"),
        ({"mean": 1.5}, "mean must lie in"),
        ({"correlation": 1.0}, "correlation"),
        ({"spread": 0.0}, "spread must be positive"),
    ],
)
def test_guesses_that_contradict_the_schema(guesses, message):
    with pytest.raises(InvalidArgument, match=message):
        rows(["age", "job"], "high", "class", **guesses)


@pytest.mark.usefixtures("fewest_rehearsals")
@pytest.mark.parametrize("model", ["logit", "huber"])
def test_a_forecast_is_what_fits_report(model):
    """Median widths of 12 fits within 15 % of the forecast; it has no chance but the noise's fixed seeds."""
    target = "high" if model == "logit" else "wage"
    fit = {"logit": pf.logit, "huber": pf.huber}[model]
    schema = pf.Schema({name: SCHEMA[name] for name in ("age", "job", target)})
    widths = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = 4000
        age, job = rng.uniform(35, 65, n), rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
        eta = 0.04 * (age - 50)
        high = np.where(rng.random(n) < expit(eta - 1.45), "yes", "no")
        table = {"age": age, "job": job, "high": high, "wage": 50 + 5 * eta + 6 * rng.normal(size=n)}
        interval = fit(f"{target} ~ age + job", table, schema=schema, epsilon=4, random_state=seed).conf_int()
        widths.append(interval["upper"] - interval["lower"])
    guesses = pf.Assumptions(
        mean=0.2 if model == "logit" else 50,
        coefficients={"age": 0.04 if model == "logit" else 0.2},
        residual_sd=None if model == "logit" else 6,
        spread=30 / math.sqrt(12) / 60,
        shares={"job": [0.6, 0.3, 0.1]},
    )
    planned = pf.plan(
        f"{target} ~ age + job", n=4000, schema=schema, model=model, epsilon=4, assumptions=guesses
    )
    found = np.median(widths, axis=0)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(planned.width, found, rtol=0.15)


@pytest.mark.usefixtures("few_rehearsals")
def test_the_plan_is_the_one_that_the_fit_follows():
    rng = np.random.default_rng(0)
    table = {"age": rng.uniform(20, 80, 900), "high": rng.choice(["no", "yes"], 900)}
    for inference in (True, pf.BudgetSplit(bread=0.3, meat=0.05)):
        arguments = {"schema": SCHEMA, "epsilon": 2.0, "inference": inference}
        planned = pf.plan("high ~ age", n=900, model="logit", **arguments)
        fitted = pf.logit("high ~ age", table, random_state=1, **arguments)
        assert fitted.plan == planned.plan
    assert planned.budget_split["bread"] == pytest.approx(0.3)
    assert planned.budget_split["meat"] == pytest.approx(0.05)
    assert sum(planned.budget_split.values()) == pytest.approx(1.0)
    assert compose(planned.plan.events).within(pf.Budget(2.0, 1e-6))
    assert "bread 30.0 %" in str(planned)


@pytest.mark.usefixtures("few_rehearsals")
@pytest.mark.parametrize("budget", [pf.Budget.gdp(0.5), pf.Budget(2.0, 0.0)], ids=str)
def test_a_split_of_any_budget_is_reported(budget):
    split = pf.BudgetSplit(bread=0.2, meat=0.2)
    planned = pf.plan("high ~ age", n=5000, schema=SCHEMA, model="logit", budget=budget, inference=split)
    assert planned.budget_split["bread"] == pytest.approx(planned.budget_split["meat"])
    assert compose(planned.plan.events).within(budget)


@pytest.mark.parametrize(("bread", "meat"), [(0.0, 0.1), (0.6, 0.4), (1.0, 0.1), (0.1, -0.1)])
def test_a_split_leaves_something_to_the_solver(bread, meat):
    with pytest.raises(InvalidArgument, match=r"bread|meat"):
        pf.BudgetSplit(bread=bread, meat=meat)


@pytest.mark.parametrize("given", [{"mean": 0.2}, 0.2])
def test_assumptions_are_assumptions(given):
    model = {"schema": SCHEMA, "model": "logit", "assumptions": given}
    for ask in (
        lambda: pf.plan("high ~ age", n=900, **model),
        lambda: pf.sample_size("high ~ age", width=0.1, **model),
        lambda: pf.shortest_split("high ~ age", n=900, **model),
    ):
        with pytest.raises(InvalidArgument, match=r"assumptions must be privfit\.Assumptions"):
            ask()


def test_a_target_is_a_name():
    with pytest.raises(InvalidArgument, match="target must be the name of a column, a text; got list"):
        pf.plan(n=900, schema=SCHEMA, model="logit", target=["high"])


def test_a_split_that_starves_a_solver_is_refused():
    split = pf.BudgetSplit(bread=0.4, meat=0.4)
    with pytest.raises(InvalidArgument, match="leaves the solver no budget"):
        pf.plan(
            "high ~ age", n=900, schema=SCHEMA, model="logit", solver="output-perturbation", inference=split
        )


@pytest.mark.parametrize(
    ("solver", "relation"),
    [("newton", "replace"), ("output-perturbation", "replace"), ("gradient-descent", "add_remove")],
)
def test_other_solvers_are_rehearsed_too(solver, relation):
    planned = pf.plan(
        "high ~ age", n=50_000, schema=SCHEMA, model="logit", epsilon=8, solver=solver, relation=relation
    )
    assert np.isfinite(planned.width).all()
    assert (planned.table()["finite"] > 0.9).all()


@pytest.mark.usefixtures("few_rehearsals")
@pytest.mark.parametrize("inference", [True, False])
def test_a_plan_says_that_its_delta_is_large(inference):
    plan, small = (
        pf.plan("high ~ age", n=500, delta=delta, inference=inference, **COMMON)
        for delta in (1 / 500, 1 / 501)
    )
    assert "with n = 500 rows, a guarantee with such a δ" in " ".join(str(plan).split())
    assert "1/n" not in str(small)


def test_without_inference_there_is_no_forecast():
    planned = pf.plan("high ~ age", n=5000, schema=SCHEMA, model="logit", inference=False)
    assert not planned.forecast.known
    assert "without inference" in str(planned)
    assert planned.table().isna().all(axis=None)


def test_more_rows_are_worth_their_root():
    small, large = (
        pf.plan("wage ~ age + job", n=n, schema=SCHEMA, model="ols").table() for n in (10**5, 10**7)
    )
    assert (large["width"] < small["width"] / 8).all()
    np.testing.assert_allclose(large["sampling"], small["sampling"] / 10, rtol=0.3)


def test_too_small_a_budget_says_so(monkeypatch):
    monkeypatch.setattr("privfit.estimators.forecast.MOST_REHEARSALS", 32)
    planned = pf.plan("high ~ age + gain + job", n=300, schema=SCHEMA, model="logit", epsilon=0.1)
    assert (planned.table()["finite"] < 0.5).all()
    assert "hide the coefficient altogether" in " ".join(str(planned).split())
    assert (planned.power(1.0) < 0.5).all()


@pytest.mark.usefixtures("few_rehearsals")
def test_table_html_and_plot():
    planned = pf.plan("high ~ age + job", n=20_000, schema=SCHEMA, model="logit", level=0.9)
    table = planned.table()
    plain = 2 * 1.645 * np.hypot(table["sampling"], table["noise"])
    assert ((0.97 * plain < table["width"]) & (table["width"] < 1.3 * plain)).all()
    html = planned._repr_html_()
    assert "90% width" in html
    assert "job[T.b]" in html
    figure = planned.plot()
    (axes,) = figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == list(planned.names)
    assert len(axes.patches) == 2 * len(planned.names)
    ends = [patch.get_x() + patch.get_width() for patch in axes.patches[len(planned.names) :]]
    np.testing.assert_allclose(ends, table["width"] / (2 * 1.6448536 * table["sampling"]), rtol=1e-6)


@pytest.mark.usefixtures("few_rehearsals")
def test_names_in_plots_are_neither_formulas_nor_boxes(tmp_path):
    schema = {**SCHEMA, "job": {"type": "categorical", "levels": ["a", "$b^{", "北"]}}
    planned = pf.plan("high ~ job", n=20_000, schema=schema, model="logit")
    figure = planned.plot()
    figure.savefig(tmp_path / "plan.png")
    shown = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert shown == ["Intercept", "job[T.$b^{]", r"job[T.\u5317]"]


def test_power_of_a_finite_interval():
    """An effect of half the width of the interval is found every other time, one of 0 as often as allowed."""
    planned = pf.plan("wage ~ age + job", n=10**5, schema=SCHEMA, model="ols", epsilon=4)
    assert planned.power(0.5 * planned.width["age"])["age"] == pytest.approx(0.5, abs=0.05)
    assert planned.power(0.0)["age"] == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(
    ("n", "terms", "options", "rehearsals"),
    [
        (500, "age", {}, 24),
        (4_000, "age", {}, 10),
        (500, "age", {"solver": "gradient-descent", "epsilon": 4.0}, 11),
        (500, "age + job + visits + gain", {}, 20),
        (10_000, "age", {}, 4),
    ],
)
def test_few_rows_are_rehearsed_more_often(n, terms, options, rehearsals, monkeypatch):
    """Many steps take long, and of many coefficients most rehearsals tell alike; a quarter of each here."""
    assert (FEWEST_REHEARSALS, MOST_REHEARSALS) == (16, 96)
    monkeypatch.setattr("privfit.estimators.forecast.FEWEST_REHEARSALS", 4)
    monkeypatch.setattr("privfit.estimators.forecast.MOST_REHEARSALS", 24)
    planned = pf.plan(f"high ~ {terms}", n=n, **options, **COMMON)
    assert len(planned.forecast.se) == rehearsals
    assert f"medians of {rehearsals} fits of simulated rows" in " ".join(str(planned).split())


@pytest.fixture
def short_searches(monkeypatch):
    """Forecast by eight rehearsals and search by four, to the usual tolerance."""
    monkeypatch.setattr("privfit.estimators.forecast.FEWEST_REHEARSALS", 8)
    monkeypatch.setattr("privfit.estimators.forecast.MOST_REHEARSALS", 8)
    monkeypatch.setattr("privfit.estimators.sample_size._SEARCH_REHEARSALS", 4)


@pytest.mark.usefixtures("few_rehearsals")
def test_a_plan_without_a_common_measure_of_its_costs_says_no_parts():
    """As that of objective perturbation with a delta and intervals."""
    planned = pf.plan("high ~ age", n=500, **COMMON)
    assert "Budget:" in str(planned)
    pair, *others = planned.plan.solver_releases
    pair = replace(pair, mu=math.inf, epsilon=0.1, delta=1e-7)
    mixed = replace(planned, plan=replace(planned.plan, solver_releases=(pair, *others)))
    assert all(map(math.isnan, mixed.budget_split.values()))
    assert "nan" not in str(mixed)
    assert "Budget:" not in str(mixed)


@pytest.mark.usefixtures("short_searches")
def test_rows_for_a_width():
    needed = pf.sample_size("high ~ age + job", width=0.02, coefficient="age", epsilon=4, **COMMON)
    assert 0.019 <= needed.planned.width["age"] <= 0.02
    fewer = pf.plan("high ~ age + job", n=needed.n_rows // 2, epsilon=4, **COMMON)
    assert fewer.width["age"] > 0.02
    assert str(needed).startswith(f"Needed: {needed.n_rows:,} rows")


@pytest.mark.usefixtures("few_rehearsals")
def test_rows_for_power_by_name():
    common = {"schema": SCHEMA, "model": "ols", "epsilon": 4}
    needed = pf.sample_size("wage ~ age + job", power=0.8, effect={"job[T.b]": 3}, **common)
    assert 0.8 <= needed.planned.power(3)["job[T.b]"] <= 0.83
    by_name = needed.planned.power({"job[T.b]": -3, "age": 0.01})
    assert by_name.index.tolist() == ["job[T.b]", "age"]
    assert by_name["job[T.b]"] == needed.planned.power(3)["job[T.b]"]
    assert by_name["age"] == needed.planned.power(0.01)["age"] != needed.planned.power(3)["age"]
    for wrong in ({"wage": 3}, {"age": "3"}, {"age": math.nan}, "3"):
        with pytest.raises(InvalidArgument, match=r"'wage' is not in the model|effect must"):
            needed.planned.power(wrong)


@pytest.mark.parametrize("sought", [{}, {"n": 900}])
def test_an_answer_holds_by_the_forecast_that_is_shown(sought, monkeypatch):
    """Where a wide interval is enough, what is sought is that there is one in three of four rehearsals."""
    monkeypatch.setattr("privfit.estimators.sample_size._SEARCH_REHEARSALS", 1)
    monkeypatch.setattr("privfit.estimators.forecast.FEWEST_REHEARSALS", 12)
    monkeypatch.setattr("privfit.estimators.forecast.MOST_REHEARSALS", 12)
    needed = pf.sample_size("high ~ age + job", width=0.5, coefficient="age", **sought, **COMMON)
    assert 0.75 <= needed.planned.table().loc["age", "finite"] <= 0.9
    asked = {"n": needed.n_rows, "budget": needed.budget}
    assert pf.plan("high ~ age + job", **asked, **COMMON).table().equals(needed.planned.table())


@pytest.mark.parametrize("dof", [1.0, 5.0, 100.0, 3e4])
@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0, 5.0])
def test_the_power_of_a_t_test_is_a_tail_of_the_noncentral_t(dof, shift):
    edge = stats.t.ppf(0.975, dof)
    expected = stats.nct.sf(edge, dof, shift) + stats.nct.cdf(-edge, dof, shift)
    found = t_test_power(np.array([shift]), np.array([edge]), np.array([dof]))
    assert found[0] == pytest.approx(expected, abs=1e-3)


def test_the_power_of_a_t_test_is_a_number_for_every_shift():
    shift, dof = (grid.ravel() for grid in np.meshgrid([0.0, 8.0, 12.0, 38.0, 1e6], [0.3, 5.0, 300.0, 1e9]))
    power = t_test_power(shift, stats.t.ppf(0.975, dof), dof)
    assert ((power >= 0.0) & (power <= 1.0)).all()
    assert (power[shift == 1e6] > 1.0 - 1e-6).all()


@pytest.mark.usefixtures("short_searches")
def test_epsilon_for_a_width():
    common = {"schema": SCHEMA, "model": "ols"}
    needed = pf.sample_size("wage ~ age + job", width={"age": 0.1}, n=20_000, **common)
    assert needed.n_rows == 20_000
    assert 0.095 <= needed.planned.width["age"] <= 0.1
    less = pf.plan("wage ~ age + job", n=20_000, epsilon=0.5 * needed.budget.epsilon, **common)
    assert less.width["age"] > 0.1


@pytest.mark.usefixtures("short_searches")
def test_a_width_that_any_budget_buys_is_bought_by_the_least():
    """Its three digits are not one more by the rounding of a logarithm."""
    assert pf.sample_size("wage ~ age", width=1e9, n=10**6, schema=SCHEMA, model="ols").budget.epsilon == 1e-3


@pytest.mark.parametrize(("relation", "factor"), [("replace", 4.0), ("add_remove", 2.0)])
def test_steps_and_rows_for_an_accuracy(relation, factor):
    """T = 4 R^2 C^2 / a^2 and n = 4 R C sqrt(q) / (a mu), half of that for add or remove."""
    mu, accuracy, radius = 0.5, 0.05, 2.0
    found = pf.sample_size(
        "high ~ age", accuracy=accuracy, radius=radius, budget=pf.Budget.gdp(mu), relation=relation, **COMMON
    )
    steepest = math.sqrt(2.0)
    assert found.n_steps == pytest.approx(4 * radius**2 * steepest**2 / accuracy**2, rel=1e-3)
    assert found.n_rows == pytest.approx(
        factor * radius * steepest * math.sqrt(2) / (accuracy * mu), rel=1e-2
    )
    assert found.solver.n_steps == found.n_steps


@pytest.mark.parametrize(
    ("response", "guesses", "message"),
    [
        ("high", {"shares": {"high": [0.8, 0.2]}}, "'high' is the response; give mean="),
        ("wage", {"sd": {"wage": 3.0}}, "'wage' is the response; give residual_sd="),
        ("wage", {"center": {"wage": 3.0}}, "'wage' is the response; give mean="),
        ("high", {"reference": {"age": [30.0] * 9}, "center": {"age": 30.0}}, "what center does"),
        ("wage", {"spread": {"wage": 0.2}}, "'wage' is the response; give residual_sd="),
        ("high", {"reference": {"age": [30.0] * 9}, "shares": {"job": [0.5, 0.3, 0.2]}}, "what shares does"),
        ("high", {"reference": {"age": [30.0] * 9}, "correlation": 0.5}, "what correlation does"),
        (
            "high",
            {"reference": {"age": [30.0] * 9, "high": ["yes"] * 9}, "mean": 0.5},
            "that mean counts for",
        ),
    ],
)
def test_no_guess_counts_for_nothing(response, guesses, message):
    model = "logit" if response == "high" else "ols"
    with pytest.raises(InvalidArgument, match=message):
        pf.plan(f"{response} ~ age", n=500, schema=SCHEMA, model=model, assumptions=pf.Assumptions(**guesses))


@pytest.mark.parametrize("given", ["no", 0.5, None])
def test_plans_check_inference_as_fits_do(given):
    for ask in (lambda **more: pf.plan(n=500, **more), lambda **more: pf.sample_size(width=0.1, **more)):
        with pytest.raises(InvalidArgument, match="inference must be True, False or a BudgetSplit"):
            ask(formula="high ~ age", inference=given, **COMMON)


@pytest.mark.usefixtures("few_rehearsals")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, InvalidArgument, "give one target"),
        ({"width": 1.0, "power": 0.8, "effect": 1.0}, InvalidArgument, "give one target"),
        ({"power": 0.8}, InvalidArgument, "power and effect go together"),
        ({"width": 0.1, "coefficient": "wage"}, InvalidArgument, "'wage' is not in the model"),
        ({"width": {"age": -1.0}}, InvalidArgument, "must be positive"),
        ({"width": {}}, InvalidArgument, "at least one coefficient"),
        ({"power": 0.8, "effect": {}}, InvalidArgument, "at least one coefficient"),
        ({"power": 0.8, "effect": math.inf}, InvalidArgument, "effect must lie in"),
        ({"width": 0.1, "n": 500, "epsilon": 2.0}, InvalidArgument, "leave epsilon and budget out"),
        ({"width": 0.1, "inference": False}, InvalidArgument, "inference must not be False"),
        ({"width": 0.1, "radius": 2.0}, InvalidArgument, "radius goes with accuracy"),
        ({"accuracy": 0.1, "n": 5}, InvalidArgument, "leave width, power, effect and n out"),
        ({"width": 1e-4, "n": 1000}, Incompatible, "plan more rows"),
        ({"width": 1e-9, "epsilon": 1.0}, Incompatible, "a billion rows"),
    ],
)
def test_targets_that_make_no_sense(arguments, error, message):
    with pytest.raises(error, match=message):
        pf.sample_size("high ~ age", **{**COMMON, **arguments})


@pytest.mark.parametrize(("level", "least"), [(0.95, 0.05), (0.99, 0.01), (0.8, 0.2)])
@pytest.mark.parametrize("sought", [{}, {"n": 500}])
def test_a_power_exceeds_the_size_of_the_test(level, least, sought):
    """A test of that size finds an effect with a chance of its size where there is none."""
    for power in (0.5 * least, least):
        with pytest.raises(InvalidArgument, match=rf"power must lie in \({least}, 1\)"):
            pf.sample_size("high ~ age", power=power, effect=1.0, level=level, **sought, **COMMON)
    wanted = Wanted(width=None, power=1.5 * least, effect=1.0, coefficient=None, level=level)
    assert wanted.power == 1.5 * least


def test_which_coefficient_must_be_said():
    with pytest.raises(InvalidArgument, match="coefficient says which"):
        pf.sample_size("high ~ age + job", width=0.1, **COMMON)


def test_a_plan_needs_noise_and_enough_rows():
    with pytest.raises(Incompatible, match="spends nothing"):
        pf.plan("high ~ age", n=500, solver="non-private", **COMMON)
    with pytest.raises(pf.TooLittleData):
        pf.plan("high ~ age", n=3, **COMMON)
    with pytest.raises(InvalidArgument, match="model must be one of"):
        pf.plan("high ~ age", n=500, schema=SCHEMA, model="probit")


def test_information_is_that_of_the_finite_intervals():
    """And none where fewer than half are finite, however short these are."""
    unlimited = np.full((3, 3), math.inf)
    se = np.array([[1.0, 2.0, math.inf], [0.5, math.inf, math.inf], [1.0, 4.0, 0.001]])
    forecast = Forecast(("a", "b", "c"), se, np.zeros((3, 3)), unlimited)
    one = (2.0 * stats.norm.ppf(0.975)) ** -2.0
    np.testing.assert_allclose(forecast.information(0.95), [2.0 * one, 0.3125 / 3.0 * one, 0.0])


def test_widths_are_medians_of_finite_intervals():
    """One fit whose interval is far wider than those of others decides nothing."""
    se = np.array([[1.0, math.inf], [2.0, math.inf], [1e6, math.inf], [math.inf, math.inf]])
    forecast = Forecast(("a", "b"), se, np.full((4, 2), 0.36), np.full((4, 2), math.inf))
    np.testing.assert_allclose(forecast.width(0.95), [4.0 * stats.norm.ppf(0.975), math.inf])
    np.testing.assert_allclose(forecast.noise, [1.2, math.inf])
    np.testing.assert_allclose(forecast.sampling, [1.6, math.inf])


def test_many_rows_have_a_smaller_bread_and_shorter_intervals():
    """Than with the part of the budget that few rows need."""
    common = {"schema": {name: SCHEMA[name] for name in ("age", "wage")}, "epsilon": 0.2}
    n = 50_000
    rng = np.random.default_rng(5)
    table = pd.DataFrame(
        {
            "age": rng.normal(50, 10, n).clip(20, 80),
            "wage": rng.normal(50, 12, n).clip(0, 100),
        }
    )
    fits = [
        [pf.ols("wage ~ age", table, inference=i, random_state=k, **common) for k in range(8)]
        for i in (pf.BudgetSplit(bread=0.18, meat=0.04), True)
    ]
    usual, shorter = (np.mean([fit.bse for fit in one]) for one in fits)
    assert cost(fits[1][0].plan.inference_releases[0]) < 0.1 * fits[1][0].plan.mu ** 2
    assert shorter < 0.97 * usual


@pytest.mark.parametrize("n", [60, 400])
def test_the_default_split_is_kept_where_another_buys_nothing(n, request):
    """With 60 rows no split gives a finite interval; with 400 a smaller bread would be hidden."""
    if n == 60:
        request.getfixturevalue("few_rehearsals")
    assert pf.shortest_split("high ~ age + job", n=n, epsilon=0.3, **COMMON) == pf.BudgetSplit()


def test_a_split_that_turns_infinite_intervals_finite_is_taken():
    rehearsal = Staged({None: [math.inf, 1.0], 0.05: [math.inf, 0.9], 0.26: [2.0, 1.05]})
    assert shortest(rehearsal, STAGED, n_rows=100, level=0.95) == pf.BudgetSplit(bread=0.26)


def test_a_gain_of_less_than_a_hundredth_of_the_width_is_none():
    rehearsal = Staged({None: [1.0, 1.0], 0.05: [0.995, 0.995], 0.26: [2.0, 0.9]})
    assert shortest(rehearsal, STAGED, n_rows=100, level=0.95) == pf.BudgetSplit()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"solver": "non-private"}, Incompatible, "spends nothing"),
        ({"level": 1.0}, InvalidArgument, "level"),
        ({"level": 0.05}, InvalidArgument, "level=0.95"),
        ({"epsilon": 0.0}, InvalidArgument, "epsilon"),
        ({"n": 3}, pf.TooLittleData, "rows"),
    ],
)
def test_a_split_needs_a_plan_that_can_be_made(arguments, error, message):
    with pytest.raises(error, match=message):
        pf.shortest_split("high ~ age", **{**COMMON, "n": 500, **arguments})


@pytest.mark.usefixtures("few_rehearsals", "few_splits")
def test_any_quantile_can_be_planned():
    """A far quantile has wider intervals than the median, and its plan is the one that its fit follows.

    It needs more than twice the rows, which a rough search by two rehearsals shows.
    """
    common = {"schema": SCHEMA, "model": "quantile"}
    median, far = (pf.plan("wage ~ age", n=5000, quantile=q, **common) for q in (None, 0.9))
    assert far.width["age"] > 1.1 * median.width["age"]
    rng = np.random.default_rng(4)
    data = {"age": rng.uniform(20, 80, 5000), "wage": rng.uniform(0, 100, 5000)}
    fitted = pf.quantile("wage ~ age", data, schema=SCHEMA, quantile=0.9, random_state=0)
    assert fitted.plan == far.plan
    found = [
        pf.sample_size("wage ~ age", width=0.5, quantile=q, epsilon=4.0, **common).n_rows for q in (0.5, 0.9)
    ]
    assert 2 * found[0] < found[1]
    assert isinstance(pf.shortest_split("wage ~ age", n=5000, quantile=0.9, **common), pf.BudgetSplit)


@pytest.mark.usefixtures("few_rehearsals", "few_splits")
@pytest.mark.parametrize(
    ("model", "formula", "constant", "argument"),
    [
        ("ols", "wage ~ age", {"residual_bound": 7.0}, "residual_bound"),
        ("huber", "wage ~ age", {"threshold": 3.0}, "threshold"),
        ("quantile", "wage ~ age", {"smoothing_width": 1.5}, "width"),
        ("svm", "high ~ age", {"smoothing_width": 0.3}, "width"),
        ("poisson", "visits ~ age", {"predictor_bound": 1.0}, "predictor_bound"),
    ],
)
def test_a_plan_with_a_constant_is_that_of_the_fit_with_it(model, formula, constant, argument):
    """The fit's plan differs from the one without the constant, so a constant that is lost shows."""
    common = {"schema": SCHEMA, "model": model, "epsilon": 4.0}
    planned = pf.plan(formula, n=3000, **constant, **common)
    rng = np.random.default_rng(6)
    table = {"age": rng.uniform(20, 80, 3000), "wage": rng.uniform(0, 100, 3000)}
    table |= {"high": rng.choice(["no", "yes"], 3000), "visits": rng.poisson(2.0, 3000)}
    arguments = {"schema": SCHEMA, "epsilon": 4.0, argument: next(iter(constant.values()))}
    fitted = getattr(pf, model)(formula, table, random_state=0, **arguments)
    assert fitted.plan == planned.plan
    assert planned.plan != pf.plan(formula, n=3000, **common).plan
    split = pf.shortest_split(formula, n=3000, **constant, **common)
    assert isinstance(split, pf.BudgetSplit)


@pytest.mark.usefixtures("few_rehearsals")
def test_rows_are_looked_for_with_the_constant():
    """A bound on residuals of the size of what is assumed of them takes fewer rows than ten times that."""
    needed = [
        pf.sample_size(
            "wage ~ age", schema=SCHEMA, model="ols", width=0.2, residual_bound=bound, assumptions=guesses
        ).n_rows
        for guesses in [Assumptions(residual_sd=5.0)]
        for bound in (15.0, 150.0)
    ]
    assert 1.5 * needed[0] < needed[1]


@pytest.mark.parametrize(
    ("constant", "takers"),
    [
        ({"residual_bound": 1.0}, "model='ols'"),
        ({"threshold": 1.0}, "model='huber'"),
        ({"smoothing_width": 1.0}, "model='svm' or 'quantile'"),
        ({"predictor_bound": 1.0}, "model='poisson'"),
    ],
    ids=str,
)
def test_a_constant_goes_with_the_models_that_take_it(constant, takers):
    (name,) = constant
    for call, wanted in (
        (pf.plan, {"n": 500}),
        (pf.shortest_split, {"n": 500}),
        (pf.sample_size, {"width": 1}),
    ):
        for model, end in (("logit", "leave it out"), (pf.losses.Logistic(), "a loss has its own")):
            with pytest.raises(InvalidArgument, match=f"^{name} goes with {takers}; {end}"):
                call("high ~ age", schema=SCHEMA, model=model, **wanted, **constant)


@pytest.mark.parametrize(
    ("model", "constant"),
    [
        ("ols", {"residual_bound": 0.0}),
        ("huber", {"threshold": math.nan}),
        ("quantile", {"smoothing_width": -1.0}),
        ("svm", {"smoothing_width": "1"}),
        ("poisson", {"predictor_bound": 51.0}),
    ],
    ids=str,
)
def test_a_constant_is_checked(model, constant):
    formula = "high ~ age" if model == "svm" else "visits ~ age"
    with pytest.raises(InvalidArgument, match=f"^{next(iter(constant))} must"):
        pf.plan(formula, n=500, schema=SCHEMA, model=model, **constant)


@pytest.mark.parametrize("model", ["logit", "ols", pf.losses.SmoothedQuantile(0.5, 0.1)], ids=str)
def test_a_quantile_goes_with_quantile_regression(model):
    for call in (pf.plan, pf.shortest_split):
        with pytest.raises(InvalidArgument, match="quantile goes with model='quantile'"):
            call("wage ~ age", n=5000, schema=SCHEMA, model=model, quantile=0.9)
    with pytest.raises(InvalidArgument, match="quantile goes with model='quantile'"):
        pf.sample_size("wage ~ age", width=0.5, schema=SCHEMA, model=model, quantile=0.9)
    with pytest.raises(InvalidArgument, match="quantile must lie"):
        pf.plan("wage ~ age", n=5000, schema=SCHEMA, model="quantile", quantile=1.0)


@pytest.mark.parametrize(
    ("n", "rule"), [("5", "a whole number, got str"), (0, "at least 1"), (10**13, "at most")]
)
def test_a_number_of_rows_is_called_what_the_argument_is(n, rule):
    with pytest.raises(InvalidArgument, match=f"^n must be {rule}"):
        pf.plan("high ~ age", n=n, **COMMON)
    with pytest.raises(InvalidArgument, match=f"^n must be {rule}"):
        pf.sample_size("high ~ age", n=n, width=0.1, **COMMON)
    with pytest.raises(InvalidArgument, match=f"^n must be {rule}"):
        pf.shortest_split("high ~ age", n=n, **COMMON)


@pytest.mark.usefixtures("few_rehearsals", "few_splits")
def test_plans_take_the_roles_of_columns_as_fits_do():
    weight = {"type": "numeric", "lower": 0, "upper": 5}
    plain = {"schema": SCHEMA | {"wt": weight}, "model": "logit"}
    marked = {
        "schema": SCHEMA | {"wt": weight | {"weight": True}, "pid": {"type": "identifier"}},
        "model": "logit",
    }
    given = {"unit": "pid", "weights": "wt"}
    formula = "high ~ age"
    planned = pf.plan(formula, n=2000, **plain, **given)
    assert planned.plan == pf.plan(formula, n=2000, **marked).plan
    assert planned.plan.unit == "pid"
    wanted = {"width": 0.1}
    found = pf.sample_size(formula, **wanted, **plain, **given)
    assert found.n_rows == pf.sample_size(formula, **wanted, **marked).n_rows
    split = pf.shortest_split(formula, n=2000, **plain, **given)
    assert split == pf.shortest_split(formula, n=2000, **marked)
    table = pd.DataFrame({"age": 50.0, "high": "yes", "wt": 1.0, "pid": np.arange(4000) // 2})
    for rows_per_unit in (1, 2):
        kept = {"schema": {name: plain["schema"][name] for name in ("age", "high", "wt")}, **given}
        fit = pf.logit(formula, table, rows_per_unit=rows_per_unit, **kept)
        promised = pf.plan(formula, n=2000, model="logit", rows_per_unit=rows_per_unit, **kept)
        assert promised.plan == fit.plan
    with pytest.raises(InvalidArgument, match="rows_per_unit"):
        pf.plan(formula, n=2000, **plain, rows_per_unit=2)


WEIGHED = {
    "schema": {
        "age": SCHEMA["age"],
        "pay": {"type": "numeric", "lower": -10, "upper": 10},
        "wt": {"type": "numeric", "lower": 0, "upper": 4},
        "pid": {"type": "identifier"},
    },
    "model": "ols",
    "epsilon": 4.0,
}

PLENTY = WEIGHED | {"epsilon": 1000.0}


@pytest.mark.usefixtures("few_rehearsals")
def test_a_plan_expects_rows_to_count_as_is_assumed():
    def plan(rows_per_unit=1, weights=None, **guesses):
        assumed = Assumptions(residual_sd=1.0, **guesses)
        given = {"rows_per_unit": rows_per_unit, "weights": weights, "assumptions": assumed}
        return pf.plan("pay ~ age", n=4000, **WEIGHED, **given)

    full, half = plan(), plan(weights="wt", mean_weight=2.0)
    assert (half.table()["noise"] > 1.5 * full.table()["noise"]).all()
    pd.testing.assert_frame_equal(plan(rows_per_unit=6, mean_rows=3).table(), half.table())
    both = plan(rows_per_unit=4, weights="wt", mean_rows=2.5, mean_weight=3.2)
    pd.testing.assert_frame_equal(both.table(), half.table())
    for alike in (plan(weights="wt"), plan(rows_per_unit=3), plan(rows_per_unit=3, mean_rows=7.0)):
        pd.testing.assert_frame_equal(alike.table(), full.table())
    assert (
        "survey weights of 4, their bound, at which noise is least: mean_weight" in plan(2, "wt").assumptions
    )
    assert plan(2, "wt").assumptions.endswith(
        "at which noise is least: mean_rows says how many there are on average; these rows alike, for which "
        "intervals are longest: intraclass says how alike they are"
    )
    assert "; survey weights of 3.2, of at most 4, all alike, for which" in both.assumptions
    assert "; 2.5 rows for each value of pid; " in both.assumptions
    assert "weights" not in full.assumptions
    assert "; any number of rows for each value of pid: mean_rows says how many" in full.assumptions


@pytest.mark.usefixtures("few_rehearsals")
def test_uneven_weights_make_sampling_larger():
    """By one plus their squared coefficient of variation, where they have nothing to do with the columns."""

    def plan(**guesses):
        assumed = Assumptions(residual_sd=1.0, mean_weight=1.0, **guesses)
        return pf.plan("pay ~ age", n=400_000, **PLENTY, weights="wt", assumptions=assumed)

    alike, uneven = plan(), plan(sd={"wt": 0.7})
    assert "; survey weights of 0.994 with standard deviation 0.66, of at most 4; " in uneven.assumptions
    wanted = np.sqrt(1.0 + (0.66 / 0.994) ** 2) * alike.table()["sampling"]
    np.testing.assert_allclose(uneven.table()["sampling"], wanted, rtol=0.05)


@pytest.mark.usefixtures("few_rehearsals")
def test_weights_of_a_reference_are_those_of_the_plan():
    wt = np.tile([0.5, 2.5], 500)
    reference = {"age": np.linspace(20.0, 80.0, 1000), "pay": np.sin(np.arange(1000.0)), "wt": wt}

    def plan(table, **guesses):
        assumed = Assumptions(reference=table, **guesses)
        return pf.plan("pay ~ age", n=400_000, **PLENTY, weights="wt", assumptions=assumed)

    uneven, full = plan(reference), plan({name: reference[name] for name in ("age", "pay")})
    assert "; survey weights of 1.5 with standard deviation 1.0, of at most 4; " in uneven.assumptions
    assert "; survey weights of 4, their bound, at which noise is least: mean_weight" in full.assumptions
    ratio = uneven.table()["sampling"] / full.table()["sampling"]
    np.testing.assert_allclose(ratio, np.sqrt(1.0 + (1.0 / 1.5) ** 2), rtol=0.05)
    with pytest.raises(InvalidArgument, match="reference holds the weights, so that mean_weight counts"):
        plan(reference, mean_weight=1.0)
    with pytest.raises(InvalidArgument, match="give mean_weight"):
        pf.plan("pay ~ age", n=4000, **WEIGHED, weights="wt", assumptions=Assumptions(center={"wt": 1.0}))


@pytest.mark.parametrize("mean", [0.3, [0.7, 0.3], np.array([0.7, 0.3]), pd.Series({"no": 0.7, "yes": 0.3})])
def test_a_mean_beside_a_reference_that_holds_the_response_is_refused(mean):
    """Shares of classes as a series or an array were an error of pandas or NumPy."""
    reference = {"age": [30.0, 40.0], "high": ["no", "yes"]}
    assumed = Assumptions(mean=mean, reference=reference)
    with pytest.raises(InvalidArgument, match="reference holds the response, so that mean counts"):
        pf.plan("high ~ age", n=4000, **COMMON, assumptions=assumed)


def test_weights_that_are_a_predictor_have_one_mean():
    assumed = Assumptions(mean_weight=1.0)
    with pytest.raises(InvalidArgument, match="'wt' is a predictor, too; leave it out and give its center"):
        pf.plan("pay ~ age + wt", n=4000, **WEIGHED, weights="wt", assumptions=assumed)


@pytest.mark.parametrize("cells", [{"age": np.nan}, {"age": np.nan, "pay": 3.0}, {"wt": 0.0}, {"wt": np.nan}])
def test_a_reference_of_which_no_row_counts_is_refused(cells):
    """It was divided by their number."""
    table = {name: np.full(20, value) for name, value in {"age": 30.0, "wt": 1.0, **cells}.items()}
    with pytest.raises(InvalidArgument, match="reference has no row that counts"):
        pf.plan("pay ~ age", n=4000, **WEIGHED, weights="wt", assumptions=Assumptions(reference=table))


@pytest.mark.usefixtures("few_rehearsals")
@pytest.mark.parametrize("known", [("age", "pay", "wt"), ("age", "wt"), ()])
def test_weights_may_be_predictors_and_missing(known):
    """A weight that is missing or negative counts for nothing."""
    age, pay, wt = np.linspace(20.0, 80.0, 500), np.sin(np.arange(500.0)), np.linspace(-2.0, 6.0, 500)
    table = {"age": age, "pay": pay, "wt": np.where(np.arange(500) == 499, np.nan, wt)}
    guesses = {"reference": {name: table[name] for name in known}} if known else {"sd": {"wt": 1.0}}
    schema = {**WEIGHED["schema"], "wt": {**WEIGHED["schema"]["wt"], "missing": 0.0}}
    planned = pf.plan(
        "pay ~ age + wt", n=20_000, **WEIGHED | {"schema": schema}, weights="wt",
        assumptions=Assumptions(**guesses),
    )  # fmt: skip
    mean = np.clip(np.append(wt[:-1], 0.0), 0.0, 4.0).mean() if known else 2.0
    assert f"; survey weights of {mean:.3g} with standard deviation" in planned.assumptions
    assert np.isfinite(planned.width).all()


@pytest.mark.usefixtures("few_rehearsals")
def test_a_plan_expects_less_of_sampling_where_rows_of_a_unit_are_not_alike():
    def plan(**guesses):
        assumed = Assumptions(residual_sd=1.0, **guesses)
        return pf.plan("pay ~ age", n=4000, **WEIGHED, rows_per_unit=5, assumptions=assumed)

    alike, apart = plan(), plan(intraclass=0.25)
    assert apart.assumptions.endswith("; an intraclass correlation of 0.25")
    np.testing.assert_allclose(apart.table()["noise"], alike.table()["noise"], rtol=0.05)
    sampling = np.sqrt(0.4) * alike.table()["sampling"]  # and what more noise in the meat adds
    assert (apart.table()["sampling"] >= sampling).all()
    np.testing.assert_allclose(apart.table()["sampling"], sampling, rtol=0.1)
    assert (apart.table()["width"] < alike.table()["width"]).all()
    with pytest.raises(InvalidArgument, match="intraclass goes with units of several rows"):
        pf.plan("pay ~ age", n=4000, **WEIGHED, assumptions=Assumptions(residual_sd=1.0, intraclass=0.0))


@pytest.mark.usefixtures("few_rehearsals")
def test_people_who_count_alike_may_have_several_rows():
    """Each counts by the mean of its rows, whatever their number is."""

    def plan(**options):
        assumed = Assumptions(residual_sd=1.0, mean_rows=5.0, intraclass=0.25)
        return pf.plan("pay ~ age", n=4000, **WEIGHED, assumptions=assumed, **options)

    np.testing.assert_allclose(plan().table()["width"], plan(rows_per_unit=5).table()["width"])


@pytest.mark.statistical
@pytest.mark.usefixtures("fewest_rehearsals")
def test_plans_of_people_with_several_rows_are_what_fits_of_them_report():
    """Rows of a person that have nothing in common, and rows that are the same, within 15 %."""
    kinds = {name: WEIGHED["schema"][name] for name in ("age", "pay", "pid")}
    for intraclass in (0.0, 1.0):
        widths = []
        for seed in range(6):
            pid = np.repeat(np.arange(4000), 4)
            n, drawn = (4000 if intraclass else 16_000), np.random.default_rng(seed)
            age = drawn.normal(50.0, 10.0, n).clip(20.0, 80.0)
            pay = 0.02 * (age - 50.0) + drawn.normal(size=n)
            if intraclass:
                age, pay = np.repeat(age, 4), np.repeat(pay, 4)
            fit = pf.ols(
                "pay ~ age", {"age": age, "pay": pay, "pid": pid}, schema=kinds, unit="pid",
                rows_per_unit=4, epsilon=4.0, random_state=seed,
            )  # fmt: skip
            widths.append(np.ptp(fit.conf_int().to_numpy(), axis=1))
        planned = pf.plan(
            "pay ~ age", n=4000, model="ols", schema=kinds, unit="pid", rows_per_unit=4, epsilon=4.0,
            assumptions=Assumptions(residual_sd=1.0, signal=0.2, intraclass=intraclass),
        )  # fmt: skip
        np.testing.assert_allclose(planned.table()["width"], np.median(widths, axis=0), rtol=0.15)


@pytest.mark.usefixtures("few_rehearsals")
def test_guesses_of_how_rows_count_that_contradict_the_fit_are_refused():
    alone = {**WEIGHED, "schema": {name: WEIGHED["schema"][name] for name in ("age", "pay", "wt")}}
    for guesses, message in (
        ({"mean_weight": 1.0}, "mean_weight goes with weights"),
        ({"mean_rows": 2.0}, "mean_rows goes with unit"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            pf.plan("pay ~ age", n=4000, **alone, assumptions=Assumptions(**guesses))
    for guesses, message in (
        ({"mean_weight": 5.0}, "at most the bound of the weights, 4, got 5"),
        ({"mean_weight": 0.0}, "mean_weight must be positive"),
        ({"mean_rows": 0.5}, "mean_rows must be at least 1"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            pf.plan("pay ~ age", n=4000, **WEIGHED, weights="wt", assumptions=Assumptions(**guesses))


@pytest.mark.usefixtures("fewest_rehearsals")
def test_widths_of_weighted_fits_are_those_of_their_plan():
    """A plan that takes weights to be at their bound expects intervals that are too short."""
    rng = np.random.default_rng(0)
    widths = []
    for seed in range(5):
        table = pd.DataFrame({"age": rng.normal(50, 10, 4000), "wt": rng.uniform(0.4, 3.6, 4000)})
        table["pid"] = np.arange(4000)
        table["pay"] = 0.05 * (table["age"] - 50) + rng.normal(size=4000)
        fit = pf.ols(
            "pay ~ age", table, schema=WEIGHED["schema"], epsilon=4.0, weights="wt", random_state=seed
        )
        widths.append(fit.conf_int().loc["age"] @ [-1.0, 1.0])
    assumed = Assumptions(residual_sd=1.0, mean_weight=2.0)
    planned = pf.plan("pay ~ age", n=4000, **WEIGHED, weights="wt", assumptions=assumed).table()
    assert planned.loc["age", "width"] == pytest.approx(np.median(widths), rel=0.25)
    at_bound = pf.plan("pay ~ age", n=4000, **WEIGHED, weights="wt", assumptions=Assumptions(residual_sd=1.0))
    assert at_bound.table().loc["age", "width"] < 0.75 * np.median(widths)


@pytest.mark.usefixtures("few_rehearsals")
def test_plans_for_units_count_units():
    schema = pf.Schema(SCHEMA | {"person": {"type": "identifier"}})
    common = {"schema": schema, "model": "logit", "epsilon": 8.0}
    assert "No. units:      2000" in str(pf.plan("high ~ age", n=2000, **common))
    found = pf.sample_size("high ~ age", width=0.1, **common)
    assert str(found).startswith(f"Needed: {found.n_rows:,} units")


def test_a_search_that_chance_sends_to_the_end_comes_back_in_few_forecasts(monkeypatch):
    asked = []

    def forecast(_, options, *, n_rows, rehearsals=None):
        asked.append(rehearsals)
        se = np.full((1, 2), math.inf if rehearsals else 1.0 / options.budget.epsilon)
        return Forecast(("Intercept", "age"), se, np.ones_like(se), np.full_like(se, math.inf))

    monkeypatch.setattr(Rehearsal, "forecast", forecast)
    wanted = {"width": {"age": 2.0 * stats.norm.ppf(0.975) / 5.0}}
    found = pf.sample_size("high ~ age", n=1_000, **wanted, **COMMON)
    assert found.budget.epsilon == pytest.approx(5.0, rel=0.011)
    assert asked.count(None) <= 12
