"""A formula's design is formulaic's, bounded by the schema, and a function of one row at a time."""

import doctest
import math
import unicodedata

import numpy as np
import pandas as pd
import pytest
from formulaic import model_matrix
from hypothesis import given, settings
from hypothesis import strategies as st

from privfit.data.encode import AbstractEncoder, SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.source import ArraySource
from privfit.data.tables import Table, open_table
from privfit.errors import FormulaError, LabelError, SchemaError
from privfit.terms import encoder as encoder_module
from privfit.terms.encoder import FormulaEncoder
from tests.terms.formula_table import SAME_AS_FORMULAIC, SCHEMA, table

WIDE = "y ~ age * sex + np.sqrt(gain) + I(dose ** 2):job + gain + I((sex == 'M') * 1):age:dose + sex:job"
WIDE += " + age * dose * sex + I(age ** 2) + I(age ** 3) + gain * job"


@pytest.mark.parametrize("formula", SAME_AS_FORMULAIC)
def test_the_design_is_that_of_formulaic(formula):
    data = table(500)
    expected = model_matrix(formula, data, context={}).rhs
    encoder = FormulaEncoder(formula, SCHEMA)
    x, y = encoder.encode(open_table(data, needed=encoder.needed))
    assert encoder.design.names == tuple(expected.columns)
    values = expected.to_numpy(dtype=float)
    np.testing.assert_allclose(encoder.design.raw_rows(x), values, rtol=1e-12, atol=1e-12 * values.max())
    np.testing.assert_allclose(y * 20, data["y"], rtol=1e-14)
    assert x.flags.c_contiguous
    assert x.dtype == y.dtype == np.float64


@pytest.mark.parametrize("formula", [*SAME_AS_FORMULAIC, WIDE])
def test_ranges_hold_every_row_and_are_nearly_reached(formula):
    encoder = FormulaEncoder(formula, SCHEMA)
    x = encoder.encode_predictors(open_table(table(60_000)))
    assert np.abs(x).max() <= 1.0
    assert (np.abs(x).max(axis=0) > 0.8).all()  # a loose range would cost accuracy
    assert (x**2).sum(axis=1).max() <= encoder.design.norm_bound**2


def test_the_norm_bound_counts_terms_and_is_reached():
    encoder = FormulaEncoder("y ~ age + C(job) + sex:job + C(sex):age:dose", SCHEMA)
    ends = [
        {"age": age, "sex": sex, "job": job, "dose": 4.0} for age in (-2, 5) for sex in "FM" for job in "xyz"
    ]
    corners = pd.DataFrame(ends)
    x = encoder.encode_predictors(open_table(corners))
    assert (x**2).sum(axis=1).max() == 5.0
    assert encoder.design.norm_bound == pytest.approx(math.sqrt(5), rel=1e-8)
    assert encoder.design.norm_bound > math.sqrt(5)
    assert encoder.design.bounded


def test_a_plain_formula_is_the_schema_encoder():
    data = table(300)
    formula = FormulaEncoder("yes ~ age + gain + sex + job", SCHEMA, target_kind="binary")
    schema = SchemaEncoder(SCHEMA, target="yes", columns=["age", "gain", "sex", "job"], target_kind="binary")
    by_formula, by_schema = formula.encode(open_table(data)), schema.encode(open_table(data))
    np.testing.assert_array_equal(by_formula[0], by_schema[0])
    np.testing.assert_array_equal(by_formula[1], by_schema[1])
    assert formula.design == schema.design
    assert formula.needed == schema.needed


def test_a_dot_is_every_column_but_the_response_and_the_unit():
    encoder = FormulaEncoder("y ~ .", SCHEMA)
    assert encoder.needed == (*(name for name in SCHEMA if name not in ("y", "id")), "y")
    less = FormulaEncoder("y ~ . - gain - job + C(sex):age", SCHEMA)
    assert less.needed == ("yes", "age", "dose", "sex", "grade", "net income", "y")  # only what it uses
    recoded = FormulaEncoder("y ~ . - job - gain + C(job, contr.treatment('z')) + np.log1p(gain)", SCHEMA)
    assert "C(job, contr.treatment('z'))[T.x]" in recoded.design.names
    assert "log1p(gain)" not in recoded.design.names
    with pytest.raises(FormulaError, match="stands for no column"):
        FormulaEncoder("y ~ .", Schema({"y": SCHEMA["y"], "id": SCHEMA["id"]}))


def test_one_coding_under_two_spellings_is_one_factor():
    encoder = FormulaEncoder("y ~ C(sex) * age + sex:dose", SCHEMA)
    assert encoder.design.names == (
        "Intercept", "C(sex)[T.M]", "age", "C(sex)[T.M]:age", "C(sex)[F]:dose", "C(sex)[M]:dose",
    )  # fmt: skip
    again = FormulaEncoder("y ~ sex + C(sex, contr.treatment('F')):age", SCHEMA)
    assert again.design.names == ("Intercept", "sex[T.M]", "sex[F]:age", "sex[M]:age")


@pytest.mark.parametrize(
    "name", ["\N{MICRO SIGN}", "\N{LATIN SMALL LIGATURE FI}x", "e\N{COMBINING ACUTE ACCENT}"]
)
def test_a_name_means_its_column_although_python_spells_it_in_another_way(name):
    other = unicodedata.normalize("NFKC", name)
    schema = Schema({one: {"type": "numeric", "lower": 0, "upper": 1} for one in ("y", name, other)})
    table = open_table({"y": [0.0], name: [0.25], other: [0.5]})
    for spelled, value in ((name, 0.25), (f"`{name}`", 0.25), (other, 0.5)):
        encoder = FormulaEncoder(f"y ~ I({spelled} * 2)", schema)
        assert encoder.design.raw_rows(encoder.encode_predictors(table))[0, 1] == 2 * value
        assert encoder.needed == (name if value == 0.25 else other, "y")


def test_a_declared_transform_belongs_to_the_bare_name_only():
    encoder = FormulaEncoder("y ~ gain + I(gain) + np.sqrt(gain) + gain:age", SCHEMA)
    assert encoder.design.names == ("Intercept", "log1p(gain)", "I(gain)", "np.sqrt(gain)", "log1p(gain):age")
    x = encoder.encode_predictors(open_table({"gain": [99.0, 2000.0, -7.0], "age": [1.0, 1.0, 1.0]}))
    raw = encoder.design.raw_rows(x)
    clamped = np.array([99.0, 1000.0, 0.0])
    np.testing.assert_allclose(raw[:, 1], np.log1p(clamped), atol=1e-14)
    np.testing.assert_allclose(raw[:, 2], clamped, atol=1e-12)
    np.testing.assert_allclose(raw[:, 3], np.sqrt(clamped), atol=1e-13)
    np.testing.assert_allclose(raw[:, 4], np.log1p(clamped), atol=1e-14)


def test_scaling_by_hand():
    schema = Schema({**SCHEMA, "zero": {"type": "numeric", "lower": -1, "upper": 3}})
    columns = FormulaEncoder("y ~ zero * C(sex) + zero:dose + I(zero ** 2)", schema).design.columns
    scales = {column.name: (column.center, column.half_width) for column in columns}
    assert scales == {
        "Intercept": (0.0, 1.0),
        "zero": (1.0, 2.0),
        "C(sex)[T.M]": (0.0, 1.0),
        "I(zero ** 2)": (-1.0 + 2.0, 2.0),  # (zero - 1)**2 is within 2 of 2, and zero**2 - 2 * zero is 1 less
        "zero:C(sex)[T.M]": (0.0, 2.0),
        "zero:dose": (0.0, 3.0 * 1.5),  # dose alone is centred, as there is no column dose
    }
    assert [column.lower for column in columns if column.lower] == [
        ((1, 2.0),),
        ((2, 1.0),),
        ((1, 2.5),),
    ]
    free = FormulaEncoder("y ~ 0 + zero + zero:dose", schema).design
    assert [(column.center, column.half_width) for column in free.columns] == [(0.0, 3.0), (0.0, 12.0)]
    assert free.target.center == 0.0
    assert FormulaEncoder("y ~ 0 + age", SCHEMA).design.norm_bound == pytest.approx(1.0)


def test_levels_come_from_the_schema_not_from_the_data():
    encoder = FormulaEncoder("y ~ sex * job", SCHEMA)
    x = encoder.encode_predictors(open_table({"sex": ["F", "F"], "job": ["x", "y"]}))
    assert len(encoder.design.names) == x.shape[1] == 6
    np.testing.assert_array_equal(x, [[1, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0]])
    text = FormulaEncoder("y ~ C(grade)", SCHEMA).encode_predictors(open_table({"grade": ["3", " 2.0", "9"]}))
    np.testing.assert_array_equal(text, [[1, 0, 1], [1, 1, 0], [1, 0, 0]])  # unknown: the first level


def test_a_row_with_a_missing_cell_is_kept_in_place_and_gets_no_weight():
    data = table(6).astype({"sex": object})
    data.loc[1, "age"] = np.nan
    data.loc[4, "sex"] = None
    for formula in ("y ~ I(age > 0) + sex", "y ~ np.maximum(age, 0):C(sex)", "y ~ 0 + sex:job + age"):
        encoder = FormulaEncoder(formula, SCHEMA)
        x, y = encoder.encode(open_table(data, needed=encoder.needed))
        np.testing.assert_array_equal(np.isnan(x).all(axis=1), [0, 1, 0, 0, 1, 0])
        np.testing.assert_array_equal(np.isnan(x).any(axis=1), [0, 1, 0, 0, 1, 0])
        sums = ArraySource(x, y, norm_bound=encoder.design.norm_bound).sum(_weights, 1)
        assert sums[0] == 4.0


def test_declared_fills_apply_in_the_raw_unit():
    schema = Schema(
        {
            "y": SCHEMA["y"],
            "gain": {"type": "numeric", "lower": 0, "upper": 100, "transform": "log1p", "missing": 9},
            "job": {"type": "categorical", "levels": ["x", "?"], "missing": "?"},
        }
    )
    encoder = FormulaEncoder("y ~ gain + I(gain) + job", schema)
    x = encoder.encode_predictors(open_table({"gain": [None, 9.0], "job": [None, "?"]}))
    np.testing.assert_array_equal(x[0], x[1])
    assert encoder.design.raw_rows(x)[0, 2] == pytest.approx(9.0)


def test_a_declared_row_norm_that_is_smaller_wins():
    schema = Schema({**SCHEMA, "row_norm": 1.25})
    design = FormulaEncoder("y ~ age + sex", schema).design
    assert (design.norm_bound, design.bounded) == (1.25, False)
    assert FormulaEncoder("y ~ 1", schema).design.bounded


def test_kinds_of_response():
    binary = FormulaEncoder("yes ~ age", SCHEMA, target_kind="binary")
    assert binary.design.target.labels == ("no", "yes")
    assert isinstance(binary.needed, tuple)
    _, y = binary.encode(open_table({"age": [0.0, 1.0, 2.0], "yes": ["yes", "no", None]}))
    np.testing.assert_array_equal(y, [1.0, 0.0, np.nan])
    with pytest.raises(LabelError) as caught:
        binary.encode(open_table({"age": [0.0], "yes": ["secret"]}))
    assert "secret" not in str(caught.value)
    with pytest.raises(SchemaError, match="'yes' is categorical"):
        FormulaEncoder("yes ~ age", SCHEMA)
    with pytest.raises(SchemaError, match="'age' is not in the data"):
        binary.encode(open_table({"yes": ["yes"], "ages": [1.0]}))
    counts = Schema({"visits": {"type": "numeric", "lower": 0, "upper": 30}, "age": SCHEMA["age"]})
    _, y = FormulaEncoder("visits ~ age", counts, target_kind="count").encode(
        open_table({"age": [0.0, 1.0], "visits": [4.0, 99.0]})
    )
    np.testing.assert_array_equal(y, [4.0, 30.0])


def test_it_is_an_encoder():
    encoder: AbstractEncoder = FormulaEncoder("y ~ age", SCHEMA)
    assert encoder.needed == ("age", "y")


CELLS = {
    "number": st.one_of(
        st.none(),
        st.floats(),
        st.sampled_from(["3", " -1.5", "?", "", "inf", "1e400", "true"]),
        st.integers(-(10**20), 10**20),
    ),
    "level": st.one_of(
        st.none(), st.sampled_from(["F", "M", " M ", "x", "y", "z", "other", ""]), st.text(max_size=3)
    ),
}
ROW = st.fixed_dictionaries(
    {
        "y": CELLS["number"],
        "age": CELLS["number"],
        "gain": CELLS["number"],
        "dose": CELLS["number"],
        "sex": CELLS["level"],
        "job": CELLS["level"],
    }
)
ENCODER = FormulaEncoder(WIDE, SCHEMA)


def as_table(rows):
    return Table([(name, np.array([row[name] for row in rows], dtype=object)) for name in ENCODER.needed])


@settings(deadline=None, max_examples=100)
@given(st.lists(ROW, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_a_row_is_encoded_alike_in_any_company(rows, random):
    x, y = ENCODER.encode(as_table(rows))
    order = random.sample(range(len(rows)), k=random.randint(1, len(rows)))
    subset_x, subset_y = ENCODER.encode(as_table([rows[k] for k in order]))
    np.testing.assert_array_equal(subset_x, x[order])
    np.testing.assert_array_equal(subset_y, y[order])


@settings(deadline=None, max_examples=200)
@given(st.lists(ROW, min_size=1, max_size=8))
def test_no_row_exceeds_the_norm_bound(rows):
    x, y = ENCODER.encode(as_table(rows))
    bound = ENCODER.design.norm_bound
    finite = np.isfinite(x).all(axis=1)
    assert np.isnan(x[~finite]).all()
    assert (np.abs(x[finite]) <= 1.0).all()
    assert ((x[finite] ** 2).sum(axis=1) <= bound**2).all()
    weight = ArraySource(x, y, norm_bound=bound).sum(_weights, 1)[0]
    assert weight == np.count_nonzero(finite & np.isfinite(y))  # 1 or 0, nothing between


def _weights(block, out):
    out[0, 0] += block.weight.sum()


def test_blocks_of_rows_do_not_show():
    data = table(150_000, seed=3)
    whole = ENCODER.encode_predictors(open_table(data))
    pieces = [
        ENCODER.encode_predictors(open_table(data.iloc[start : start + 50_000]))
        for start in range(0, len(data), 50_000)
    ]
    np.testing.assert_array_equal(whole, np.vstack(pieces))


def test_any_container_gives_the_same_rows(tmp_path):
    data = table(200)
    path, parquet = tmp_path / "rows.csv", tmp_path / "rows.parquet"
    data.to_csv(path, index=False)
    data.to_parquet(parquet)
    arrays = {name: data[name].to_numpy() for name in data}
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({name: data[name].to_list() for name in data})
    x, y = ENCODER.encode(open_table(data))
    for other in (arrays, frame, path, parquet, frame.to_arrow()):
        other_x, other_y = ENCODER.encode(open_table(other, needed=ENCODER.needed))
        np.testing.assert_array_equal(other_x, x)
        np.testing.assert_array_equal(other_y, y)


def test_the_example_in_the_docstring():
    outcome = doctest.testmod(encoder_module)
    assert outcome.attempted > 0
    assert outcome.failed == 0
