"""Errors of fits carry no frame in which rows or exact sums are, and no message that quotes them."""

import inspect
import pickle
import sys
import traceback
from pathlib import Path

import numpy as np
import pytest

import privfit as pf
from privfit.data.source import ArraySource
from privfit.estimators.fit import fit
from privfit.problem.oracle import Oracle

from .observe import only_new_objects, rows_of_fits
from .tables import SCHEMA, arrays, frame

SOURCE = Path(pf.__file__).parent
QUOTED = "8231"
"""In every message of a planted failure."""


def with_arrays():
    return pf.LogisticRegression().fit(*arrays("binary", 0))


def with_schema():
    return pf.HuberRegressor(schema=pf.Schema(SCHEMA)).fit(frame(0), "size")


def with_formula():
    return pf.logit("yes ~ a + C(b)", frame(0), schema=SCHEMA)


def with_procedure():
    return pf.MEstimator(loss=pf.losses.Logistic(), solver="output-perturbation").fit(*arrays("binary", 0))


def with_bounds():
    draft = SCHEMA | {"a": {"type": "numeric"}, "size": {"type": "numeric"}}
    return pf.learn_bounds(frame(0), draft, budget=pf.Budget.gdp(50.0))


def with_scales():
    return pf.LinearRegression(budget=pf.Budget.gdp(50.0), scale="private").fit(*arrays("numeric", 0))


PLACES = [
    (with_scales, "privfit.procedures.column_places.perturb_vector"),
    (with_scales, "privfit.data.unit_scale.encode_numeric"),
    (with_scales, "privfit.solvers.column_look.extent"),
    (with_arrays, "privfit.problem.oracle.perturb_vector"),
    (with_arrays, "privfit.problem.perturb.svec"),
    (with_arrays, "privfit.problem.objective.Problem.mean"),
    (with_schema, "privfit.data.encode.encode_numeric"),
    (with_schema, "privfit.data.source.BasisNorms.fill"),
    (with_formula, "privfit.estimators.objective.influence_weights"),
    (with_formula, "privfit.estimators.opened.open_table"),
    (with_formula, "privfit.estimators.fit.infer"),
    (with_procedure, "privfit.procedures.output_perturbation.perturb_vector"),
    (with_bounds, "privfit.procedures.column_places.perturb_vector"),
    (with_bounds, "privfit.problem.place_kernels._count_places"),
    (with_bounds, "privfit.data.encode.encode_numeric"),
    (with_bounds, "privfit.solvers.column_look.extent"),
    (with_bounds, "privfit.estimators.opened.open_table"),
]


def caught_from(work):
    try:
        work()
    except BaseException as error:
        return error
    pytest.fail("nothing was raised")


def own_frames(error):
    """Return the frames of this package in the tracebacks of an error and all that led to it."""
    frames, waiting, seen = [], [error], set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
        for frame_, _ in traceback.walk_tb(one.__traceback__):
            if Path(frame_.f_code.co_filename).is_relative_to(SOURCE):
                frames.append(frame_)
    return frames


def assert_clean(error):
    frames = own_frames(error)
    assert frames, "the error did not come through the package"
    for each in frames:
        assert Path(each.f_code.co_filename).name == "_sealed.py"
        assert set(each.f_locals) <= {"function", "made_of", "error", "failure"}
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize(("work", "place"), PLACES)
@pytest.mark.parametrize("kind", [ValueError, np.linalg.LinAlgError, KeyboardInterrupt, MemoryError])
def test_a_failure_anywhere_leaves_no_frame(monkeypatch, work, place, kind):
    def failing(*args, **kwargs):
        raise kind(f"{QUOTED}: {args}")

    work()
    monkeypatch.setattr(place, failing)
    with only_new_objects(), rows_of_fits(monkeypatch) as rows:
        error = caught_from(work)
        assert_clean(error)
    assert not any(reference() is not None for reference in rows)
    if kind is not KeyboardInterrupt and not place.endswith("open_table"):
        assert isinstance(error, pf.UnexpectedError)
        assert QUOTED not in str(error)
        assert kind.__name__ in str(error)
        assert ".py, line " in str(error)
        assert "\n" not in str(error)
        assert pickle.loads(pickle.dumps(error)).args == error.args  # noqa: S301


def bad_label():
    columns = frame(0)
    columns["yes"][3] = f"perhaps-{QUOTED}"
    return pf.logit("yes ~ a", columns, schema=SCHEMA)


def bad_type():
    columns = frame(0)
    columns["a"] = np.array(["2024-01-01"] * len(columns["a"]), dtype="datetime64[D]")
    return pf.ols("size ~ a", columns, schema=SCHEMA)


def bad_type_of_a_draft():
    columns = frame(0)
    columns["a"] = np.array(["2024-01-01"] * len(columns["a"]), dtype="datetime64[D]")
    return pf.learn_bounds(columns, {"a": {"type": "numeric"}})


def text_in_array():
    x, y = arrays("numeric", 0)
    x = x.astype(object)
    x[3, 0] = f"cell-{QUOTED}"
    return pf.LinearRegression().fit(x, y)


@pytest.mark.parametrize("work", [bad_label, bad_type, bad_type_of_a_draft, text_in_array])
def test_a_refusal_leaves_no_frame_either(work):
    error = caught_from(work)
    assert isinstance(error, pf.SchemaError)
    assert QUOTED not in str(error)
    assert_clean(error)


OVERSPENDS = {
    "fit": lambda **account: pf.logit("yes ~ a", frame(0), schema=SCHEMA, **account),
    "bounds": lambda **account: pf.learn_bounds(frame(0), {"a": {"type": "numeric"}}, **account),
}


@pytest.mark.parametrize("name", OVERSPENDS)
def test_an_overspend_leaves_no_frame(tmp_path, monkeypatch, name):
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", pf.Budget.gdp(0.01))

    def work():
        return OVERSPENDS[name](ledger=ledger, dataset="people")

    with only_new_objects(), rows_of_fits(monkeypatch) as rows:
        error = caught_from(work)
        assert isinstance(error, pf.BudgetExceeded)
        assert_clean(error)
    assert not any(reference() is not None for reference in rows)


def test_the_check_sees_frames_that_hold_rows(monkeypatch):
    """What the wrapper is there for: without it the frames of a failing fit hold the rows."""
    monkeypatch.setattr("privfit.estimators.base.fit", inspect.unwrap(fit))
    unwrapped = pf.LogisticRegression.fit.__wrapped__
    monkeypatch.setattr("privfit.problem.oracle.perturb_vector", lambda *_: 1 / 0)
    with rows_of_fits(monkeypatch) as rows:
        error = caught_from(lambda: unwrapped(pf.LogisticRegression(), *arrays("binary", 0)))
    held = [value for each in own_frames(error) for value in each.f_locals.values()]
    assert any(isinstance(value, ArraySource | Oracle) for value in held)
    assert any(reference() is not None for reference in rows)


def test_no_warning_depends_on_cells(recwarn):
    """NumPy's warnings about overflow would."""
    x, y = arrays("numeric", 0)
    x[2], x[5], y[7] = [1e308, 1e308], [5e-324, -1e308], 1e308
    pf.LinearRegression(inference=False).fit(x, y)
    assert not recwarn.list
    assert sys.exc_info() == (None, None, None)


def answers_of(model):
    """Return the public methods of a fitted estimator that are given rows."""
    names = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score")
    return [name for name in names if hasattr(model, name)]


def fitted_models():
    x, y = arrays("binary", 0)
    return [
        (pf.LogisticRegression(inference=False, random_state=1).fit(x, y), y),
        (pf.LinearSVC(inference=False, random_state=1).fit(x, y), y),
        (pf.LinearRegression(inference=False, random_state=1).fit(x, y), y),
        (pf.PoissonRegressor(count_bound=3, inference=False, random_state=1).fit(x, y), y),
        (pf.MEstimator(loss=pf.losses.Logistic(), inference=False, random_state=1).fit(x, y), y),
    ]


def test_no_answer_about_new_rows_leaves_a_frame():
    """Text in a number, and too few columns, both found while the rows are in hand."""
    x, _ = arrays("binary", 0)
    text = x.astype(object)
    text[3, 0] = f"cell-{QUOTED}"
    asked = 0
    for model, y in fitted_models():
        for name in answers_of(model):
            for rows in (text, x[:, :1]):
                error = caught_from(lambda: getattr(model, name)(rows, *([y] if name == "score" else [])))  # noqa: B023
                assert isinstance(error, ValueError)
                assert QUOTED not in str(error)
                assert_clean(error)
                asked += 1
    assert asked == 2 * (5 + 3 + 2 + 2 + 3)


@pytest.mark.parametrize("model", [pf.LogisticRegression, pf.LinearRegression, pf.PoissonRegressor])
@pytest.mark.parametrize("where", ["X", "y"])
def test_messages_of_scikit_learn_quote_no_cell(model, where):
    x, y = arrays("binary", 0)
    rows = {"X": np.array(x), "y": np.array(y)}
    rows[where] = rows[where].astype(complex)
    rows[where].flat[0] = float(QUOTED) + 1j
    estimator = model(count_bound=5) if model is pf.PoissonRegressor else model()
    error = caught_from(lambda: estimator.fit(rows["X"], rows["y"]))
    assert QUOTED not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("model", [pf.LogisticRegression, pf.LinearRegression, pf.PoissonRegressor])
def test_no_cell_of_a_list_of_responses_is_quoted_or_decides_for_others(model):
    """NumPy reads a list with one complex cell as complex, and refuses one with a list in it."""
    x, y = arrays("binary", 0)
    options = {"classes": [0, 1]} if model is pf.LogisticRegression else {}
    options |= {"count_bound": 5} if model is pf.PoissonRegressor else {}
    fits = []
    for odd in (float(QUOTED) + 1j, [1.0, 2.0], f"cell-{QUOTED}", None):
        cells = [*y.tolist()[:-1], odd]
        try:
            fits.append(model(random_state=1, **options).fit(x, cells).coef_)
        except Exception as error:
            assert model is pf.LogisticRegression
            assert QUOTED not in "".join(traceback.format_exception(error))  # noqa: PT017
    assert fits
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0], other)
