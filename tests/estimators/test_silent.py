"""No cell makes a fit warn, or fail with an error of its own, in whatever argument it is."""

import warnings

import numpy as np
import pandas as pd
import pytest

import privfit as pf

CANARY = "CANARY27182"


class Warns(float):
    """A number that warns when it is read or printed."""

    def __float__(self):
        warnings.warn(CANARY, UserWarning, stacklevel=1)
        return 1.0

    def __str__(self):
        warnings.warn(CANARY, UserWarning, stacklevel=1)
        return "1"


class Raises:
    """What is no array, and says so in words of its own."""

    def __array__(self, *_, **__):
        raise RuntimeError(CANARY)


SCHEMA = {
    "a": {"type": "numeric", "lower": 0.0, "upper": 1.0},
    "y": {"type": "numeric", "lower": 0.0, "upper": 1.0, "target": True},
}
WHERE = {
    "list y": lambda cells: ([[0.0]] * len(cells), cells, {}),
    "list X": lambda cells: ([[cell] for cell in cells], [0.0] * len(cells), {}),
    "object X": lambda cells: (pd.DataFrame({"a": np.fromiter(cells, dtype=object)}), [0.0] * len(cells), {}),
    "object y": lambda cells: ([[0.0]] * len(cells), np.fromiter(cells, dtype=object), {}),
    "groups": lambda cells: ([[0.0]] * len(cells), [0.0] * len(cells), {"groups": cells}),
    "sample_weight": lambda cells: ([[0.0]] * len(cells), [0.0] * len(cells), {"sample_weight": cells}),
}


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("cell", [np.ma.masked, Warns(), Raises()], ids=["masked", "warns", "raises"])
def test_nothing_is_said_of_a_cell(where, cell):
    if where in ("list X", "object X") and isinstance(cell, Raises):
        pytest.skip("X without a schema holds numbers: docs/known-limitations.md")
    others = [0.25, 0.5, 0.75, 1.0] * 15
    X, y, beside = WHERE[where]([cell, *others])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        weights = {"weight_bound": 1.0} if "sample_weight" in beside else {}
        pf.LinearRegression(solver="gradient-descent", **weights).fit(X, y, **beside)
    assert warned == []


@pytest.mark.parametrize("cell", [np.ma.masked, Warns(), Raises()], ids=["masked", "warns", "raises"])
def test_nothing_is_said_of_a_cell_beside_a_schema(cell):
    cells = [cell, *[0.5] * 59]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        pf.LinearRegression(schema=SCHEMA).fit(np.full((60, 1), 0.5), cells)
        pf.ols("y ~ a", pd.DataFrame({"a": 0.5, "y": np.fromiter(cells, dtype=object)}), schema=SCHEMA)
        pf.ols("y ~ a", {"a": cells, "y": [0.5] * 60}, schema=SCHEMA)
    assert warned == []


def test_a_stream_neither_warns_nor_stops():
    batches = [([[0.5]] * 3, [np.ma.masked, Warns(), Raises()]), ([], []), ([[0.5]] * 3, [0.5] * 3)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        stream = pf.RowStream(batches, n_rows=20, columns=1)
        pf.LinearRegression(solver="online-to-batch", inference=False).fit(stream)
    assert warned == []


def test_a_column_in_place_of_a_vector_is_warned_of_by_its_shape():
    with pytest.warns(UserWarning, match="column-vector"):
        pf.LinearRegression().fit([[0.5]] * 60, [[0.5]] * 60)
