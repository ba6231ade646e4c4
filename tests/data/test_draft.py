"""Drafts of schemas: which bounds are missing, what stands beside them, and how they are filled in."""

import copy
import itertools
import tomllib
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from privfit.data.declarations import CategoricalColumn, NumericColumn
from privfit.data.declared import encode_numeric
from privfit.data.draft import Draft, rounded_outwards
from privfit.data.schema import Schema
from privfit.errors import SchemaError

NUM = {"type": "numeric"}
CAT = {"type": "categorical", "levels": ["u", "v"]}
MIXED = {
    "row_norm": 3,
    "age": NUM,
    "income": NUM | {"lower": 0},
    "debt": NUM | {"upper": 10.5, "target": True},
    "height": NUM | {"lower": 1, "upper": 2.5, "missing": 1.5},
    "sex": CAT,
    "person": {"type": "identifier"},
}
TRANSFORMS = ("log1p", "log", "sqrt")
DOMAIN = {"log1p": -1.0, "log": 0.0, "sqrt": 0.0}


def options(draft, name):
    """Return what is declared of a column but for its type."""
    return {key: value for key, value in draft.declarations[name].items() if key != "type"}


def test_a_draft_of_a_mapping_and_of_a_file_is_the_same(tmp_path):
    path = tmp_path / "draft.toml"
    draft = Draft.of(MIXED)
    draft.to_toml(path)
    for source in (path, str(path)):
        other = Draft.of(source)
        assert other.unbounded == draft.unbounded == ("age", "income", "debt")
        assert other.stand_in == draft.stand_in
    assert set(draft.stand_in) == {"age", "income", "debt", "height", "sex"}
    assert (draft.stand_in.unit, draft.stand_in.target, draft.stand_in.row_norm) == ("person", "debt", 3.0)


def test_a_schema_lacks_nothing():
    schema = Schema({"a": NUM | {"lower": 0, "upper": 1}, "s": CAT, "row_norm": 1.5})
    draft = Draft.of(schema)
    assert draft.unbounded == ()
    assert Schema(draft.declarations) == draft.stand_in == schema


def test_the_mapping_that_is_given_stays_as_it_is():
    mapping, before = copy.deepcopy(MIXED), copy.deepcopy(MIXED)
    draft = Draft.of(mapping)
    draft.completed(dict.fromkeys(draft.unbounded, (2.0, 3.0)))
    assert mapping == before
    assert draft.unbounded == ("age", "income", "debt")
    mapping["age"]["lower"] = 7
    assert "lower" not in draft.declarations["age"]


@pytest.mark.parametrize(
    ("entry", "lacks"),
    [
        (NUM, True),
        (NUM | {"lower": 0}, True),
        (NUM | {"upper": 0}, True),
        (NUM | {"transform": "log"}, True),
        (NUM | {"target": True}, True),
        (NUM | {"lower": 0, "upper": 1}, False),
        (CAT, False),
        (NumericColumn(0, 1), False),
        (CategoricalColumn(("u", "v")), False),
    ],
)
def test_numeric_columns_lack_a_bound_that_is_not_declared(entry, lacks):
    draft = Draft.of({"a": entry, "z": CAT})
    assert draft.unbounded == (("a",) if lacks else ())
    column = draft.stand_in["a"]
    if isinstance(column, NumericColumn) and lacks:
        assert column.upper >= 1e12


@pytest.mark.parametrize("transform", [None, *TRANSFORMS])
def test_numbers_of_a_stand_in_lie_alike_on_either_side_of_0(transform):
    """A number near 0 is told from 0 whatever bound is declared, since 0 is not scaled away from 0."""
    for more in ({}, {"lower": 1.5}, {"upper": 2.5}):
        entry = NUM | more | ({} if transform is None else {"transform": transform})
        column = Draft.of({"a": entry}).stand_in["a"]
        center, half = column.scaling(centered=True)
        assert abs(center) <= 1e-12 * half


def test_declared_bounds_are_kept():
    draft = Draft.of(MIXED)
    done = draft.completed({"age": (17.3, 88.0), "income": (-5.0, 1234.0), "debt": (3.0, 70.0)})
    assert done.unbounded == ()
    assert options(done, "income") == {"lower": 0, "upper": 1300}
    assert options(done, "debt") == {"lower": 3, "upper": 10.5, "target": True}
    assert options(done, "age") == {"lower": 17, "upper": 88}
    assert options(done, "height") == {"lower": 1, "upper": 2.5, "missing": 1.5}
    assert Schema(done.declarations).row_norm == 3.0


def test_nothing_found_leaves_a_draft_as_it_is():
    draft = Draft.of(MIXED)
    for found in ({}, {"income": (-7.0, -1.0)}, {"debt": (11.0, 12.0)}, {"income": (-7.0, 0.0)}):
        done = draft.completed(found)
        assert done.declarations == draft.declarations
        assert done.unbounded == draft.unbounded
    part = draft.completed({"income": (2.0, 3.0)})
    assert part.unbounded == ("age", "debt")
    assert part.declarations["age"] == draft.declarations["age"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@given(ends=st.tuples(st.floats(-1, 1), st.floats(-1, 1)))
@example(ends=(-1.0, 1.0))
@example(ends=(-1.0, -1.0 + 2.0**-6))
@example(ends=(0.0, 2.0**-6))
@example(ends=(1.0 - 2.0**-6, 1.0))
def test_bounds_of_transformed_columns_are_in_the_domain(transform, ends):
    low, high = sorted(ends)
    assume(high - low > 2.0**-8)
    draft = Draft.of({"a": NUM | {"transform": transform}})
    interval = draft.raw("a", (low, high))
    assume(interval[1] > 1e-6)  # no root is taken of an interval below 0
    done = draft.completed({"a": interval})
    assert done.unbounded == ()
    column = Schema(done.declarations)["a"]
    assert column.transform == transform
    assert column.lower > DOMAIN[transform] or (transform == "sqrt" and column.lower == 0.0)
    assert column.lower <= max(interval[0], DOMAIN[transform]) <= interval[1] <= column.upper


@pytest.mark.parametrize("fill", [-40.0, 2.0, 5.0, 1e6])
@pytest.mark.parametrize("entry", [NUM, NUM | {"lower": -40}, NUM | {"upper": 1e6}])
def test_what_is_declared_for_missing_cells_is_within_the_bounds(entry, fill):
    draft = Draft.of({"a": entry | {"missing": fill}})
    column = Schema(draft.completed({"a": (1.0, 9.0)}).declarations)["a"]
    assert column.lower <= min(fill, 1.0)
    assert column.upper >= max(fill, 9.0)
    assert column.missing == fill


sizes = st.floats(1e-300, 1e300)
ends = st.one_of(st.just(0.0), sizes, sizes.map(lambda size: -size))


@given(ends=st.tuples(ends, ends))
@example(ends=(0.57, 1.57))
@example(ends=(np.nextafter(0.57, 0.0), 1.0))
@example(ends=(-1.0, np.nextafter(0.07, 1.0)))
@example(ends=(99.0, np.nextafter(99.0, 100.0)))
@example(ends=(-1e300, 1e300))
@example(ends=(0.0, 1e-300))
def test_intervals_are_rounded_outwards_by_their_length(ends):
    lower, upper = sorted(ends)
    assume(lower < upper)
    low, high = rounded_outwards(lower, upper, logarithmic=False)
    rounding = 4.0 * max(np.spacing(abs(lower)), np.spacing(abs(upper)))
    assert low <= lower + rounding
    assert high >= upper - rounding
    assert high - low <= 1.2 * (upper - lower) + 4.0 * rounding
    if (upper - lower) > 1e-9 * max(abs(lower), abs(upper)):
        column = Schema({"a": NUM | {"lower": low, "upper": high}})["a"]
        assert (column.lower, column.upper) == (low, high)


@given(ends=st.tuples(ends, ends))
@example(ends=(np.nextafter(0.57, 0.0), 1.0))
@example(ends=(0.0, 3.0))
@example(ends=(-0.99, -0.98))
def test_ends_are_rounded_outwards_by_their_own_size(ends):
    lower, upper = sorted(ends)
    low, high = rounded_outwards(lower, upper, logarithmic=True)
    for raw, rounded in ((lower, low), (upper, high)):
        assert abs(rounded - raw) <= 0.1 * abs(raw) + 4.0 * np.spacing(abs(raw))
        assert rounded == pytest.approx(float(f"{rounded:.1e}"), rel=1e-14)
    assert low <= lower + 4.0 * np.spacing(abs(lower))
    assert high >= upper - 4.0 * np.spacing(abs(upper))


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        ((17.3, 88.2), (17, 89)),
        ((-0.0123, 0.0456), (-0.013, 0.046)),
        ((1_593_123_456.0, 1_600_000_000.0), (1_593_100_000, 1_600_000_000)),
        ((0.0, 99.1), (0, 100)),
    ],
)
def test_bounds_have_two_digits(interval, expected):
    done = Draft.of({"a": NUM}).completed({"a": interval})
    assert options(done, "a") == dict(zip(("lower", "upper"), expected, strict=True))


@pytest.mark.parametrize("transform", [None, *TRANSFORMS])
@pytest.mark.parametrize("more", [{}, {"lower": 0.5}, {"upper": 0.5}])
def test_raw_undoes_the_encoding(transform, more):
    draft = Draft.of({"a": NUM | more | ({} if transform is None else {"transform": transform}), "s": CAT})
    column = draft.stand_in["a"]
    center, half = column.scaling(centered=True)
    raw = np.array([-0.5, -1e-4, 1e-6, 0.25, 1.0, 7.5, 1e4, 3e9])
    raw = raw[raw > DOMAIN[transform]] if transform else raw
    encoded = (encode_numeric(raw, column) - center) / half
    back = np.array([draft.raw("a", pair) for pair in itertools.pairwise(encoded)])
    np.testing.assert_allclose(back[:, 0], raw[:-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(back[:, 1], raw[1:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("transform", [None, *TRANSFORMS])
def test_raw_stays_within_the_stand_in(transform):
    draft = Draft.of({"a": NUM if transform is None else NUM | {"transform": transform}})
    column = draft.stand_in["a"]
    low, high = draft.raw("a", (-1.0, 1.0))
    assert column.lower <= low < high <= column.upper
    assert high == pytest.approx(column.upper)


ROUND_TRIPS = {
    "as declared": MIXED,
    "numbers of NumPy": {
        "a": NUM | {"lower": np.int64(0)},
        "b": {"type": "categorical", "levels": [np.int64(1), np.int64(2)]},
        "row_norm": np.float64(2.5),
    },
    "fractions": {"a": NUM | {"lower": Fraction(1, 4)}, "row_norm": Fraction(3, 2)},
    "a tuple of levels": {"a": NUM, "s": {"type": "categorical", "levels": ("u", "v")}},
    "an array of levels": {"a": NUM, "s": {"type": "categorical", "levels": np.array(["u", "v"])}},
    "declarations as objects": {"a": NUM, "b": NumericColumn(0, 1), "s": CategoricalColumn(("u", "v"))},
    "options without a value": {"a": NUM | {"transform": None, "missing": None}, "s": CAT | {"other": None}},
    "names to quote": {"a b": NUM, 'quo"te': NUM | {"lower": -1.5}, "row_norm": NUM},
    "transforms": {name: NUM | {"transform": name, "missing": 2.5} for name in TRANSFORMS},
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
def test_drafts_survive_toml(name, tmp_path):
    draft, path = Draft.of(ROUND_TRIPS[name]), tmp_path / "draft.toml"
    draft.to_toml(path)
    again = Draft.of(path)
    assert again.unbounded == draft.unbounded
    assert again.stand_in == draft.stand_in
    assert again.stand_in.row_norm == draft.stand_in.row_norm
    assert again.completed({}).declarations == again.declarations
    done = draft.completed(dict.fromkeys(draft.unbounded, (1.5, 4.0)))
    done.to_toml(path)
    assert Schema.from_toml(path) == Schema(done.declarations)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_says_what_is_still_missing(tmp_path):
    path = tmp_path / "draft.toml"
    Draft.of(MIXED).completed({"age": (20.0, 60.0)}).to_toml(path)
    tables = tomllib.loads(path.read_text())
    assert tables["age"] == {"type": "numeric", "lower": 20, "upper": 60}
    assert tables["income"] == {"type": "numeric", "lower": 0}
    assert "lower" not in tables["debt"]
    assert tables["row_norm"] == 3.0


BAD = [
    ({"a": NUM | {"weight": True}}, "weight=true are not learned; declare them"),
    ({"a": NUM | {"unit": True}}, 'unit=true are not learned; declare them, or take type="identifier"'),
    ({"a": NUM | {"lower": "0"}}, "lower must be a number, got str"),
    ({"a": NUM | {"lower": True}}, "lower must be a number, got bool"),
    ({"a": NUM | {"upper": None}}, "upper must be a number, got NoneType"),
    ({"a": NUM | {"lower": float("nan")}}, "lower must be finite"),
    ({"a": NUM | {"upper": float("inf")}}, "upper must be finite"),
    ({"a": NUM | {"lower": 2, "upper": 1}}, "lower must be below upper"),
    ({"a": NUM | {"lower": 0, "missing": -1}}, "missing must lie within the bounds"),
    ({"a": NUM | {"upper": 20, "missing": 25}}, "missing must lie within the bounds"),
    ({"a": NUM | {"missing": "x"}}, "missing must be a number"),
    ({"a": NUM | {"missing": float("inf")}}, "missing must be finite"),
    ({"a": NUM | {"missing": 1e300}}, "missing "),
    ({"a": NUM | {"lower": 1e30}}, "lower "),
    ({"a": NUM | {"upper": -(10**400)}}, "upper "),
    ({"a": NUM | {"transform": "log", "lower": 0}}, "lower "),
    ({"a": NUM | {"transform": "log1p", "lower": -2}}, "lower "),
    ({"a": NUM | {"transform": "sqrt", "lower": -1}}, "lower "),
    ({"a": NUM | {"transform": "log", "missing": 0}}, "missing "),
    ({"a": NUM | {"transform": "exp"}}, "transform must be one of"),
    ({"a": NUM | {"transform": ["log"]}}, "transform must be one of"),
    ({"a": NUM | {"lowr": 0}}, "did you mean 'lower'"),
    ({"a": NUM | {"target": 1}}, "target must be true or false"),
    ({"a": NUM | {"target": True}, "b": NUM | {"target": True}}, "more than one column with target"),
    ({"a": None}, "must be a table with a type"),
    ({"a": {}}, "type is missing"),
    ({"a": {"type": "numerc"}}, "type must be"),
    ({"a": NUM, "b": {"type": "categorical"}}, "levels is missing"),
    ({3: NUM}, "must be text"),
    ({"": NUM}, "not empty"),
    ({"Intercept": NUM}, "constant column"),
    ({}, "declares no column"),
    ({"a": NUM, "row_norm": 0}, "row_norm must be positive"),
    (None, "must be .*, got NoneType"),
    (3, "must be .*, got int"),
    (b"draft.toml", "must be .*, got bytes"),
    ([("a", NUM)], "must be .*, got list"),
    (pd.DataFrame({"a": [1.0]}), "must be .*, got DataFrame"),
    ("no_such_draft.toml", "cannot be read"),
]


@pytest.mark.parametrize(("given", "rule"), BAD)
def test_bad_drafts_are_refused_in_one_line(given, rule):
    with pytest.raises(SchemaError, match=rule) as caught:
        Draft.of(given)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 200
    if isinstance(given, dict) and set(given) == {"a"}:
        assert message.startswith("column 'a': ")


def test_a_bad_file_is_refused(tmp_path):
    path = tmp_path / "draft.toml"
    path.write_text("a = [")
    with pytest.raises(SchemaError, match="is not TOML"):
        Draft.of(path)


def test_an_existing_file_is_replaced_or_left_alone(tmp_path):
    with pytest.raises(SchemaError, match="cannot be written"):
        Draft.of({"a": NUM}).to_toml(tmp_path)
    assert list(tmp_path.iterdir()) == []
