"""The way back from encoded to raw coefficients."""

import numpy as np
import pytest
from raw_cells import raw_cells

from privfit.data.design import INTERCEPT, Design, DesignColumn, Target
from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.tables import Table
from privfit.errors import SchemaError

SCHEMA = Schema(
    {
        "age": {"type": "numeric", "lower": 17, "upper": 90},
        "gain": {"type": "numeric", "lower": 0, "upper": 1e5, "transform": "log1p"},
        "area": {"type": "numeric", "lower": -3, "upper": -1},
        "sex": {"type": "categorical", "levels": ["f", "m", "d"]},
        "wage": {"type": "numeric", "lower": 5, "upper": 60, "transform": "log"},
        "high": {"type": "categorical", "levels": ["no", "yes"]},
    }
)


def table(n=200):
    rng = np.random.default_rng(0)
    return Table(
        [
            ("age", rng.uniform(17, 90, n)),
            ("gain", rng.uniform(0, 1e5, n)),
            ("area", rng.uniform(-3, -1, n)),
            ("sex", rng.choice(["f", "m", "d"], n)),
            ("wage", rng.uniform(5, 60, n)),
            ("high", rng.choice(["no", "yes"], n)),
        ]
    )


def raw_matrix(data, intercept):
    sex = raw_cells(data, "sex")
    columns = [
        raw_cells(data, "age"),
        np.log1p(raw_cells(data, "gain")),
        raw_cells(data, "area"),
        sex == "m",
        sex == "d",
    ]
    return np.column_stack([np.ones(data.n_rows)] * intercept + columns).astype(float)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("target", "kind"), [("wage", "numeric"), ("high", "binary"), ("wage", "raw")])
def test_predictions_agree_in_raw_and_encoded_coordinates(intercept, target, kind):
    schema = SCHEMA
    if kind == "raw":
        schema = Schema(SCHEMA.to_dict() | {"wage": {"type": "numeric", "lower": 5, "upper": 60}})
    encoder = SchemaEncoder(
        schema,
        target=target,
        columns=["age", "gain", "area", "sex"],
        intercept=intercept,
        target_kind="binary" if kind == "binary" else "numeric",
    )
    data = table()
    x, y = encoder.encode(data)
    assert (np.abs(x) <= 1).all()
    theta = np.random.default_rng(1).standard_normal(x.shape[1])
    matrix, shift = encoder.design.reporting_map()
    raw = raw_matrix(data, intercept) @ (matrix @ theta + shift)
    response = encoder.design.target
    np.testing.assert_allclose(raw, response.center + response.half_width * (x @ theta), rtol=1e-9, atol=1e-9)
    if kind != "binary":
        wage = raw_cells(data, "wage")
        expected = np.log(wage) if kind == "numeric" else wage
        np.testing.assert_allclose(response.center + response.half_width * y, expected, rtol=1e-12)


def test_without_intercept_every_centre_is_zero():
    encoder = SchemaEncoder(SCHEMA, target="wage", columns=["age", "area"], intercept=False)
    assert not encoder.design.has_intercept
    assert {column.center for column in encoder.design.columns} == {0.0}
    assert [column.half_width for column in encoder.design.columns] == [90.0, 3.0]
    assert encoder.design.target.center == 0.0


def test_coefficients_of_classes_have_names_of_their_own():
    columns = (DesignColumn(INTERCEPT), DesignColumn("a"))
    many = Design(columns, Target("y", "class", labels=("x", "b", "c")), 1.0, bounded=True)
    assert many.reported_names == ("b: Intercept", "b: a", "c: Intercept", "c: a")
    two = Design(columns, Target("y", "binary", labels=("x", "b")), 1.0, bounded=True)
    assert two.reported_names == two.names == many.names
    columns = (DesignColumn("a: b"), DesignColumn("b"))
    with pytest.raises(SchemaError, match="rename a class"):
        Design(columns, Target("y", "class", labels=("x", "z", "z: a")), 1.0, bounded=True)


def test_design_refuses_no_column_and_equal_names():
    target = Target("y", "numeric")
    with pytest.raises(SchemaError, match="no column"):
        Design((), target, 1.0, bounded=True)
    with pytest.raises(SchemaError, match="same name"):
        Design((DesignColumn(INTERCEPT), DesignColumn("a"), DesignColumn("a")), target, 1.0, bounded=True)
