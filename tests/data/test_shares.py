"""Shares: at most 1 in a unit in exact arithmetic, and a function of that unit's rows alone."""

import math
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privfit.data.declarations import NumericColumn
from privfit.data.identifiers import NOBODY, new_salt, unit_codes, unit_keys
from privfit.data.schema import Schema
from privfit.data.shares import RowShares, ShareRule
from privfit.data.source import ArraySource
from privfit.data.tables import Table, open_table
from privfit.errors import InvalidArgument, SchemaError

SAME = {
    "integers": np.array([7, 3, 7, 2**62, 2**62 + 1]),
    "half floats": np.array([0.0, 3.0, -0.0, -1.0, 8.0], dtype=np.float16),
    "floats": np.array([0.5, 3.0, 0.5, -1.0, 8.0]),
    "text": np.array([" a", "b", "a ", "A", "c"], dtype=object),
    "fixed-width text": np.array(["a", "b", "a", "A", "c"]),
    "objects": np.array([1, "b", 1, 2, 3], dtype=object),
    "arrow": pa.array(["a", "b", "a", "d", "e"]),
    "chunked": pa.chunked_array([["a", "b"], ["a", "d", "e"]]),
    "dictionary": pa.array(["a", "b", "a", "d", "e"]).dictionary_encode(),
}


@pytest.mark.parametrize("name", SAME)
def test_identifiers_of_any_type(name):
    codes, count = unit_codes(SAME[name])
    assert count == 4
    assert codes[0] == codes[2]
    assert len(set(codes.tolist())) == 4
    assert codes.min() == 0


@pytest.mark.parametrize(
    "values",
    [
        np.array(["a", "", "  ", None, "a"], dtype=object),
        np.array([1.0, np.nan, np.nan, np.nan, 1.0]),
        pa.array([1, None, None, None, 1]),
        pa.array([1.0, None, float("nan"), None, 1.0]),
        pa.chunked_array([["a", None], [" ", "", "a "]]),
        pd.array([5, None, None, None, 5], dtype="Int64").to_numpy(dtype=object, na_value=None),
    ],
)
def test_missing_identifiers_belong_to_nobody(values):
    codes, count = unit_codes(values)
    np.testing.assert_array_equal(codes, [0, NOBODY, NOBODY, NOBODY, 0])
    assert count == 1


SALT = new_salt()


def test_digests_are_by_a_secret_that_is_drawn_anew():
    """Who reads them cannot try out identifiers, and both numbers are of all of its bits."""
    identifiers, salts = np.array(["a", "b"]), [new_salt() for _ in range(20)]
    assert all(len(part) == 16 for salt in salts for part in salt)
    found = np.array([unit_keys(identifiers, salt) for salt in salts])
    assert len(np.unique(found)) == found.size


@pytest.mark.parametrize("name", [*SAME, "missing"])
def test_digests_tell_identifiers_apart_as_codes_do(name):
    """Whatever else is in the column; those of nobody are 0."""
    values = SAME.get(name, np.array(["a", "", "  ", None, "a", 7], dtype=object))
    codes, _ = unit_codes(values)
    keys = unit_keys(values, SALT)
    assert keys.shape == (len(codes), 2)
    np.testing.assert_array_equal((keys[:, None] == keys).all(axis=2), codes[:, None] == codes)
    np.testing.assert_array_equal(~keys.any(axis=1), codes == NOBODY)
    for k in range(len(codes)):
        np.testing.assert_array_equal(unit_keys(values[k : k + 1], SALT), keys[k : k + 1])


def test_types_without_a_spelling_are_refused_without_a_cell():
    with pytest.raises(SchemaError, match=r"has the type complex128, .*convert it first"):
        unit_codes(np.array([20.0 + 1j]))


@pytest.mark.parametrize("rows_per_unit", [1, 3, 7])
def test_the_shares_of_a_unit_sum_to_at_most_one_exactly(rows_per_unit):
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 40, 900)
    codes[:500] = 0
    table = Table([("id", codes), ("weight", rng.choice([3.0, 2.9, 1e9, -1.0, np.nan, 0.1], 900))])
    weights = ("weight", NumericColumn(0.0, 3.0, weight=True))
    for rule in (ShareRule("id", rows_per_unit), ShareRule("id", rows_per_unit, weights)):
        rows = rule.read(table)
        share = rows.among(rng.random(900) < 0.9)
        assert share.min() >= 0.0
        for unit in range(rows.n_units):
            assert sum(Fraction(one) for one in share[rows.unit == unit]) <= 1


def test_shares_depend_on_the_own_rows_alone():
    codes = np.array([0, 0, 0, 1, 1, 2])
    usable = np.array([True, True, False, True, True, True])
    share = RowShares(ShareRule("id"), np.ones(6), codes, 3).among(usable)
    np.testing.assert_array_equal(share, [0.5, 0.5, 0.0, 0.5, 0.5, 1.0])
    codes[3:5] = 2
    changed = RowShares(ShareRule("id"), np.ones(6), codes, 3).among(usable)
    np.testing.assert_array_equal(changed[:3], share[:3])


def test_a_cap_lets_rows_count_alike_up_to_it():
    codes = np.array([0] * 2 + [1] * 4 + [2] * 8)
    share = RowShares(ShareRule("id", 4), np.ones(14), codes, 3).among(np.ones(14, dtype=bool))
    np.testing.assert_array_equal(share, [0.25] * 6 + [0.125] * 8)


def test_weights_are_cut_to_their_bounds():
    table = Table([("w", np.array([1.0, 5.0, 0.0, -3.0, np.nan, np.inf]))])
    rows = ShareRule(weights=("w", NumericColumn(0.0, 4.0))).read(table)
    np.testing.assert_allclose(rows.factor, [0.25, 1.0, 0.0, 0.0, 0.0, 1.0], rtol=1e-11)


def test_weights_below_their_bounds_count_as_the_lower_one():
    table = Table([("w", np.array([1.0, 0.5, -3.0, 2.0]))])
    rows = ShareRule(weights=("w", NumericColumn(1.0, 4.0))).read(table)
    np.testing.assert_allclose(rows.factor, [0.25, 0.25, 0.25, 0.5], rtol=1e-11)


def test_rows_without_identifier_or_weight_count_nothing():
    x, y = np.ones((5, 2)), np.zeros(5)
    x[4] = np.nan
    shares = RowShares(
        ShareRule("id"), np.array([1.0, 1.0, 0.0, 1.0, 1.0]), np.array([0, NOBODY, 1, 1, 1]), 2
    )
    (block,) = ArraySource(x, y, norm_bound=2.0, shares=shares).blocks()
    np.testing.assert_array_equal(block.weight, [1.0, 0.0, 0.0, 1.0, 0.0])


@pytest.mark.parametrize("rows_per_unit", [2**53 + 1, 2**63, 10**30])
def test_a_cap_beyond_what_numbers_hold_is_refused_before_rows_are_read(rows_per_unit):
    with pytest.raises(InvalidArgument, match="rows_per_unit must be at most"):
        ShareRule("id", rows_per_unit)
    assert ShareRule("id", 2**53).read(Table([("id", np.array([1.0, 1.0, 2.0]))])).n_units == 2


@pytest.mark.parametrize("rows_per_unit", [2, 3])
def test_a_cap_without_a_unit_is_refused(rows_per_unit):
    with pytest.raises(InvalidArgument, match="rows_per_unit goes with unit"):
        ShareRule(None, rows_per_unit)


def test_a_rule_names_its_columns_and_is_plain_without_any():
    weights = ("w", NumericColumn(0.0, 3.0))
    rules = [ShareRule(), ShareRule("id"), ShareRule(weights=weights), ShareRule("id", 1, weights)]
    assert [rule.columns for rule in rules] == [(), ("id",), ("w",), ("id", "w")]
    assert [rule.plain for rule in rules] == [True, False, False, False]


def test_rows_that_cannot_count_have_no_share_with_or_without_units():
    usable, factor = np.array([True, False, True]), np.array([0.5, 0.5, 0.25])
    alone = RowShares(ShareRule(), factor, None, 3).among(usable)
    np.testing.assert_array_equal(alone, [0.5, 0.0, 0.25])
    units = RowShares(ShareRule("id"), factor, np.array([0, 0, 1]), 2).among(usable)
    np.testing.assert_array_equal(units, [0.5, 0.0, 0.25])


@pytest.mark.parametrize("kind", [np.array, pa.array])
def test_numbers_that_differ_little_are_different_units(kind):
    numbers = [1e-20, 2e-20, 0.0, 1.0, np.nextafter(1.0, 2.0), 2.0**53, 2.0**53 + 2.0, -0.0, 1e-20]
    codes, count = unit_codes(kind(numbers))
    assert codes.tolist() == [0, 1, 2, 3, 4, 5, 6, 2, 0]
    assert count == 7


class TestSchema:
    plain = Schema(
        {"y": {"type": "numeric", "lower": 0, "upper": 1}, "w": {"type": "numeric", "lower": 0, "upper": 9}}
    )

    def test_an_identifier_has_a_name_and_nothing_else(self, tmp_path):
        schema = Schema(self.plain.to_dict() | {"id": {"type": "identifier"}})
        assert schema.unit == "id"
        assert "id" not in schema
        assert schema == Schema(schema.to_dict())
        assert schema != self.plain
        assert schema.fingerprint != self.plain.fingerprint
        schema.to_toml(tmp_path / "s.toml")
        assert Schema.from_toml(tmp_path / "s.toml") == schema
        with pytest.raises(SchemaError, match="can be nothing else"):
            schema.lookup("id")

    def test_roles_are_added(self):
        schema = self.plain.with_roles(unit="id", weights="w")
        assert (schema.unit, schema.weight) == ("id", "w")
        assert schema == schema.with_roles(unit="id", weights="w")
        assert ShareRule.of(schema) == ShareRule("id", 1, ("w", schema["w"]))
        assert schema.fingerprint == self.plain.with_roles(unit="id").fingerprint
        assert ShareRule.of(schema, 2) == ShareRule("id", 2, ("w", schema["w"]))
        assert self.plain.with_roles(unit="w").unit == "w"

    def test_a_column_is_not_given_two_roles_at_once(self):
        """The second would take the place of the first, and people would not be protected."""
        with pytest.raises(SchemaError, match="'w' cannot be both"):
            self.plain.with_roles(unit="w", weights="w")

    @pytest.mark.parametrize(
        ("roles", "rule"),
        [
            ({"unit": "other"}, "marks 'id'"),
            ({"weights": "y"}, "marks 'w'"),
            ({"weights": "nowhere"}, "marks 'w'"),
        ],
    )
    def test_roles_are_not_changed(self, roles, rule):
        with pytest.raises(SchemaError, match=rule):
            self.plain.with_roles(unit="id", weights="w").with_roles(**roles)

    @pytest.mark.parametrize(
        ("entries", "rule"),
        [
            ({"a": {"type": "identifier"}, "b": {"type": "identifier"}}, "more than one identifier"),
            ({"a": {"type": "identifier", "lower": 0}}, "no option"),
            ({"a": {"type": "identifier", "unit": False}}, "no option"),
            (
                {"a": {"type": "identifier"}, "b": {"type": "numeric", "lower": 0, "upper": 1, "unit": True}},
                "more than one column with unit",
            ),
            ({"a": {"type": "numeric", "lower": -1, "upper": 1, "weight": True}}, "lower >= 0"),
            (
                {"a": {"type": "numeric", "lower": 0, "upper": 1, "weight": True, "transform": "sqrt"}},
                "no transform",
            ),
            ({"a": {"type": "categorical", "levels": ["a", "b"], "weight": True}}, "no option"),
        ],
    )
    def test_contradictions_are_refused(self, entries, rule):
        with pytest.raises(SchemaError, match=rule):
            Schema(self.plain.to_dict() | entries)

    def test_weights_need_a_declared_bound(self):
        with pytest.raises(SchemaError, match="not in the schema"):
            self.plain.with_roles(weights="z")
        negative = Schema({"w": {"type": "numeric", "lower": -1, "upper": 4}})
        with pytest.raises(SchemaError, match=r"^column 'w': survey weights need lower >= 0"):
            negative.with_roles(weights="w")
        levels = Schema(self.plain.to_dict() | {"c": {"type": "categorical", "levels": ["a", "b"]}})
        with pytest.raises(SchemaError, match="survey weights need"):
            levels.with_roles(weights="c")


def test_reading_from_a_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,w\n007,1\n7,2\n007 ,4\n,1\n")
    rows = ShareRule("id", 1, ("w", NumericColumn(0.0, 2.0))).read(open_table(path))
    assert rows.n_units == 2
    np.testing.assert_allclose(rows.among(np.ones(4, dtype=bool)), [0.25, 1.0, 0.5, 0.0], rtol=1e-11)


@pytest.mark.parametrize(
    ("cells", "codes"),
    [
        (["2.5", "2.50", "25E-1", "2.05"], [0, 0, 0, 1]),
        (["0", "-0.00", "0E+5000", "1E-5000"], [0, 0, 0, 1]),
        (["1E+4299", "10E+4298", "1E+4300", "1E+999999999999999999"], [0, 0, 1, 2]),
        (["100", "1E+2", "sNaN", "Infinity"], [0, 0, NOBODY, 1]),
    ],
)
def test_decimals_are_one_unit_however_they_are_written(cells, codes):
    column = np.array([*(Decimal(cell) for cell in cells), "u"], dtype=object)
    assert unit_codes(column)[0][:-1].tolist() == codes


def test_whole_numbers_among_objects_are_one_unit_whatever_their_type():
    cells = np.array([1, 1.0, np.float32(1), "1", "u2", 2.5, 2.5, None, float("nan")], dtype=object)
    codes, count = unit_codes(cells)
    assert codes.tolist() == [0, 0, 0, 0, 1, 2, 2, NOBODY, NOBODY]
    assert count == 3


SAME_NUMBERS = [
    [1, True, np.bool_(True), 1.0, Decimal("1.00"), Fraction(1), np.int8(1)],
    [0.5, Fraction(1, 2), Decimal("0.50"), np.float32(0.5), np.longdouble(0.5), "0.5"],
    [1e-7, Decimal("1E-7"), Decimal("1.00E-7"), Fraction(1, 10**7)],
    [0.1, Decimal("0.1"), Decimal.from_float(0.1), Fraction(1, 10)],
    [Decimal("0.12345678901234567890"), Fraction(1234567890123456789, 10**19)],
    [Fraction(1, 3), Fraction(2, 6)],
    [10**22, 1e22, Decimal("1e22")],
    [math.inf, Decimal("Infinity")],
    [0, -0.0, Decimal("-0"), False],
]
"""Cells that are one number."""


@pytest.mark.parametrize("same", SAME_NUMBERS, ids=lambda same: str(same[0]))
def test_equal_numbers_among_python_objects_are_one_person(same):
    """Neighbours that differ in the type of a cell: who is whose is the same."""
    others = [cell for numbers in SAME_NUMBERS if numbers is not same for cell in numbers[:1]]
    whole = unit_codes(objects([same[0], same[0], *others]))
    for cell in same:
        codes, count = unit_codes(objects([same[0], cell, *others]))
        assert codes.tolist() == whole[0].tolist() == [0, 0, *range(1, len(others) + 1)]
        assert count == whole[1]


def test_numbers_by_dictionary_are_one_unit_whatever_place_they_point_to():
    """A dictionary of Arrow may hold a value twice, a missing one, and zeros of either sign."""
    values = pa.array([7.0, -0.0, 7.0, np.nan, 0.0, None])
    cells = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 4, 5, None, 0]), values)
    codes, count = unit_codes(cells)
    assert count == 2
    assert codes[0] == codes[2] == codes[7] >= 0
    assert codes[1] == codes[4] >= 0
    assert codes[0] != codes[1]
    np.testing.assert_array_equal(codes[[3, 5, 6]], NOBODY)


def test_numbers_that_are_not_equal_stay_apart():
    apart = [1 / 3, Fraction(1, 3), Decimal("0.3333333333333333333"), np.float32(1 / 3), 10**300, 1e300]
    apart += [Decimal("1e5000"), Decimal("1e5001"), Decimal("1e-5000"), Fraction(1, 2**4400), "1.0", 1]
    apart += [np.timedelta64(1, "s"), np.timedelta64(7, "ns"), 7]
    assert unit_codes(objects(apart))[0].tolist() == list(range(len(apart)))
    nobody = [math.nan, None, Decimal("NaN"), Decimal("sNaN"), np.float32("nan")]
    assert unit_codes(objects(nobody))[0].tolist() == [NOBODY] * len(nobody)


def objects(cells):
    return np.fromiter(cells, dtype=object)


def test_long_floats_are_identifiers_as_others_are():
    cells = np.array([0.5, 1.0, np.nan, 0.5])
    for values in (cells, cells.astype(np.longdouble)):
        codes, count = unit_codes(values)
        assert count == 2
        assert codes[0] == codes[3] != codes[1]
        assert codes[2] == NOBODY


def test_a_short_decimal_near_zero_does_not_become_a_long_text():
    tiny = Decimal("1E-30000000")
    tracemalloc.start()
    try:
        codes, count = unit_codes(objects([tiny, tiny, 1]))
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
    assert count == 2
    assert codes[0] == codes[1] != codes[2]


def test_what_is_known_of_each_row_is_counted_as_its_bytes():
    table = open_table(pd.DataFrame({"id": ["a", "b", "a"], "w": [1.0, 2.0, 0.5]}))
    weights = ("w", NumericColumn(0.0, 2.0, weight=True))
    assert ShareRule().shares_of(table) is None
    alone = ShareRule(weights=weights).shares_of(table)
    assert [array.tolist() for array in alone.arrays] == [alone.factor.tolist()]
    together = ShareRule("id", weights=weights).shares_of(table)
    assert [array.tolist() for array in together.arrays] == [together.factor.tolist(), [0, 1, 0]]
    ungathered = ShareRule("id", weights=weights).ungathered(table, SALT)
    assert [array.size for array in ungathered.arrays] == [3, 6]


@pytest.mark.parametrize("rest", [[], [0.5]])
def test_digests_of_floats_are_those_of_the_numbers_whatever_their_size(rest):
    numbers = [7.0, -7.0, 2.0**62, -(2.0**62), 2.0**63, -(2.0**63), -(2.0**70), 2.0**70, 1e300, *rest]
    for some in (numbers, numbers[:4], numbers[2:7], *([one] for one in numbers)):
        whole = [int(one) if one == int(one) else one for one in some]
        digests = (
            unit_keys(np.array(one, dtype=kind), SALT) for one, kind in ((some, float), (whole, object))
        )
        np.testing.assert_array_equal(*digests)
