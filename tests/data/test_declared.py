"""Cells of declared columns: codes for missing cells, decimal commas."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfit as pf
from privfit.data.check import check_table
from privfit.data.columns import Parts
from privfit.data.declarations import CategoricalColumn, NumericColumn
from privfit.data.declared import declared_codes, declared_numbers, encode_categorical, encode_numeric
from privfit.data.levels import MISSING, UNKNOWN
from privfit.data.tables import open_table

AGE = NumericColumn(0, 120, missing_codes=(-9, 99, 12.1))
NAN = np.nan
AGES = {
    "floats": (np.array([30.0, -9.0, 99.0, NAN, 500.0]), [30, NAN, NAN, NAN, 120]),
    "whole numbers": (np.array([30, -9, 99, 130]), [30, NAN, NAN, 120]),
    "single precision": (np.array([12.1, 99, 12.2], np.float32), [NAN, NAN, np.float32(12.2)]),
    "text": (pa.array(["30", " -9", "99.0", "9.9e1", None, "NA"]), [30, NAN, NAN, NAN, NAN, NAN]),
    "a dictionary": (pa.array(["30", "-9", None]).dictionary_encode(), [30, NAN, NAN]),
    "decimals": (pa.array([Decimal("12.1"), Decimal("99.0"), Decimal("3.0")]), [NAN, NAN, 3]),
    "objects": (np.array([30, -9.0, "99", Decimal("12.1"), None, True], object), [30, NAN, NAN, NAN, NAN, 1]),
    "parts": (Parts([pa.array([99, 5]), pa.array(["99", "7"])]), [NAN, 5, NAN, 7]),
}


@pytest.mark.parametrize(("cells", "expected"), AGES.values(), ids=AGES)
def test_numbers_that_are_codes_are_missing(cells, expected):
    np.testing.assert_array_equal(encode_numeric(cells, AGE), expected)
    filled = encode_numeric(cells, NumericColumn(0, 120, missing=40, missing_codes=AGE.missing_codes))
    np.testing.assert_array_equal(filled, np.where(np.isnan(expected), 40.0, expected))


def test_the_cells_themselves_are_left_alone():
    cells = np.array([99.0, 1.0])
    encode_numeric(cells, AGE)
    assert cells.tolist() == [99.0, 1.0]


SEX = CategoricalColumn(("f", "m"), missing_codes=("NA", "?", 9))
SEXES = {
    "text": (pa.array(["f", "NA", " ? ", "9", "x", None, "na"]), [0, -1, -1, -1, UNKNOWN, -1, UNKNOWN]),
    "objects": (np.array(["m", 9, "NA", 9.0, 8], object), [1, -1, -1, -1, UNKNOWN]),
    "a dictionary": (pa.array(["f", "NA", "x"]).dictionary_encode(), [0, -1, UNKNOWN]),
    "parts": (Parts([pa.array(["f", "NA"]), pa.array([9, 8])]), [0, -1, -1, UNKNOWN]),
}


@pytest.mark.parametrize(("cells", "expected"), SEXES.values(), ids=SEXES)
def test_values_that_are_codes_are_missing_and_no_other_level(cells, expected):
    assert declared_codes(cells, SEX).tolist() == expected
    assert encode_categorical(cells, SEX).tolist() == [0 if code == UNKNOWN else code for code in expected]
    filled = CategoricalColumn(SEX.levels, missing="m", missing_codes=SEX.missing_codes)
    assert encode_categorical(cells, filled).tolist() == [
        {UNKNOWN: 0, MISSING: 1}.get(k, k) for k in expected
    ]


def test_levels_that_are_numbers_may_have_text_for_missing_cells():
    column = CategoricalColumn((0, 1), missing_codes=("NA", 9))
    cells = pa.array(["0", "1.0", "NA", "9", "8", ""])
    assert declared_codes(cells, column).tolist() == [0, 1, MISSING, MISSING, UNKNOWN, MISSING]
    assert declared_codes(np.array([0, 1, 9, 8]), column).tolist() == [0, 1, MISSING, UNKNOWN]


PRICE = NumericColumn(0, 1e6, decimal=",")
PRICES = {
    "text": (pa.array(["78,5", " 7 ", "-1e3", "1,5E2", "inf"]), [78.5, 7, -1000, 150, np.inf]),
    "no numbers": (pa.array(["1.000,5", "1.5", "1,2,3", ",", None]), [NAN] * 5),
    "objects": (
        np.array(["78,5", 1.5, Decimal("2.5"), Fraction(1, 2), "1.5", None, True], object),
        [78.5, 1.5, 2.5, 0.5, NAN, NAN, 1],
    ),
    "numbers": (np.array([1.5, 2.5]), [1.5, 2.5]),
    "text of NumPy": (np.array(["0,5", "1"]), [0.5, 1.0]),
    "a dictionary": (pa.array(["0,5", None]).dictionary_encode(), [0.5, NAN]),
    "parts": (Parts([pa.array([1.5]), pa.array(["1,5"])]), [1.5, 1.5]),
}


@pytest.mark.parametrize(("cells", "expected"), PRICES.values(), ids=PRICES)
def test_decimal_commas(cells, expected):
    np.testing.assert_array_equal(declared_numbers(cells, PRICE), expected)


def test_codes_may_have_decimal_commas():
    column = NumericColumn(0, 100, decimal=",", missing_codes=(99.5,))
    np.testing.assert_array_equal(declared_numbers(pa.array(["99,5", "9,5"]), column), [NAN, 9.5])


CELLS = st.lists(
    st.sampled_from(["1,5", "1.5", "-9", 9, 9.0, None, "NA", Decimal("9"), 1.5, "x"]), min_size=1
)


@settings(max_examples=100, deadline=None)
@given(CELLS)
def test_a_cell_is_read_without_regard_to_the_others(cells):
    numeric = NumericColumn(0, 10, decimal=",", missing_codes=(-9, 9))
    levels = CategoricalColumn(("x", "y"), missing_codes=("NA", 9))
    together = np.array(cells, dtype=object)
    numbers = [encode_numeric(together[k : k + 1], numeric)[0] for k in range(len(cells))]
    np.testing.assert_array_equal(encode_numeric(together, numeric), numbers)
    codes = [encode_categorical(together[k : k + 1], levels)[0] for k in range(len(cells))]
    np.testing.assert_array_equal(encode_categorical(together, levels), codes)


NUMBER = {"type": "numeric", "lower": 0, "upper": 9}
LETTER = {"type": "categorical", "levels": ["a", "b"]}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({**NUMBER, "missing_codes": 99}, "must be a list"),
        ({**NUMBER, "missing_codes": ["NA"]}, "must be a number"),
        ({**NUMBER, "missing_codes": [np.nan]}, "must be finite"),
        (
            {**NUMBER, "missing": 9, "missing_codes": [9]},
            "none of missing_codes",
        ),
        ({**NUMBER, "unit": True, "missing_codes": [9]}, "unit=true"),
        ({**NUMBER, "decimal": ";"}, "decimal must be"),
        ({**LETTER, "missing_codes": "NA"}, "must be a list"),
        ({**LETTER, "missing_codes": ["b"]}, "no levels"),
        ({"type": "categorical", "levels": [0, 1], "missing_codes": ["1"]}, "no levels"),
        ({"type": "categorical", "levels": ["1", "2"], "missing_codes": [1]}, "no levels"),
        ({**LETTER, "missing_codes": [True]}, "text or numbers"),
        ({**LETTER, "missing_codes": [""]}, "blank"),
        ({**LETTER, "decimal": ","}, "no option of a categorical"),
    ],
)
def test_refusals_name_column_and_rule(column, message):
    with pytest.raises(pf.SchemaError, match=message) as error:
        pf.Schema({"x": column})
    assert str(error.value).startswith("column 'x': ")


SCHEMA = pf.Schema(
    {
        "x": {"type": "numeric", "lower": 0, "upper": 10, "missing_codes": [-9, 99], "decimal": ","},
        "g": {**LETTER, "missing_codes": ["NA"]},
        "y": {
            "type": "categorical",
            "levels": ["no", "yes"],
            "target": True,
            "missing_codes": ["refused", 7],
        },
    }
)


def test_a_schema_keeps_them_in_toml_and_leaves_defaults_out(tmp_path):
    SCHEMA.to_toml(tmp_path / "s.toml")
    assert pf.Schema.from_toml(tmp_path / "s.toml") == SCHEMA
    text = (tmp_path / "s.toml").read_text()
    assert "missing_codes = [-9, 99]" in text
    assert 'decimal = ","' in text
    assert SCHEMA.fingerprint != pf.Schema({**SCHEMA, "g": CategoricalColumn(("a", "b"))}).fingerprint
    plain = pf.Schema({"x": NumericColumn(0, 1), "g": CategoricalColumn(("a", "b"))})
    assert not any("missing_codes" in one or "decimal" in one for one in plain.to_dict().values())


def tables(n: int = 400) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return a table with codes, as a CSV file has it, and the same with blank cells."""
    rng = np.random.default_rng(5)
    x, g = rng.uniform(0, 10, n).round(2), rng.choice(["a", "b"], n)
    y = np.where(rng.logistic(size=n) < 0.3 * x - 1.5 + (g == "b"), "yes", "no")
    blank = pd.DataFrame({"x": x.astype(str), "g": g, "y": y}, dtype=object)
    blank.loc[rng.random(n) < 0.2, "x"], blank.loc[rng.random(n) < 0.2, "g"] = None, None
    blank.loc[rng.random(n) < 0.1, "y"] = None
    coded = blank.copy()
    coded["x"] = [("99" if k % 2 else "-9") if cell is None else cell for k, cell in enumerate(blank["x"])]
    coded["x"] = coded["x"].str.replace(".", ",")
    coded["g"], coded["y"] = coded["g"].fillna("NA"), coded["y"].fillna("refused")
    return coded, blank


def test_fits_are_those_of_blank_cells_wherever_the_table_lies(tmp_path):
    coded, blank = tables()
    entries = {name: {**one, "missing_codes": []} for name, one in SCHEMA.to_dict().items()}
    entries["x"]["decimal"] = "."
    common = {"solver": "non-private"}
    expected = pf.logit("y ~ x + g", blank, schema=entries, **common)
    coded.to_csv(tmp_path / "t.csv", sep=";", index=False)
    forms = (coded, pl.from_pandas(coded), pa.Table.from_pandas(coded))
    fits = [pf.logit("y ~ x + g", form, schema=SCHEMA, **common) for form in forms]
    fits.append(pf.logit("y ~ x + g", tmp_path / "t.csv", schema=SCHEMA, sep=";", **common))
    for fit in fits:
        np.testing.assert_allclose(fit.params, expected.params, rtol=1e-12)
        np.testing.assert_allclose(fit.bse, expected.bse, rtol=1e-12)
    ignored = pf.logit("y ~ x + g", coded[coded["y"] != "refused"], schema=entries, **common)
    assert np.max(np.abs(np.array(ignored.params - expected.params))) > 0.1


def test_who_predicts_is_told_of_codes():
    coded, _ = tables()
    fit = pf.LogisticRegression(schema=SCHEMA, solver="non-private").fit(coded)
    with pytest.raises(pf.SchemaError, match="column 'x' holds a cell that is missing"):
        fit.predict(pd.DataFrame({"x": ["99"], "g": ["a"]}))
    with pytest.raises(pf.SchemaError, match="column 'g' holds a missing cell"):
        fit.predict(pd.DataFrame({"x": ["9"], "g": ["NA"]}))


def test_the_curator_is_told_how_many_and_of_decimal_commas():
    coded, blank = tables()
    found = {(one.column, one.kind): one.count for one in check_table(open_table(coded), SCHEMA)}
    for name in ("x", "g", "y"):
        assert found[name, "missing"] == blank[name].isna().sum()
    assert not any(kind in ("unparseable", "unknown level", "unknown label", "above") for _, kind in found)
    points = pf.Schema({**SCHEMA, "x": NumericColumn(0, 10, missing_codes=(-9, 99))})
    found = {(one.column, one.kind): one.count for one in check_table(open_table(coded), points)}
    assert found["x", "missing"] == blank["x"].isna().sum()
    assert found["x", "unparseable"] == found["x", "decimal commas"] == coded["x"].str.contains(",").sum()


def test_the_curator_is_told_of_one_number_beyond_the_bounds():
    schema = pf.Schema({"x": NumericColumn(0, 10)})
    (finding,) = check_table(open_table({"x": [1.0, 5.0, 999.0, 999.0]}), schema)
    assert (finding.kind, finding.count) == ("above", 2)
    assert finding.detail.endswith("all are 999: if that stands for missing cells, missing_codes = [999]")
    for others in ([998.0, 999.0], [np.inf, np.inf], [999.0]):
        (finding,) = check_table(open_table({"x": [1.0, 5.0, *others]}), schema)
        assert finding.detail == "above 10, clamped"


def test_a_cache_is_made_anew_for_other_codes(tmp_path):
    coded, _ = tables()
    plain = {name: {**one, "missing_codes": []} for name, one in SCHEMA.to_dict().items()}
    plain["y"]["other"] = "no"
    coded.to_csv(tmp_path / "t.csv", index=False)
    for schema in (SCHEMA, pf.Schema(plain), SCHEMA):
        common = {"schema": schema, "solver": "non-private"}
        kept = pf.logit("y ~ x + g", pf.RowCache(tmp_path / "t.csv", folder=tmp_path / "kept"), **common)
        np.testing.assert_allclose(kept.params, pf.logit("y ~ x + g", coded, **common).params, rtol=1e-6)


def test_bounds_are_learned_of_numbers_that_are_no_codes():
    entry = {"type": "numeric", "missing_codes": [9999], "decimal": ","}
    rng = np.random.default_rng(2)
    cells = np.where(rng.random(5000) < 0.3, "9999", rng.uniform(20, 60, 5000).round(1).astype(str))
    table = pd.DataFrame({"x": [cell.replace(".", ",") for cell in cells]})
    found = pf.learn_bounds(table, {"x": entry}, epsilon=5.0, random_state=0).schema["x"]
    assert 10 < found.lower < found.upper < 100
    assert (found.missing_codes, found.decimal) == ((9999,), ",")
