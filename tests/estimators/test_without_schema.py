"""X without a schema: columns of text are refused by their types, and all missing cells are alike."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import privfit as pf
from privfit.errors import SchemaError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
Y = RNG.integers(0, 2, 120)
SPELLED = [str(number) for number in X[:, 1]]


def fitted(x):
    return pf.LogisticRegression(inference=False, random_state=0, solver="gradient-descent").fit(x, Y)


def as_bytes(cells, kind):
    """Text in 16 bytes, by which a cell spells a number or not."""
    return pa.array([None if cell is None else cell.encode()[:16].ljust(16) for cell in cells], kind)


def as_uuids(cells):
    return pa.ExtensionArray.from_storage(pa.uuid(), as_bytes(cells, pa.binary(16)))


OF_TEXT = {
    "string": lambda cells: pd.DataFrame({"a": X[:, 0], "b": pd.Series(cells, dtype="string")}),
    "pyarrow": lambda cells: pd.DataFrame({"a": X[:, 0], "b": pd.Series(cells, dtype="string[pyarrow]")}),
    "category": lambda cells: pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(cells)}),
    "mixed category": lambda cells: pd.DataFrame({"a": X[:, 0], "b": pd.Categorical([5, *cells[1:]])}),
    "category of numbers": lambda cells: pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(X[:, 1])}),
    "polars": lambda cells: pl.DataFrame({"a": X[:, 0], "b": cells}),
    "polars category": lambda cells: pl.DataFrame(
        {"a": X[:, 0], "b": pl.Series(cells, dtype=pl.Categorical)}
    ),
    "arrow": lambda cells: pa.table({"a": X[:, 0], "b": cells}),
    "arrow bytes": lambda cells: pa.table({"a": X[:, 0], "b": as_bytes(cells, pa.large_binary())}),
    "arrow bytes in view": lambda cells: pa.table({"a": X[:, 0], "b": as_bytes(cells, pa.binary_view())}),
    "arrow bytes of one length": lambda cells: pa.table({"a": X[:, 0], "b": as_bytes(cells, pa.binary(16))}),
    "arrow uuid": lambda cells: pa.table({"a": X[:, 0], "b": as_uuids(cells)}),
    "pandas uuid": lambda cells: pd.DataFrame(
        {"a": X[:, 0], "b": pd.Series(as_uuids(cells), dtype=pd.ArrowDtype(pa.uuid()))}
    ),
    "arrow batch": lambda cells: pa.record_batch({"a": X[:, 0], "b": cells}),
    "arrow dictionary": lambda cells: pa.table({"a": X[:, 0], "b": pa.array(cells).dictionary_encode()}),
    "array": lambda cells: np.column_stack([SPELLED, [cell or "" for cell in cells]]),
}
if pd.Series(SPELLED, dtype="str").dtype != object:  # before pandas 3 these are objects
    OF_TEXT["str"] = lambda cells: pd.DataFrame({"a": X[:, 0], "b": pd.Series(cells, dtype="str")})


@pytest.mark.parametrize("kind", OF_TEXT)
def test_neighbours_of_a_type_that_holds_text_are_refused_alike(kind):
    said = set()
    for cell in ("1.5", "CANARY", "", None):
        with pytest.raises(SchemaError, match=r"^X must hold numbers; declare text columns") as caught:
            fitted(OF_TEXT[kind]([*SPELLED[:-1], cell]))
        said.add(str(caught.value))
    assert len(said) == 1


TIMES = pd.date_range("2020", periods=120)


@pytest.mark.parametrize(
    "x",
    [
        pd.DataFrame({"a": TIMES}),
        pd.DataFrame({"a": X[:, 0], "b": TIMES.tz_localize("UTC")}),
        pd.DataFrame({"a": TIMES - TIMES[0]}),
        np.array(TIMES)[:, None],
        pa.table({"a": pa.array(TIMES.date)}),
        pl.DataFrame({"a": TIMES.to_numpy()}),
    ],
    ids=["dates", "zone", "durations", "array", "arrow", "polars"],
)
def test_times_are_no_numbers(x):
    """They were fitted in nanoseconds where no other column was beside them."""
    with pytest.raises(SchemaError, match=r"^X must hold numbers"):
        fitted(x)


@pytest.mark.parametrize(
    ("model", "response", "why"),
    [
        (pf.LogisticRegression(norm_bound=3.0), "y", "row_norm in the schema"),
        (pf.LogisticRegression(classes=["no", "yes"]), "y", "levels of the response"),
        (pf.LinearSVC(classes=["no", "yes"]), "y", "levels of the response"),
        (pf.LinearRegression(norm_bound=3.0), "x", "row_norm in the schema"),
        (pf.PoissonRegressor(count_bound=5.0), "k", "declared upper bound"),
        (
            pf.MEstimator(loss=pf.losses.Poisson(3.0, 9.0), count_bound=5.0),
            "k",
            "upper bound of the response",
        ),
    ],
)
def test_what_a_schema_declares_is_not_said_twice(model, response, why):
    """It was ignored without a word; clones and searches keep what was given, and fits refuse it."""
    schema = {
        "x": {"type": "numeric", "lower": 0, "upper": 1},
        "k": {"type": "numeric", "lower": 0, "upper": 9},
        "y": {"type": "categorical", "levels": ["no", "yes"]},
    }
    rows = pd.DataFrame({"x": np.linspace(0, 1, 300), "k": [1, 2, 3] * 100, "y": ["no", "yes"] * 150})
    chosen = clone(model.set_params(schema=schema))
    with pytest.raises(pf.InvalidArgument, match=rf"_?\w+ is for fits without a schema, .*{why}"):
        chosen.fit(rows, response)


@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (
            pf.MEstimator(loss=pf.losses.PseudoHuber(0.5), classes=[0, 1]),
            "classes goes with the loss of",
        ),
        (
            pf.MEstimator(loss=pf.losses.Logistic(), count_bound=3.0),
            "count_bound goes with the loss",
        ),
    ],
)
def test_an_argument_for_another_kind_of_loss_is_refused(model, rule):
    with pytest.raises(pf.InvalidArgument, match=rule):
        model.fit(np.zeros((30, 1)), np.zeros(30))


@pytest.mark.parametrize("given", ["no", 0.5, None, 1])
def test_inference_is_a_truth_or_a_split(given):
    """A text and most numbers count as true in Python, so that ``"no"`` bought standard errors."""
    rule = f"inference must be True, False or a BudgetSplit, got {type(given).__name__}"
    with pytest.raises(pf.InvalidArgument, match=rule):
        pf.LinearRegression(inference=given).fit(np.zeros((30, 1)), np.zeros(30))


def test_a_frame_without_columns_is_named():
    with pytest.raises(SchemaError, match=r"^X has no column"):
        fitted(pd.DataFrame(index=range(120)))


CONTAINERS = {
    "frame": lambda cells: pd.DataFrame({"a": X[:, 0], "b": pd.Series(cells, dtype=object)}),
    "frame of objects": lambda cells: pd.DataFrame({"a": X[:, 0], "b": cells}, dtype=object),
    "array": lambda cells: np.array([X[:, 0].astype(object), np.fromiter(cells, dtype=object)]).T,
    "list": lambda cells: [list(row) for row in zip(X[:, 0].tolist(), cells, strict=True)],
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_neighbours_among_python_objects_may_miss_cells_in_any_way(kind):
    """A row with a missing cell counts nothing, whatever stands for it."""
    numbers = X[:, 1].tolist()
    found = [
        fitted(CONTAINERS[kind]([*numbers[:-1], cell])).coef_
        for cell in (np.nan, None, pd.NA, pd.NaT, float("nan"))
    ]
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])
    given = CONTAINERS[kind]([*numbers[:-1], pd.NA])
    fitted(given)
    cell = given.iloc[-1, 1] if isinstance(given, pd.DataFrame) else given[-1][1]
    assert cell is pd.NA  # the caller's table stays as it is


@pytest.mark.parametrize("kind", [pa.decimal128(10, 4), pa.decimal256(40, 4)])
def test_a_column_of_decimals_may_miss_cells(kind):
    numbers = [Decimal(f"{number:.4f}") for number in X[:, 1]]
    columns = [pd.Series(cells, dtype=pd.ArrowDtype(kind)) for cells in ([*numbers[:-1], None], numbers)]
    missing, complete = (fitted(pd.DataFrame({"a": X[:, 0], "b": column})).coef_ for column in columns)
    floats = [*map(float, numbers[:-1]), np.nan]
    np.testing.assert_array_equal(missing, fitted(pd.DataFrame({"a": X[:, 0], "b": floats})).coef_)
    assert not np.array_equal(missing, complete)


def test_names_of_columns_are_kept():
    frame = CONTAINERS["frame"]([*X[:-1, 1].tolist(), pd.NA])
    assert fitted(frame).feature_names_in_.tolist() == ["a", "b"]


def test_a_signalling_nan_is_refused_as_what_is_no_number():
    cells = X.astype(object)
    cells[3, 1] = Decimal("sNaN")
    for x in (cells, pd.DataFrame(cells), cells.tolist()):
        with pytest.raises(SchemaError, match=r"^X must hold numbers"):
            fitted(x)


@pytest.mark.parametrize("estimator", [pf.LogisticRegression, pf.LinearRegression])
def test_a_name_of_a_response_needs_a_schema(estimator):
    frame = pd.DataFrame({"a": X[:, 0], "y": Y})
    clustered = pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=2)
    for table in (frame, pl.from_pandas(frame), clustered):
        with pytest.raises(pf.InvalidArgument, match=r"y may be the name of a column only with a schema"):
            estimator().fit(table, "y")


@pytest.mark.parametrize("estimator", [pf.LogisticRegression, pf.LinearRegression])
@pytest.mark.parametrize("y", ["y", Y, None])
def test_a_file_needs_a_schema(estimator, y):
    with pytest.raises(pf.InvalidArgument, match="schema is needed to fit a file"):
        estimator().fit("rows.parquet", y)


def test_a_score_without_a_schema_needs_the_response_itself():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    model = pf.LinearRegression(inference=False).fit(frame, X[:, 0])
    with pytest.raises(pf.InvalidArgument, match=r"y may be the name of a column only with a schema"):
        model.score(frame, "a")


def test_matrices_and_sparse_columns_are_read_as_arrays_are():
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (200, 2)), rng.uniform(-1, 1, 200)
    x[rng.random(x.shape) < 0.5] = 0.0
    frame = pd.DataFrame(x, columns=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        forms = [np.matrix(x), frame.astype(pd.SparseDtype(float, 0.0)), frame.astype("Sparse[float]")]
    forms.append(forms[-1].assign(b=frame["b"]))
    expected = pf.LinearRegression(inference=False, random_state=0).fit(x, y)
    for form in forms:
        found = pf.LinearRegression(inference=False, random_state=0).fit(form, y)
        np.testing.assert_array_equal(found.coef_, expected.coef_)
        np.testing.assert_allclose(found.predict(form), expected.predict(x), rtol=1e-12)
