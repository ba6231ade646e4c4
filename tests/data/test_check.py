"""The curator's report finds what does not fit and marks every line."""

import numpy as np
import pytest

from privfit.data.check import MARK, check_table, render_findings
from privfit.data.schema import Schema
from privfit.data.synthetic import census, census_schema
from privfit.data.tables import open_table

SCHEMA = Schema(
    {
        "age": {"type": "numeric", "lower": 17, "upper": 90},
        "hours": {"type": "numeric", "lower": 1, "upper": 99, "missing": 40},
        "flat": {"type": "numeric", "lower": 0, "upper": 5},
        "sex": {"type": "categorical", "levels": ["Female", "Male"]},
        "job": {"type": "categorical", "levels": ["a", "b"], "missing": "b", "other": "b"},
        "date": {"type": "numeric", "lower": 0, "upper": 1},
        "gone": {"type": "numeric", "lower": 0, "upper": 1},
        "y": {"type": "categorical", "levels": ["no", "yes"], "target": True},
    }
)
DATA = {
    "age": [1.0, 200.0, np.inf, np.nan, 50.0],
    "hours": ["?", "", "40", "20", "0"],
    "flat": [7, 8, 9, 5, 6],
    "sex": ["Male", "Female", "male", "x\ny", "x\ny"],
    "job": ["a", None, "c", "a", "b"],
    "date": np.array(["2020-01-01"] * 5, dtype="datetime64[D]"),
    "y": ["no", "yes", "maybe", "no", ""],
    "extra": [1] * 5,
}


def test_findings_count_by_kind():
    found = {(f.column, f.kind): f for f in check_table(open_table(DATA), SCHEMA)}
    counts = {key: finding.count for key, finding in found.items()}
    assert counts == {
        ("age", "missing"): 1,
        ("age", "below"): 1,
        ("age", "above"): 2,
        ("hours", "missing"): 1,
        ("hours", "unparseable"): 1,
        ("hours", "below"): 1,
        ("flat", "above"): 4,
        ("flat", "constant"): 5,
        ("sex", "unknown level"): 3,
        ("job", "missing"): 1,
        ("job", "unknown level"): 1,
        ("date", "wrong type"): 5,
        ("gone", "not in data"): 5,
        ("y", "missing"): 1,
        ("y", "unknown label"): 1,
        ("extra", "not in schema"): 5,
    }
    assert (
        found["sex", "unknown level"].detail
        == "'male', 'x\\ny'; taken as 'Female' unless levels or missing_codes declare it"
    )
    assert found["y", "unknown label"].detail == "'maybe'; refused unless levels or missing_codes declare it"
    assert found["hours", "missing"].detail == "taken as 40"


def test_a_column_without_a_value_is_empty():
    declared = {"type": "numeric", "lower": 0, "upper": 1}
    findings = check_table(open_table({"x": ["a", "b", ""]}), Schema({"x": declared}))
    found = {finding.kind: (finding.count, finding.detail) for finding in findings}
    assert found["empty"] == (3, "no row has a value; the column cannot be told from 1")
    assert "constant" not in found


def test_rows_without_an_exposure_are_found_and_equal_ones_are_no_matter():
    column = {"type": "numeric", "lower": 0.5, "upper": 5, "exposure": True}
    schema = Schema({"y": {"type": "numeric", "lower": 0, "upper": 9, "target": True}, "years": column})
    data = {"y": np.arange(6.0), "years": [0.0, -1.0, 0.2, 9.0, np.nan, 1.0]}
    found = {f.kind: f for f in check_table(open_table(data), schema) if f.column == "years"}
    assert {kind: f.count for kind, f in found.items()} == {"missing": 1, "none": 2, "below": 1, "above": 1}
    assert found["none"].detail == "0 or less, which is no exposure; weight 0"
    same = check_table(open_table({"y": np.arange(6.0), "years": np.ones(6)}), schema)
    assert [f.kind for f in same if f.column == "years"] == []


@pytest.mark.parametrize("bounds", [(0, 1), (-1, 1)])
@pytest.mark.parametrize("make", [lambda cells: [str(cell).replace("nan", "") for cell in cells], np.array])
def test_numbers_that_are_no_label_of_a_logit_are_found(bounds, make):
    """A fit of labels stops at them, and says no more than that there are some."""
    column = {"type": "numeric", "lower": bounds[0], "upper": bounds[1]}
    cells = make([bounds[0], bounds[1], 0.5, np.nan, 0.5, 0.25, bounds[1]])
    predictor = {"type": "numeric", "lower": 0, "upper": 9}
    found = check_table(
        open_table({"y": cells, "x": np.arange(7)}), Schema({"y": {**column, "target": True}, "x": predictor})
    )
    assert [(one.kind, one.count) for one in found] == [("missing", 1), ("no label of a logit or svm", 3)]
    assert found[1].detail == "'0.25', '0.5'; refused there, a number for other models"
    beyond = check_table(open_table({"y": [0.0, 1.0, 2.0]}), Schema({"y": {**column, "target": True}}))
    assert "no label of a logit or svm" in {one.kind for one in beyond}
    for other in ({}, {"target": True, "upper": 2}, {"target": True, "transform": "sqrt", "lower": 0}):
        kinds = {one.kind for one in check_table(open_table({"y": cells}), Schema({"y": column | other}))}
        assert kinds <= {"missing", "below"}


def test_every_line_is_marked():
    odd = {"odd\nname": [1, 2], "b": ["x", "y"]}
    text = render_findings(check_table(open_table(DATA), SCHEMA) + check_table(open_table(odd), SCHEMA))
    assert len(text.splitlines()) > 20
    assert all(line.startswith(MARK) for line in text.splitlines())
    assert render_findings([]).startswith(MARK)


def test_many_unknown_levels_are_cut_short():
    schema = Schema({"c": {"type": "categorical", "levels": ["a", "b"]}})
    (finding, _) = check_table(open_table({"c": [f"level {k:03}" for k in range(500)]}), schema)
    assert finding.count == 500
    assert finding.detail.count("level ") == 20


def test_a_clean_table_has_no_findings_but_the_blemishes_are_found():
    schema = census_schema()
    clean = check_table(open_table(census(4000, seed=1, clean=True)), schema)
    assert [(f.column, f.kind) for f in clean] == [("hourly_wage", "not in schema")]
    kinds = {(f.column, f.kind) for f in check_table(open_table(census(4000, seed=1)), schema)}
    assert {("age", "above"), ("hours_per_week", "below"), ("region", "missing")} <= kinds


def test_the_column_of_the_privacy_unit():
    schema = Schema({"a": {"type": "numeric", "lower": 0, "upper": 9}, "id": {"type": "identifier"}})
    table = open_table({"a": [1.0, 2.0, 3.0], "id": ["p", "", "q"]})
    assert [(one.column, one.kind, one.count) for one in check_table(table, schema)] == [("id", "missing", 1)]
    without = open_table({"a": [1.0, 2.0, 3.0]})
    assert [(one.column, one.kind) for one in check_table(without, schema)] == [("id", "not in data")]


def test_numbers_of_two_values_may_be_levels():
    bounds = {"type": "numeric", "lower": 0, "upper": 5}
    schema = Schema({"a": bounds, "b": bounds, "c": bounds, "d": {**bounds, "target": True}})
    cells = {"a": [0, 1, None, 1], "b": [2, 5, 5, 2], "c": [0, 0.5, 1, 1], "d": [0, 1, 1, 0]}
    found = [each for each in check_table(open_table(cells), schema) if each.kind == "two values"]
    assert [(each.column, each.count) for each in found] == [("a", 3), ("b", 4)]
    assert "levels [2, 5]" in found[1].detail
