"""A ledger is written before a row is encoded; what is wrong with the form of a table costs nothing."""

import math
import sqlite3
import warnings
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import privfit as pf
from privfit.data.encode import SchemaEncoder
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import BudgetExceeded, Incompatible, LedgerError, SchemaError
from privfit.privacy.composition import compose
from privfit.problem.schedule import planned_release
from privfit.solvers import ObjectivePerturbation
from privfit.solvers.base import AbstractSolver
from privfit.terms.encoder import FormulaEncoder

N = 60
SCHEMA = {
    "a": {"type": "numeric", "lower": 0, "upper": 10},
    "b": {"type": "categorical", "levels": ["u", "v"]},
    "yes": {"type": "categorical", "levels": ["no", "yes"], "target": True},
}


def frame():
    return {
        "a": np.linspace(0, 10, N),
        "b": np.array(["u", "v", "v"] * (N // 3)),
        "yes": np.array(["no", "yes"] * (N // 2)),
    }


def matrix():
    return np.linspace(-1, 1, 2 * N).reshape(N, 2), np.arange(N) % 2


def with_arrays(**account):
    return pf.LogisticRegression(**account).fit(*matrix())


def with_schema(data=None, **account):
    return pf.LogisticRegression(schema=pf.Schema(SCHEMA), **account).fit(data or frame())


def with_formula(data=None, **account):
    return pf.logit("yes ~ a + b", data or frame(), schema=SCHEMA, **account)


@pytest.fixture
def ledger(tmp_path):
    one = pf.Ledger(tmp_path / "account.db")
    one.grant("people", pf.Budget(5.0, 1e-5))
    return one


def spent(ledger):
    return ledger.spent("people").gaussian


@pytest.mark.parametrize("work", [with_arrays, with_schema, with_formula])
def test_the_ledger_is_written_before_a_row_is_encoded(monkeypatch, ledger, work):
    seen = []
    for encoder in (SchemaEncoder, UnitScaleEncoder, FormulaEncoder):
        for name in ("encode_predictors", "encode_coded"):
            monkeypatch.setattr(encoder, name, watched(getattr(encoder, name), ledger, seen))
    work(ledger=ledger, dataset="people")
    assert {rows for rows, _ in seen} == {0, N}
    assert all(cost > 0 for rows, cost in seen if rows)
    assert all(cost == 0 for rows, cost in seen if not rows)


def watched(method, ledger, seen):
    def wrapper(self, table, *rest):
        seen.append((table.n_rows, spent(ledger)))
        return method(self, table, *rest)

    return wrapper


def test_a_ledger_is_charged_the_delta_of_a_release(ledger):
    def fit(epsilon, delta):
        method = {"solver": ObjectivePerturbation(), "inference": False, "l2": 0.1}
        with_arrays(epsilon=epsilon, delta=delta, ledger=ledger, dataset="people", **method)

    fit(1.0, 1e-6)
    assert ledger.spent("people").pairs == ((1.0, 1e-6),)
    fit(1.0, 1e-6)
    assert ledger.spent("people").delta_at(2.0) == pytest.approx(2e-6)
    with pytest.raises(BudgetExceeded):
        fit(3.0, 9e-6)
    fit(3.0, 7.9e-6)


def test_a_fit_whose_noise_can_be_repeated_is_charged_alike_and_says_so(ledger):
    account = {"ledger": ledger, "dataset": "people", "budget": pf.Budget.gdp(0.1)}
    title = with_formula(**account).plan.model
    once = spent(ledger)
    with_formula(random_state=0, **account)
    assert spent(ledger) == pytest.approx(math.sqrt(2) * once)
    notes = [spend["note"] for spend in ledger.export()["reservations"]]
    assert notes == [title, f"{title}; seeded noise, not private"]


@final
@dataclass(frozen=True, slots=True)
class Overdraft(AbstractSolver):
    """Plans releases that together cost more than it may spend, each of which is what it says."""

    pure: bool
    part: float

    @property
    def name(self):
        return "overdraft"

    def plan(self, problem, allowance):
        amount = self.part * allowance.amount
        spent = replace(allowance, amount=amount, pure=self.pure or allowance.pure)
        return (planned_release(problem, "gradient", spent),)

    def run(self, problem, oracle):
        raise AssertionError("a plan beyond the budget was carried out")


@pytest.mark.parametrize(
    ("budget", "solver"),
    [
        (pf.Budget(1.0, 0.0), Overdraft(pure=True, part=1.001)),
        (pf.Budget(1.0, 1e-6), Overdraft(pure=False, part=1.001)),
        (pf.Budget.gdp(0.5), Overdraft(pure=False, part=3.0)),
        (pf.Budget(1.0, 1e-6), Overdraft(pure=True, part=10.0)),
        (pf.Budget.gdp(0.5), Overdraft(pure=False, part=math.inf)),
    ],
    ids=str,
)
@pytest.mark.parametrize("work", [with_arrays, with_schema, with_formula])
def test_a_plan_beyond_the_budget_is_refused_before_anything_is_read(
    monkeypatch, ledger, work, budget, solver
):
    seen = []
    for encoder in (SchemaEncoder, UnitScaleEncoder, FormulaEncoder):
        for name in ("encode_predictors", "encode_coded"):
            monkeypatch.setattr(encoder, name, watched(getattr(encoder, name), ledger, seen))
    with pytest.raises(Incompatible, match="exceeds the budget"):
        work(budget=budget, solver=solver, inference=False, ledger=ledger, dataset="people")
    assert seen == []
    assert ledger.spent("people") == compose(())


def test_the_ledger_is_written_before_a_stream_is_read(ledger):
    costs = []

    def batches():
        costs.append(spent(ledger))
        yield matrix()

    stream = pf.RowStream(batches(), n_rows=N, columns=2)
    pf.LogisticRegression(solver="online-to-batch", inference=False, ledger=ledger, dataset="people").fit(
        stream
    )
    assert len(costs) == 1
    assert costs[0] > 0


def test_cross_validation_and_grid_search_are_charged_fit_by_fit(tmp_path):
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", pf.Budget.gdp(2.0))
    x, y = matrix()
    model = pf.LogisticRegression(
        budget=pf.Budget.gdp(0.5), inference=False, random_state=0, ledger=ledger, dataset="people"
    )
    assert cross_val_score(model, x, y, cv=3).shape == (3,)
    assert spent(ledger) == pytest.approx(0.5 * math.sqrt(3))
    GridSearchCV(model, {"l2": [0.0, 0.1]}, cv=2).fit(x, y)
    assert spent(ledger) == pytest.approx(0.5 * math.sqrt(3 + 2 * 2 + 1))
    with pytest.raises(BudgetExceeded):
        GridSearchCV(model, {"l2": [0.0, 0.1, 0.2, 0.3]}, cv=3, error_score="raise").fit(x, y)
    assert spent(ledger) == pytest.approx(2.0)


def without(name):
    columns = frame()
    del columns[name]
    return columns


def of_another_type():
    return frame() | {"a": np.array(["2024-01-01"] * N, dtype="datetime64[D]")}


@pytest.mark.parametrize("data", [without("b"), without("yes"), of_another_type()])
@pytest.mark.parametrize("work", [with_schema, with_formula])
def test_a_form_that_does_not_fit_costs_nothing(ledger, work, data):
    with pytest.raises(pf.SchemaError):
        work(data, ledger=ledger, dataset="people")
    assert spent(ledger) == 0


@pytest.mark.parametrize("work", [with_schema, with_formula])
def test_a_label_that_was_not_declared_costs_nothing(ledger, work):
    """It stops the fit either way, and a spent budget would not make that private."""
    cells = frame()["yes"].astype(object)
    cells[7] = "perhaps"
    with pytest.raises(pf.LabelError):
        work(frame() | {"yes": cells}, ledger=ledger, dataset="people")
    assert spent(ledger) == 0


def test_an_account_holds_fits_of_one_relation_and_one_unit(ledger):
    """A budget for rows is none for persons, and one for rows that come and go none for rows that change."""
    account = {"ledger": ledger, "dataset": "people", "epsilon": 0.5, "delta": 1e-7}
    with_formula(**account)
    before = ledger.spent("people")
    with pytest.raises(LedgerError, match="do not add up"):
        with_formula(relation="add_remove", n_rows=N, **account)
    persons = {**frame(), "who": np.arange(N).astype(str)}
    with pytest.raises(LedgerError, match=r"one row replaced, .* one value of who replaced"):
        with_formula(persons, unit="who", **account)
    with pytest.raises(LedgerError, match="one value of groups replaced"):
        pf.LogisticRegression(**account).fit(*matrix(), groups=np.arange(N))
    assert ledger.spent("people") == before
    with_arrays(**account)
    assert ledger.export()["reservations"][-1]["relation"] == "replace"


@pytest.mark.parametrize("action", ["always", "error"])
def test_what_is_bought_is_not_lost_where_the_ledger_is_busy_afterwards(action, tmp_path, monkeypatch):
    ledger = pf.Ledger(tmp_path / "account.db", timeout=0.05)
    ledger.grant("people", pf.Budget(5.0, 1e-5))
    reserve, held = pf.Ledger.reserve, []

    def hold(self, *args, **kwargs):
        number = reserve(self, *args, **kwargs)
        held.append(sqlite3.connect(ledger.path, isolation_level=None))
        held[0].execute("begin exclusive")
        return number

    monkeypatch.setattr(pf.Ledger, "reserve", hold)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter(action)
        fitted = with_formula(ledger=ledger, dataset="people")
    held[0].close()
    assert ["do not fit again" in str(one.message) for one in warned] == [True] * (action == "always")
    assert np.isfinite(fitted.estimate).all()
    assert spent(ledger) > 0
    (entry,) = ledger.export()["reservations"]
    assert entry["committed_at"] is None


@pytest.mark.parametrize("kind", ["string", "category"])
def test_weights_of_a_type_that_holds_text_are_refused_before_they_cost(ledger, kind):
    x, y = matrix()
    weights = pd.Series(np.where(y, "1.0", "2.0")).astype(kind)
    model = pf.LogisticRegression(weight_bound=3.0, ledger=ledger, dataset="people")
    with pytest.raises(SchemaError, match="sample_weight is of a type that holds text"):
        model.fit(x, y, sample_weight=weights)
    assert spent(ledger) == 0


def test_a_ridge_penalty_is_part_of_the_title():
    penalised, plain = (
        pf.logit("yes ~ a", frame(), schema=SCHEMA, l2=l2, random_state=0) for l2 in (0.25, 0)
    )
    assert penalised.model == "Logistic regression, ridge penalty l2 = 0.25"
    assert "l2 = 0.25" in penalised.summary().as_text()
    assert plain.model == "Logistic regression"


def test_a_path_of_no_ledger_is_refused_and_makes_none(tmp_path):
    path = tmp_path / "typo.db"
    with pytest.raises(LedgerError, match="does not exist; check the path, or make it"):
        pf.LinearRegression(ledger=str(path), dataset="people").fit(np.ones((50, 1)), np.ones(50))
    assert not path.exists()
