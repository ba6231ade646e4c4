"""If all releases are masked, nothing that a fit leaves behind may tell two neighbouring tables apart."""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import privfit as pf
from privfit.cli import app
from privfit.problem.oracle import Oracle
from privfit.solvers import BY_NAME
from tests.test_compatibility import table as compatibility

from .mask import Masking, Showing, mask
from .observe import differences, observe
from .tables import ROW, SCHEMA, N, arrays, exposed, frame, people

BUDGETS = {"pure": pf.Budget(2.0), "pair": pf.Budget(2.0, 1e-6), "gdp": pf.Budget.gdp(0.5)}

ESTIMATORS = {
    "logistic": (pf.LogisticRegression, "binary", {}),
    "linear": (pf.LinearRegression, "numeric", {}),
    "huber": (pf.HuberRegressor, "numeric", {}),
    "huber, scale given": (pf.HuberRegressor, "numeric", {"scale": 0.3}),
    "svm": (pf.LinearSVC, "binary", {}),
    "quantile": (pf.QuantileRegressor, "numeric", {"quantile": 0.3}),
    "poisson": (pf.PoissonRegressor, "count", {"count_bound": 6.0}),
    "m-estimator": (pf.MEstimator, "numeric", {"loss": pf.losses.LogCosh()}),
}


def assert_no_difference(monkeypatch, make, variants, source=Masking):
    """``make(variant)`` returns a fitted object; all that it leaves behind must be the same."""
    mask(monkeypatch, source)
    made = make(variants[0])  # compiles, and fills caches of public numbers
    first, second = (observe(monkeypatch, lambda v=v: make(v)) for v in variants)
    assert len(first["objects"]) > 20
    assert isinstance(made, pf.LearnedBounds) or '"encoder": {' in first["json"]
    assert differences(first, second) == []
    for seen in (first, second):
        assert seen["rows alive"] == 0
        for name in ("stdout", "stderr", "log", "warnings", "written"):
            assert not seen[name], name


def estimator(name, variant, **options):
    cls, kind, more = ESTIMATORS[name]
    return cls(**more, **options).fit(*arrays(kind, variant))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_keep_nothing_of_a_row(monkeypatch, name, budget):
    options = {"budget": BUDGETS[budget]}
    assert_no_difference(monkeypatch, lambda v: estimator(name, v, **options), (0, 1))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_do_not_tell_whether_a_row_is_there(monkeypatch, name):
    options = {"budget": BUDGETS["pair"], "relation": "add_remove", "n_rows": N}
    assert_no_difference(monkeypatch, lambda v: estimator(name, v, **options), (0, 2))


def workable(name, budget):
    """Return a loss that a solver can fit with a budget, and whether with inference; None without one."""
    for loss in compatibility.LOSSES:
        for inference in (True, False):
            found = compatibility.outcome(loss, BY_NAME[name], BUDGETS[budget], inference=inference)
            if found.plan is not None:
                return loss, inference
    return None


SOLVERS = [
    pytest.param(name, loss, budget, inference, id=f"{name}-{compatibility.label(loss)}-{budget}")
    for name in sorted(set(BY_NAME) - {"auto", "non-private"})
    for budget in BUDGETS
    for loss, inference in filter(None, [workable(name, budget)])
]


def test_every_private_solver_is_observed():
    assert {case.values[0] for case in SOLVERS} == set(BY_NAME) - {"auto", "non-private"}


@pytest.mark.parametrize(("name", "loss", "budget", "inference"), SOLVERS)
def test_solvers_keep_nothing_of_a_row(monkeypatch, name, loss, budget, inference):
    target = {"binary": "yes", "count": "count"}.get(loss.target_kind, "size")
    schema = pf.Schema({key: SCHEMA[key] for key in ("a", target)})
    options = {"budget": BUDGETS[budget], "solver": name, "inference": inference, "schema": schema}

    def make(variant):
        columns = frame(variant)
        rows = pd.DataFrame({"a": columns["a"], target: columns[target]})
        return pf.MEstimator(loss=loss, **options).fit(rows, target)

    assert_no_difference(monkeypatch, make, (0, 1))


FORMULAS = {
    "logit": (pf.logit, "yes ~ a * C(b)"),
    "ols": (pf.ols, "size ~ a + C(b)"),
    "huber": (pf.huber, "size ~ a + C(b) + I(a ** 2)"),
    "svm": (pf.svm, "yes ~ a + C(b)"),
    "quantile": (pf.quantile, "size ~ a"),
    "poisson": (pf.poisson, "count ~ a + C(b)"),
}


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_keep_nothing_of_a_row(monkeypatch, name, relation):
    function, formula = FORMULAS[name]
    options = {"schema": SCHEMA, "relation": relation, "n_rows": N if relation == "add_remove" else None}
    variants = (0, 1) if relation == "replace" else (0, 2)
    assert_no_difference(monkeypatch, lambda v: function(formula, frame(v), **options), variants)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", [pf.Budget(50.0), pf.Budget(200.0, 1e-6)], ids=["pure", "pair"])
@pytest.mark.parametrize("inference", [True, False])
def test_fits_keep_nothing_of_an_exposure(monkeypatch, relation, budget, inference):
    """Where looks show something, so that exposures are held."""
    schema = SCHEMA | {"years": {"type": "numeric", "lower": 0, "upper": 2}}
    options = {"schema": schema, "exposure": "years", "relation": relation, "budget": budget}
    options |= {"inference": inference, "n_rows": N if relation == "add_remove" else None}
    held, hold = [], Oracle.hold_exposures
    monkeypatch.setattr(Oracle, "hold_exposures", lambda oracle, known: held.append(1) or hold(oracle, known))
    variants = (0, 1) if relation == "replace" else (0, 2)

    def make(variant):
        return pf.poisson("count ~ a + C(b)", exposed(variant), **options)

    assert_no_difference(monkeypatch, make, variants, Showing)
    assert len(held) == 3


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", FORMULAS)
def test_fits_keep_nothing_of_a_person(monkeypatch, name, relation):
    function, formula = FORMULAS[name]
    schema = SCHEMA | {"weight": {"type": "numeric", "lower": 0, "upper": 2}}
    options = {"schema": schema, "unit": "person", "weights": "weight", "relation": relation}
    options["n_rows"] = N // 2 if relation == "add_remove" else None
    variants = (0, 1) if relation == "replace" else (0, 2)
    assert_no_difference(monkeypatch, lambda v: function(formula, people(v), **options), variants)


DRAFT = SCHEMA | {
    "a": {"type": "numeric"},
    "size": {"type": "numeric", "lower": -5, "missing": 0},
    "count": {"type": "numeric", "transform": "log1p"},
}


class Seen(Masking):
    """Answers with the same shares in a few places of each of three columns, so that bounds are found."""

    def _shares(self, size):
        shares = np.zeros((3, size // 3))
        shares[:, 3 * size // 12 - 2 :][:, :4] = 0.25
        return shares.ravel()

    def gaussian(self, value, sd):
        return self._shares(value.size)

    def laplace(self, value, scale):
        return self._shares(value.size)


LOOKS = {"pure": pf.Budget(2000.0), "pair": pf.Budget(50.0, 1e-6), "gdp": pf.Budget.gdp(40.0)}


@pytest.mark.parametrize("source", [Masking, Seen])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", LOOKS)
def test_bounds_keep_nothing_of_a_row(monkeypatch, name, relation, source):
    options = {"budget": LOOKS[name], "relation": relation, "n_rows": N if relation == "add_remove" else None}

    def make(variant):
        return pf.learn_bounds(frame(variant), DRAFT, **options)

    variants = (0, 1) if relation == "replace" else (0, 2)
    assert_no_difference(monkeypatch, make, variants, source)
    assert source is Masking or not make(variants[1]).bounds.isna().any(axis=None)


@pytest.mark.parametrize("source", [Masking, Seen])
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
def test_bounds_keep_nothing_of_a_person(monkeypatch, relation, source):
    draft = DRAFT | {"weight": {"type": "numeric", "lower": 0, "upper": 2}}
    options = {"unit": "person", "weights": "weight", "relation": relation, "budget": LOOKS["gdp"]}
    options["n_rows"] = N // 2 if relation == "add_remove" else None
    variants = (0, 1) if relation == "replace" else (0, 2)
    assert_no_difference(
        monkeypatch, lambda v: pf.learn_bounds(people(v), draft, **options), variants, source
    )


_SIZES = 209
"""Places of a column in the first look."""


class SeenAtFirst(Masking):
    """Answers the three looks at columns as `Seen` does, and hides what comes after."""

    looks, columns = 0, 0

    def _is_look(self):
        self.looks += 1
        return self.looks <= 3

    def _shares(self, size):
        self.columns = self.columns or size // _SIZES
        shares = np.zeros((self.columns, size // self.columns))
        shares[:, 3 * shares.shape[1] // 4 - 2 :][:, :4] = 0.25
        return shares.ravel()

    def gaussian(self, value, sd):
        return self._shares(value.size) if self._is_look() else super().gaussian(value, sd)

    def laplace(self, value, scale):
        return self._shares(value.size) if self._is_look() else super().laplace(value, scale)


WITH_SCALES = sorted(set(ESTIMATORS) - {"huber, scale given"})


@pytest.mark.parametrize("budget", LOOKS)
@pytest.mark.parametrize("name", WITH_SCALES)
def test_scales_that_are_bought_keep_nothing_of_a_row(monkeypatch, name, budget):
    options = {"budget": LOOKS[budget], "scale": "private"}
    assert_no_difference(monkeypatch, lambda v: estimator(name, v, **options), (0, 1), SeenAtFirst)


@pytest.mark.parametrize("name", WITH_SCALES)
def test_scales_do_not_tell_whether_a_row_is_there(monkeypatch, name):
    options = {"budget": LOOKS["pair"], "relation": "add_remove", "n_rows": N, "scale": "private"}
    assert_no_difference(monkeypatch, lambda v: estimator(name, v, **options), (0, 2), SeenAtFirst)


def test_bounds_that_complete_a_schema_keep_nothing_of_a_row(monkeypatch):
    draft = {key: DRAFT[key] for key in ("a", "count", "size")}

    def make(variant):
        columns = {key: frame(variant)[key] for key in draft}
        return pf.LinearRegression(schema=draft, budget=LOOKS["gdp"], scale="private").fit(columns, "size")

    assert_no_difference(monkeypatch, make, (0, 1), SeenAtFirst)


@pytest.mark.parametrize("store", ["cache", "dask"])
def test_stored_rows_do_not_tell_whether_there_are_any(monkeypatch, tmp_path, store):
    schema = {name: SCHEMA[name] for name in ("a", "b", "yes")}

    def make(variant):
        rows = pd.DataFrame({name: frame(0)[name][:1] for name in schema}).iloc[variant:]
        rows.to_parquet(tmp_path / "rows.parquet")
        if store == "cache":
            data = pf.RowCache(tmp_path / "rows.parquet")
        else:
            data = pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=1)
        options = {"schema": schema, "relation": "add_remove", "n_rows": N, "inference": False}
        return pf.LogisticRegression(solver="clipped-gradient-descent", **options).fit(data, "yes")

    mask(monkeypatch)
    first, second = (observe(monkeypatch, lambda v=v: make(v)) for v in (0, 1))
    assert {"objects", "pickle"} <= set(first)
    assert set(differences(first, second)) <= {"written"}  # a temporary folder of a random name


def test_an_estimator_keeps_nothing_of_what_is_given_beside_the_rows(monkeypatch):
    def make(variant):
        rows = people(variant)
        beside = {"groups": rows["person"], "sample_weight": rows["weight"]}
        model = pf.LinearRegression(weight_bound=2.0, rows_per_unit=2)
        return model.fit(np.array(rows["a"]).reshape(-1, 1), np.array(rows["size"]), **beside)

    assert_no_difference(monkeypatch, make, (0, 1))


def test_a_stream_keeps_nothing_of_a_row(monkeypatch):
    def make(variant):
        x, y = arrays("binary", variant)
        batches = iter([(x[:30], y[:30]), (x[30:], y[30:])])
        stream = pf.RowStream(batches, n_rows=N, columns=2)
        model = pf.LogisticRegression(solver="online-to-batch", inference=False, classes=[0, 1])
        return model.fit(stream)

    mask(monkeypatch)
    make(0)
    first, second = (observe(monkeypatch, lambda v=v: make(v)) for v in (0, 1))
    assert differences(first, second) == []


@pytest.mark.parametrize("model", ["logit", "huber"])
def test_files_of_the_command_line_hold_nothing_of_a_row(monkeypatch, tmp_path, model):
    mask(monkeypatch)
    monkeypatch.setattr("privfit.privacy.entries.now", lambda: "then")
    monkeypatch.setattr("privfit.privacy.ledger.now", lambda: "then")
    monkeypatch.setattr("uuid.UUID.hex", property(lambda _: "0" * 32))
    schema = tmp_path / "schema.toml"
    pf.Schema(SCHEMA).to_toml(schema)
    formula = {"logit": "yes ~ a + C(b)", "huber": "size ~ a"}[model]
    left = []
    for variant in (0, 0, 1):
        folder, elsewhere = tmp_path / "work", tmp_path / "temporary"
        for each in (folder, elsewhere):
            each.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
        pd.DataFrame(frame(variant)).to_csv(tmp_path / "rows.csv", index=False)
        pf.Ledger(folder / "account.db").grant("people", pf.Budget(9.0, 1e-5))
        words = ["fit", tmp_path / "rows.csv", "--schema", schema, "--model", model, "--formula", formula]
        words += ["--out", folder / "result.json", "--html", folder / "page.html"]
        words += ["--ledger", folder / "account.db", "--dataset", "people"]
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        files = {p.name: p.read_bytes() for p in sorted(folder.iterdir())}
        left.append((done.stdout, done.stderr, files, sorted(elsewhere.iterdir())))
        for each in [*folder.iterdir(), *elsewhere.iterdir()]:
            each.unlink()
        folder.rmdir()
        elsewhere.rmdir()
    assert left[1] == left[2]
    assert set(left[1][2]) == {"account.db", "page.html", "result.json"}
    assert left[1][3] == []


def leak_by_attribute(x, _):
    return {"mean_": float(np.mean(x))}


def leak_by_closure(x, _):
    def again():
        return x.sum()

    return {"again_": again}


def leak_by_slot(x, _):
    class Slotted:
        __slots__ = ("kept",)

    held = Slotted()
    held.kept = x[ROW].copy()
    return {"held_": [held]}


@pytest.mark.parametrize("leak", [leak_by_attribute, leak_by_closure, leak_by_slot])
def test_the_walk_finds_planted_leaks(monkeypatch, leak):
    mask(monkeypatch)

    def make(variant):
        model = estimator("linear", variant)
        x, y = arrays("numeric", variant)
        model.__dict__.update(leak(np.nan_to_num(x), y))
        return model

    from .walk import lines_of

    first, second = (lines_of(make(v)) for v in (0, 1))
    assert first != second


class LastBit(Masking):
    """Masks all but one bit."""

    def gaussian(self, value, sd):
        return super().gaussian(value, sd) + 1e-12 * (np.floor(1e6 * value.sum()) % 2)


def test_a_bit_in_a_release_is_found(monkeypatch):
    mask(monkeypatch, LastBit)
    seen = []
    for flip in (1.0, -1.0):
        x, y = arrays("numeric", 0)
        seen.append(observe(monkeypatch, lambda x=x, y=flip * y: pf.LinearRegression().fit(x, y)))
    assert {"objects", "pickle", "json"} <= set(differences(*seen))


@pytest.mark.parametrize("channel", ["warnings", "log", "stdout", "written"])
def test_side_channels_are_watched(monkeypatch, tmp_path, channel):
    import logging
    import warnings

    mask(monkeypatch)
    release = Oracle.release

    def talkative(oracle, kind, at):
        number = float(oracle._source._block.y.sum())
        if channel == "warnings":
            warnings.warn(f"sum {number}", stacklevel=2)
        elif channel == "log":
            logging.getLogger("privfit").debug("sum %s", number)
        elif channel == "stdout":
            print(number)  # noqa: T201
        else:
            Path(tmp_path / "trace").write_text(str(number))
        return release(oracle, kind, at)

    monkeypatch.setattr(Oracle, "release", talkative)
    first, second = (observe(monkeypatch, lambda v=v: estimator("linear", v)) for v in (0, 1))
    assert first[channel]
    assert (channel in differences(first, second)) == (channel != "written")
