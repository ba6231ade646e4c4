"""Bounds that are learned: from any table, at the price of the plan, and without a word about a cell."""

import pickle
import tomllib
import warnings

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.data import coded
from privfit.data.draft import Draft
from privfit.data.encode import SchemaEncoder
from privfit.privacy.composition import compose

N = 6000
NUM = {"type": "numeric"}
DRAFT = {
    "age": NUM,
    "income": NUM | {"lower": 0},
    "gain": NUM | {"transform": "log1p", "missing": 0},
    "height": NUM | {"lower": 1, "upper": 2.5},
    "sex": {"type": "categorical", "levels": ["f", "m"]},
}
LEARNED = ("age", "income", "gain")
SEEDED = {"epsilon": 1.0, "random_state": 5}
BUDGETS = {
    "pure": pf.Budget(2.0),
    "pair": pf.Budget(1.0, 1e-6),
    "gdp": pf.Budget.gdp(0.3),
    "zcdp": pf.Budget.zcdp(0.05),
}


def people(n=N, seed=3):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 91, n).astype(float),
            "income": np.exp(10 + 0.5 * rng.normal(size=n)),
            "gain": np.where(rng.random(n) < 0.3, 0.0, np.exp(3 * rng.normal(size=n))),
            "height": rng.normal(1.7, 0.1, n),
            "sex": rng.choice(["f", "m"], n),
            "person": [f"p{k // 2}" for k in range(n)],
            "weight": rng.uniform(0, 2, n),
        }
    )


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def seeded(table):
    return pf.learn_bounds(table, DRAFT, **SEEDED)


@pytest.fixture
def ledger(tmp_path):
    one = pf.Ledger(tmp_path / "account.db")
    one.grant("people", pf.Budget(5.0, 1e-5))
    return one


def stored(table, folder, form):
    if form == "csv":
        table.to_csv(folder / "rows.csv", index=False)
        return folder / "rows.csv", {}
    if form == "bare csv":
        table.to_csv(folder / "rows.csv", index=False, header=False, sep=";")
        return str(folder / "rows.csv"), {"columns": list(table.columns), "header": False, "sep": ";"}
    if form == "parquet":
        table.to_parquet(folder / "rows.parquet")
        return folder / "rows.parquet", {}
    if form == "cache":
        table.to_parquet(folder / "rows.parquet")
        return pf.RowCache(folder / "rows.parquet", storage="float64"), {}
    if form == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=3), {}
    return {
        "pandas": table,
        "mapping": {name: table[name].to_numpy() for name in table},
        "lists": {name: table[name].tolist() for name in table},
    }[form], {}


@pytest.mark.parametrize(
    "form", ["pandas", "mapping", "lists", "csv", "bare csv", "parquet", "cache", "dask"]
)
def test_every_form_of_a_table_has_the_same_bounds(table, seeded, tmp_path, form):
    data, options = stored(table, tmp_path, form)
    if form == "dask":
        import dask

        with dask.config.set(scheduler="synchronous"):
            learned = pf.learn_bounds(data, DRAFT, **SEEDED, **options)
    else:
        learned = pf.learn_bounds(data, DRAFT, **SEEDED, **options)
    pd.testing.assert_frame_equal(learned.bounds, seeded.bounds)
    assert learned.schema == seeded.schema
    assert learned.plan == seeded.plan


def test_arrays_have_names_or_get_them(table):
    numbers = table[["age", "income"]].to_numpy()
    named = pf.learn_bounds(numbers, {"age": NUM, "income": NUM}, columns=["age", "income"], **SEEDED)
    unnamed = pf.learn_bounds(numbers, {"x0": NUM, "x1": NUM}, **SEEDED)
    np.testing.assert_array_equal(named.bounds, unnamed.bounds)
    assert list(unnamed.schema) == ["x0", "x1"]


def test_drafts_in_files_are_drafts(table, seeded, tmp_path):
    Draft.of(DRAFT).to_toml(tmp_path / "draft.toml")
    learned = pf.learn_bounds(table, tmp_path / "draft.toml", **SEEDED)
    pd.testing.assert_frame_equal(learned.bounds, seeded.bounds)


def test_bounds_are_those_of_the_rows(table, seeded):
    bounds = seeded.bounds
    assert list(bounds.index) == list(LEARNED)
    assert list(bounds.columns) == ["lower", "upper"]
    for name in LEARNED:
        lower, upper = bounds.loc[name]
        inside = table[name].between(lower, upper)
        assert inside.mean() > 0.99, name
        usual = table[name].quantile(0.999)
        assert upper < (np.expm1(2.5 * np.log1p(usual)) if name == "gain" else 5 * usual), name
    assert bounds.loc["income", "lower"] == 0.0
    assert bounds.loc["age", "lower"] > -20.0
    assert bounds.loc["gain", "lower"] > -1.0


def test_the_schema_holds_all_declarations(seeded):
    schema = seeded.schema
    assert list(schema) == list(DRAFT)
    assert (schema["height"].lower, schema["height"].upper) == (1.0, 2.5)
    assert (schema["gain"].transform, schema["gain"].missing) == ("log1p", 0.0)
    assert schema["sex"].levels == ("f", "m")
    for name in LEARNED:
        assert (schema[name].lower, schema[name].upper) == tuple(seeded.bounds.loc[name])


def test_fits_take_the_schema(table, seeded):
    schema, options = seeded.schema, {"epsilon": 8.0, "random_state": 1}
    result = pf.ols("income ~ age + gain + C(sex)", table, schema=schema, **options)
    exact = pf.ols("income ~ age + gain + C(sex)", table, schema=schema, solver="non-private")
    assert np.isfinite(result.params).all()
    assert abs(exact.params["Intercept"]) < 1e6
    model = pf.LinearRegression(schema=schema, **options).fit(table, "age")
    assert np.isfinite(model.coef_).all()


def test_a_response_may_be_learned(table):
    draft = {"age": NUM, "height": NUM | {"target": True}}
    learned = pf.learn_bounds(table, draft, **SEEDED)
    assert learned.schema.target == "height"
    assert pf.LinearRegression(schema=learned.schema, random_state=1).fit(table).coef_.size == 1


def test_the_same_seed_gives_the_same_bounds_and_none_gives_others(table, seeded):
    again = pf.learn_bounds(table, DRAFT, **SEEDED)
    assert again.bounds.equals(seeded.bounds)
    others = [pf.learn_bounds(table, DRAFT, epsilon=1.0, random_state=k) for k in range(4)]
    assert len({other.bounds.to_json() for other in others}) > 1


def test_the_order_of_rows_and_the_columns_beside_them_do_not_matter(table, seeded):
    other = table.sample(frac=1, random_state=2)[[*reversed(LEARNED)]]
    pd.testing.assert_frame_equal(pf.learn_bounds(other, DRAFT, **SEEDED).bounds, seeded.bounds)


def test_numbers_may_be_kept_in_single_precision(table, seeded, monkeypatch):
    monkeypatch.setattr(coded, "MANY_ROWS", N)
    pd.testing.assert_frame_equal(pf.learn_bounds(table, DRAFT, **SEEDED).bounds, seeded.bounds)


def test_nothing_is_promised_of_seeded_noise(table, seeded):
    assert not seeded.private
    assert not seeded.privacy.private
    assert seeded.privacy.guarantee.startswith("none")
    mark = "NOT PRIVATE (seeded noise)"
    shown = seeded.summary()
    for text in (str(seeded), repr(seeded), shown.as_text(), shown.as_html(), seeded._repr_html_()):
        assert mark in text
        assert "publish" not in text.replace("do not release", "")
    assert "NOT PRIVATE" in shown.as_latex()


def test_the_guarantee_is_said_in_numbers_and_words(table):
    learned = pf.learn_bounds(table, DRAFT, epsilon=1.0, delta=1e-6, unit="person")
    assert learned.private
    assert learned.privacy.mark is None
    assert learned.privacy.unit == "value of person"
    assert (learned.privacy.epsilon, learned.privacy.delta) == (1.0, 1e-6)
    text = " ".join(str(learned).split())
    assert "NOT PRIVATE" not in text
    for words in (
        "No. units:",
        "-DP, replace one value of person; μ =",
        "all rows of any one value of person",
        "operating system's entropy",
        *LEARNED,
    ):
        assert words in text
    assert "height" not in text


def test_what_is_learned_can_be_kept(seeded, tmp_path):
    again = pickle.loads(pickle.dumps(seeded))  # noqa: S301
    assert str(again) == str(seeded)
    assert again.schema == seeded.schema
    seeded.to_toml(tmp_path / "schema.toml")
    assert pf.Schema.from_toml(tmp_path / "schema.toml") == seeded.schema


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", BUDGETS)
def test_a_plan_is_within_every_budget(table, name, relation):
    options = {"budget": BUDGETS[name], "relation": relation, "random_state": 2}
    options["n_rows"] = 5500 if relation == "add_remove" else None
    learned = pf.learn_bounds(table, DRAFT, **options)
    assert compose(learned.plan.events).within(BUDGETS[name])
    assert learned.plan.relation == relation
    assert learned.plan.n_rows == (5500 if relation == "add_remove" else N)
    assert learned.privacy.notion == BUDGETS[name].notion
    assert not learned.bounds.isna().any(axis=None)


@pytest.mark.parametrize("columns", [1, 7, 60])
@pytest.mark.parametrize("name", BUDGETS)
def test_any_number_of_columns_is_within_the_budget(name, columns):
    x = np.random.default_rng(1).normal(size=(200, columns))
    draft = {f"x{k}": NUM for k in range(columns)}
    learned = pf.learn_bounds(x, draft, budget=BUDGETS[name], random_state=1)
    assert compose(learned.plan.events).within(BUDGETS[name])
    assert len(learned.bounds) == columns


def spent(ledger):
    return ledger.spent("people").gaussian


def watched(method, ledger, seen):
    def wrapper(self, table, *rest):
        seen.append((table.n_rows, spent(ledger)))
        return method(self, table, *rest)

    return wrapper


def watch(monkeypatch, ledger):
    seen = []
    for name in ("encode_predictors", "encode_coded", "encode_target"):
        monkeypatch.setattr(SchemaEncoder, name, watched(getattr(SchemaEncoder, name), ledger, seen))
    return seen


@pytest.mark.parametrize("unit", [None, "person"])
def test_the_ledger_is_charged_the_plan_before_a_row_is_encoded(monkeypatch, table, ledger, unit):
    seen = watch(monkeypatch, ledger)
    learned = pf.learn_bounds(table, DRAFT, epsilon=1.0, unit=unit, ledger=ledger, dataset="people")
    assert ledger.spent("people") == compose(learned.plan.events)
    assert {rows for rows, _ in seen} == {0, N}
    assert all((cost > 0) == (rows > 0) for rows, cost in seen)
    (entry,) = ledger.export()["reservations"]
    assert entry["committed_at"] is not None
    assert entry["note"] == "bounds of columns"
    assert entry["unit"] == unit


def test_seeds_are_noted_in_the_ledger(table, ledger):
    pf.learn_bounds(table, DRAFT, **SEEDED, ledger=ledger, dataset="people")
    (entry,) = ledger.export()["reservations"]
    assert entry["note"].endswith("seeded noise, not private")


def test_no_row_is_encoded_without_the_budget_for_it(monkeypatch, table, ledger):
    seen = watch(monkeypatch, ledger)
    with pytest.raises(pf.BudgetExceeded):
        pf.learn_bounds(table, DRAFT, epsilon=9.0, ledger=ledger, dataset="people")
    with pytest.raises(pf.LedgerError):
        pf.learn_bounds(table, DRAFT, ledger=ledger, dataset="others")
    assert {rows for rows, _ in seen} <= {0}
    assert ledger.spent("people") == compose(())


def test_what_is_wrong_with_the_form_of_a_table_costs_nothing(table, ledger):
    account = {"ledger": ledger, "dataset": "people"}
    dates = table.assign(age=np.array(["2024-01-01"] * N, dtype="datetime64[D]"))
    for data in (table.drop(columns="age"), dates):
        with pytest.raises(pf.SchemaError, match="column 'age'"):
            pf.learn_bounds(data, DRAFT, **account)
    for draft in (DRAFT | {"age": NUM | {"lower": "0"}}, DRAFT | {"age": NUM | {"lower": 5, "missing": 1}}):
        with pytest.raises(pf.SchemaError, match="column 'age'"):
            pf.learn_bounds(table, draft, **account)
    assert ledger.spent("people") == compose(())


def test_a_fit_goes_on_with_the_account(table, ledger):
    account = {"ledger": ledger, "dataset": "people", "unit": "person"}
    learned = pf.learn_bounds(table, DRAFT, epsilon=1.0, **account)
    pf.ols("income ~ age", table, schema=learned.schema, epsilon=1.0, **account)
    with pytest.raises(pf.BudgetExceeded):
        pf.ols("income ~ age", table, schema=learned.schema, epsilon=8.0, **account)


def test_a_person_with_many_rows_counts_as_one(table):
    """One of 3000 persons has as many rows as all others together."""
    rich = pd.DataFrame({"age": 1e9, "income": 1e9, "gain": 1e9, "person": ["p7"] * N})
    both = pd.concat([table, rich], ignore_index=True)
    draft = {"age": NUM, "income": NUM}
    rows = pf.learn_bounds(both, draft, **SEEDED)
    assert (rows.bounds["upper"] > 1e8).all()
    for rows_per_unit in (1, 2):
        persons = pf.learn_bounds(both, draft, unit="person", rows_per_unit=rows_per_unit, **SEEDED)
        assert persons.plan.n_rows == N // 2
        assert persons.bounds.loc["age", "upper"] < 300.0
        assert persons.bounds.loc["income", "upper"] < 1e7


def test_the_schema_may_mark_the_unit(table):
    marked = DRAFT | {"person": {"type": "identifier"}}
    learned = pf.learn_bounds(table, marked, **SEEDED)
    named = pf.learn_bounds(table, DRAFT, unit="person", **SEEDED)
    assert learned.bounds.equals(named.bounds)
    assert learned.schema.unit == "person"
    assert learned.plan.unit == named.plan.unit == "person"


def test_rows_count_by_their_weight(table):
    stray = table.assign(age=1e9, weight=0.0)
    both = pd.concat([table, stray], ignore_index=True)
    draft = {"age": NUM, "weight": NUM | {"lower": 0, "upper": 2}}
    assert pf.learn_bounds(both, draft, **SEEDED).bounds.loc["age", "upper"] > 1e8
    weighted = pf.learn_bounds(both, draft, weights="weight", **SEEDED)
    assert weighted.bounds.loc["age", "upper"] < 300.0
    assert weighted.plan.weights == "weight"
    marked = pf.learn_bounds(both, draft | {"weight": draft["weight"] | {"weight": True}}, **SEEDED)
    assert marked.bounds.equals(weighted.bounds)


def test_the_number_of_rows_may_be_private(table):
    options = {"relation": "add_remove", "n_rows": 5000}
    plans = [pf.learn_bounds(rows, DRAFT, **options).plan for rows in (table, table[:-1], table[:0])]
    assert plans[0] == plans[1] == plans[2]
    assert pf.learn_bounds(table[:0], DRAFT, **options, **SEEDED).bounds.isna().all(axis=None)


def test_columns_that_noise_hides_are_named(table, tmp_path):
    draft = DRAFT | {"zero": NUM | {"lower": -1}}
    learned = pf.learn_bounds(table.assign(zero=0.0), draft, **SEEDED)
    assert learned.bounds.loc["zero"].isna().all()
    assert not learned.bounds.loc[list(LEARNED)].isna().any(axis=None)
    with pytest.raises(pf.TooLittleData, match="'zero'") as caught:
        _ = learned.schema
    assert "'age'" not in str(caught.value)
    assert "zero" in str(learned)
    assert "noise hides where the values of this column lie" in " ".join(str(learned).split())
    path = tmp_path / "draft.toml"
    learned.to_toml(path)
    assert tomllib.loads(path.read_text())["zero"] == {"type": "numeric", "lower": -1}
    rest = Draft.of(path)
    assert rest.unbounded == ("zero",)
    again = pf.learn_bounds(table.assign(zero=table["age"]), path, **SEEDED)
    assert list(again.bounds.index) == ["zero"]
    assert list(again.schema) == list(draft)


def test_nothing_seen_at_first_is_no_bound():
    """Bounds of the size of all numbers there are would be taken for what the rows say."""
    for n in (200, 1000, 2000, 3000):
        x = np.random.default_rng(n).normal(size=(n, 1))
        for seed in range(10):
            lower, upper = pf.learn_bounds(x, {"x0": NUM}, epsilon=0.1, random_state=seed).bounds.loc["x0"]
            assert np.isnan(lower) == np.isnan(upper)
            assert not upper - lower > 1e4


CELLS = {
    "missing": [None, float("nan"), "", "NA"],
    "text": ["CANARY27182", "1e", "--", "0x10"],
    "odd": [[1.0], {"a": 1}, object(), 1j],
}


@pytest.mark.parametrize("name", CELLS)
def test_nothing_is_said_of_a_cell_that_holds_no_number(table, name):
    """Such a row does not count; beside it all is as it was."""
    odd = CELLS[name]
    cells = table["age"].tolist()
    for k, cell in enumerate(odd):
        cells[100 * k] = cell
    plain = np.array(
        [np.nan if k % 100 == 0 and k < 100 * len(odd) else x for k, x in enumerate(table["age"])]
    )
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        learned = pf.learn_bounds(
            {"age": cells, "income": table["income"]}, {"age": NUM, "income": NUM}, **SEEDED
        )
    assert warned == []
    expected = pf.learn_bounds(
        {"age": plain, "income": table["income"]}, {"age": NUM, "income": NUM}, **SEEDED
    )
    pd.testing.assert_frame_equal(learned.bounds, expected.bounds)


@pytest.mark.parametrize(
    "cells",
    [
        np.full(500, np.nan),
        np.full(500, np.inf),
        np.full(500, 1e300),
        np.full(500, 5e-324),
        np.full(500, -0.0),
        np.arange(500) + 2**60,
        np.full(500, 2**64 - 1, dtype=np.uint64),
        [10**30 + k for k in range(500)],
        [10**400] * 500,
        [True, False] * 250,
        ["text"] * 500,
        np.tile([1e300, -1e300, np.inf, -np.inf, np.nan], 100),
        np.full(500, np.finfo(np.longdouble).max),
    ],
)
@pytest.mark.parametrize("transform", [None, "log1p", "log", "sqrt"])
def test_no_column_makes_it_fail_or_warn(cells, transform):
    draft = {"a": NUM if transform is None else NUM | {"transform": transform}}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        learned = pf.learn_bounds({"a": cells}, draft, epsilon=20.0, random_state=1)
        if not learned.bounds.isna().any(axis=None):
            assert learned.schema["a"].lower < learned.schema["a"].upper
    assert warned == []


def test_a_stream_is_refused(table):
    stream = pf.RowStream([table], n_rows=N)
    with pytest.raises(pf.InvalidArgument, match="a RowStream is read once"):
        pf.learn_bounds(stream, DRAFT)


ALL_BOUNDED = {"height": DRAFT["height"], "sex": DRAFT["sex"]}
WEIGHED = DRAFT | {"weight": NUM | {"lower": 0, "upper": 2}}

REFUSED = [
    ({"schema": ALL_BOUNDED}, pf.InvalidArgument, "nothing to learn"),
    ({"schema": pf.Schema(ALL_BOUNDED)}, pf.InvalidArgument, "nothing to learn"),
    ({"schema": None}, pf.SchemaError, "schema must be"),
    ({"schema": [("age", NUM)]}, pf.SchemaError, "schema must be"),
    ({"schema": {"age": NUM | {"unit": True}}}, pf.SchemaError, "are not learned"),
    ({"schema": {"age": NUM, "nowhere": NUM}}, pf.SchemaError, "'nowhere' is not in the data"),
    ({"unit": "age"}, pf.SchemaError, "unit='age': its bounds are not learned"),
    ({"weights": "age"}, pf.SchemaError, "weights='age': its bounds are not learned"),
    ({"weights": "weight"}, pf.SchemaError, "'weight' is not in the schema"),
    ({"schema": WEIGHED, "weights": "weight", "unit": "weight"}, pf.SchemaError, "'weight'"),
    ({"unit": "nobody"}, pf.SchemaError, "'nobody' is not in the data"),
    ({"unit": 3}, pf.InvalidArgument, "unit must be the name of a column"),
    ({"unit": np.arange(N)}, pf.InvalidArgument, "unit must be the name of a column"),
    ({"weights": pd.Series(np.ones(N))}, pf.InvalidArgument, "weights must be the name of a column"),
    ({"rows_per_unit": 2}, pf.InvalidArgument, "goes with unit"),
    ({"epsilon": 0}, pf.InvalidArgument, "epsilon must be positive"),
    ({"epsilon": "1"}, pf.InvalidArgument, "epsilon must be a number"),
    ({"delta": 1}, pf.InvalidArgument, "delta must lie in"),
    ({"budget": 1.0}, pf.InvalidArgument, "budget must be a privfit.Budget"),
    ({"budget": pf.Budget(1.0), "epsilon": 0.5}, pf.InvalidArgument, "budget stands in place"),
    ({"relation": "swap"}, pf.InvalidArgument, "relation must be one of"),
    ({"relation": "add_remove"}, pf.InvalidArgument, "n_rows is needed"),
    ({"n_rows": N}, pf.InvalidArgument, "n_rows is public"),
    ({"dataset": "people"}, pf.InvalidArgument, "give ledger too"),
    ({"random_state": "seed"}, pf.InvalidArgument, "random_state must be"),
    ({"data": None}, pf.SchemaError, "cannot be read"),
    ({"data": "nowhere.csv"}, pf.SchemaError, "does not exist"),
    ({"data": {"age": [], "income": [], "gain": []}}, pf.SchemaError, "has no row"),
    ({"data": np.zeros(9)}, pf.SchemaError, "2-D array"),
    ({"data": {"age": [1.0], "income": [1.0], "gain": [1.0]}}, pf.TooLittleData, "1 rows"),
]


@pytest.mark.parametrize(("arguments", "error", "rule"), REFUSED)
def test_what_cannot_be_is_refused_in_one_line(table, arguments, error, rule):
    with pytest.raises(error, match=rule) as caught:
        pf.learn_bounds(**{"data": table, "schema": DRAFT} | arguments)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 250
