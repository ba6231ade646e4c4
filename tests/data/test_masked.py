"""What a masked array hides is not read: its cells are missing."""

import numpy as np
import pytest

import privfit as pf
from privfit.data.columns import as_number, unmasked
from privfit.data.levels import level_codes
from privfit.data.tables import open_table, single_column
from privfit.data.unit_scale import UnitScaleEncoder

HIDDEN = [[False, False], [False, True], [True, False]]


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.bool_, object, "U5"])
@pytest.mark.parametrize("form", ["matrix", "mapping", "single"])
def test_masked_cells_are_missing(kind, form):
    cells = np.ma.array(np.array([[1, 0], [0, 1], [1, 1]]).astype(kind), mask=HIDDEN)
    if form == "single":
        columns = [single_column("a", cells[:, k]) for k in (0, 1)]
    else:
        data = {"a": cells[:, 0], "b": cells[:, 1]} if form == "mapping" else cells
        table = open_table(data, columns=["a", "b"])
        columns = [table.values(name) for name in ("a", "b")]
    assert [level_codes(column, (1, 0)).tolist() for column in columns] == [[0, 1, -1], [1, -1, 0]]
    assert [np.isnan(as_number(column)).tolist() for column in columns] == [
        [False, False, True],
        [False, True, False],
    ]


def test_a_declared_question_mark_is_no_masked_cell():
    cells = np.ma.array(["?", "a", "?"], mask=[False, False, True])
    assert level_codes(open_table({"c": cells}).values("c"), ("a", "?")).tolist() == [1, 0, -1]


@pytest.mark.parametrize("schema", [True, False])
def test_fits_and_predictions_do_not_read_what_is_masked(schema):
    rng = np.random.default_rng(2)
    cells = rng.uniform(-1, 1, (200, 2))
    y = cells[:, 0] + 0.1 * rng.normal(size=200)
    hidden = rng.random((200, 2)) < 0.1
    bounds = {"type": "numeric", "lower": -1, "upper": 1}
    declared = pf.Schema({"a": bounds, "b": bounds, "y": {**bounds, "target": True}}) if schema else None
    response = np.ma.array(y, mask=rng.random(200) < 0.1)
    fits = [
        pf.LinearRegression(residual_bound=4, solver="non-private", schema=declared).fit(X, response)
        for X in (
            np.ma.array(cells, mask=hidden),
            np.ma.array(np.where(hidden, 1e9, cells), mask=hidden),
            np.where(hidden, np.nan, cells),
        )
    ]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    np.testing.assert_array_equal(fits[0].coef_, fits[2].coef_)
    with pytest.raises(pf.SchemaError, match="for which there is no prediction"):
        fits[0].predict(np.ma.array(cells, mask=hidden))


def test_arrays_without_schema():
    encoder = UnitScaleEncoder(2, norm_bound=2.0)
    x, y = encoder.encode_arrays(
        np.ma.array([[1.0, 2.0], [3.0, 9e9]], mask=[[0, 0], [0, 1]]), np.ma.array([1.0, 9e9], mask=[0, 1])
    )
    assert np.isnan(x[1, 2])
    assert np.isnan(y[1])
    assert np.isfinite(x[0]).all()


@pytest.mark.parametrize("mask", [[False, False], [False, True]])
@pytest.mark.parametrize(
    ("cells", "read"),
    [
        (np.array(["2020", "2021"], dtype="M8[Y]"), lambda cells: level_codes(cells, ("a", "b"))),
        (np.array(["2020-01-01", "2021-01-01"], dtype="M8[s]"), as_number),
        (np.array([1, 2], dtype="m8[s]"), as_number),
        (np.array([1.0, 2.0 + 1j]), as_number),
        (np.array([(1, 2), (3, 4)], dtype="i4,i4"), lambda cells: level_codes(cells, (1, 2))),
    ],
)
def test_a_masked_cell_does_not_decide_whether_a_type_is_refused(cells, read, mask):
    hidden = np.ma.array(cells, mask=mask) if cells.dtype.kind != "V" else np.ma.array(cells)
    if cells.dtype.kind == "V":
        hidden[1] = np.ma.masked if mask[1] else cells[1]
    with pytest.raises(pf.SchemaError, match="convert it first"):
        read(single_column("a", hidden))


def test_masked_times_are_missing():
    cells = np.ma.array(np.array(["2020-01-01", "2021-01-01"], dtype="M8[s]"), mask=[False, True])
    levels = ("2021-01-01 00:00:00", "2020-01-01 00:00:00")
    assert level_codes(single_column("a", cells), levels).tolist() == [1, -1]


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8, np.bool_, "U5", "M8[s]", "c8", object])
def test_the_type_is_that_of_the_array_whether_or_not_a_cell_is_masked(kind):
    cells = np.array([1, 0]).astype(kind)
    types = {unmasked(np.ma.array(cells, mask=mask)).dtype for mask in ([False, False], [False, True])}
    assert len(types) == 1
