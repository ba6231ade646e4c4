"""Rows kept as codes are the same rows."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

from privfit.data.basis_norms import BasisBounds, BasisNorms, RowNorms
from privfit.data.clamp import influence_weights, schweppe_weights
from privfit.data.coded import MOST_COLUMNS, CodedMatrix, Layout
from privfit.data.encode import SchemaEncoder
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.room import InMemory
from privfit.data.schema import Schema
from privfit.data.source import ArraySource
from privfit.data.tables import Table
from privfit.errors import SchemaError
from privfit.terms.encoder import FormulaEncoder

LEVELS = [f"level {k}" for k in range(5)]


def coded_rows(rng, n, *, storage="float64", many=False):
    """Rows of three numbers, two factors and a product of a number and a factor, some of them unusable."""
    width = 300 if many else 6
    layout = Layout(4 + 2 * width + 5, True, (1, 3, 2), plain=2, paired=1)
    x = CodedMatrix.empty(layout, n, storage)
    x.numbers[:] = rng.uniform(-1, 1, x.numbers.shape)
    for factor, (start, stop) in enumerate([(4, 4 + width), (4 + width, 4 + 2 * width)]):
        x.codes[:, factor] = rng.choice([layout.none, *range(start, stop)], n)
    x.codes[:, 2] = rng.choice([layout.none, *range(layout.size - 5, layout.size)], n)
    x.numbers[:, 3] *= x.codes[:, 2] != layout.none
    x.codes[::97, 1], x.numbers[::89, 1] = layout.missing, np.nan
    return x


def written_by_hand(x):
    """The encoded columns, cell by cell."""
    layout, out = x.layout, []
    for numbers, codes in zip(x.numbers, x.codes, strict=True):
        row = np.zeros(layout.size)
        row[0] = float(layout.constant)
        row[list(layout.columns)] = numbers[: len(layout.columns)]
        for k, code in enumerate(codes):
            if code < layout.size:
                row[code] = 1.0 if k < layout.plain else numbers[len(layout.columns) + k - layout.plain]
            elif code == layout.missing:
                row[:] = np.nan
                break
        out.append(row)
    return np.array(out)


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("many", [False, True], ids=["uint8", "uint16"])
def test_products_and_norms_are_those_of_the_matrix(storage, many):
    rng = np.random.default_rng(5)
    x = coded_rows(rng, 300, storage=storage, many=many)
    assert x.codes.dtype == (np.uint16 if many else np.uint8)
    whole = written_by_hand(x)
    np.testing.assert_array_equal(x.dense(), whole)
    half = rng.normal(size=(x.shape[1], 3))
    expected = ((whole @ half) ** 2).sum(axis=1)
    np.testing.assert_allclose(x.quadratic(half @ half.T), expected, rtol=1e-10, atol=1e-12)
    assert x.shape == whole.shape
    vector, matrix = rng.normal(size=x.shape[1]), rng.normal(size=(x.shape[1], 7))
    np.testing.assert_allclose(x @ vector, whole @ vector, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(x @ matrix, whole @ matrix, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(x.squared_norms(), (whole**2).sum(axis=1), rtol=1e-13)
    np.testing.assert_allclose(x.squared().dense(), whole**2, rtol=1e-15)
    rows = rng.integers(0, 300, 50)
    np.testing.assert_array_equal(x[rows].dense(), whole[rows])
    np.testing.assert_array_equal(x[7:20].dense(), whole[7:20])
    factor = np.exp2(rng.integers(-3, 1, 300).astype(float))
    np.testing.assert_array_equal(x.scaled(factor).dense(), whole * factor[:, None])
    usable = np.isfinite(whole).all(axis=1)
    kept = x.blanked(usable).dense()
    np.testing.assert_array_equal(kept[usable], whole[usable])
    np.testing.assert_array_equal(kept[~usable][:, 1:], 0.0)


@pytest.mark.parametrize("plain", [0, 1, 3, 4, 5, 9])
@pytest.mark.parametrize("fixed", [0, 1, 3, 4, 6, 8])
def test_products_take_every_entry_once_however_many_there_are(fixed, plain):
    rng = np.random.default_rng(10 * fixed + plain)
    layout = Layout(1 + fixed + 3 * plain, True, tuple(range(1, fixed + 1)), plain=plain)
    x = CodedMatrix.empty(layout, 50)
    x.numbers[:] = rng.uniform(-1, 1, x.numbers.shape)
    for factor in range(plain):
        first = 1 + fixed + 3 * factor
        x.codes[:, factor] = rng.choice([layout.none, *range(first, first + 3)], 50)
    if plain:
        x.codes[7, plain - 1] = layout.missing
    matrix = rng.normal(size=(layout.size, 11))
    np.testing.assert_allclose(x @ matrix, written_by_hand(x) @ matrix, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weighting", [influence_weights, schweppe_weights])
@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("bound", [0.3, 1.5, 2.0, 100.0])
def test_the_bound_holds_exactly_for_what_is_stored(weighting, storage, bound):
    rng = np.random.default_rng(7)
    x = coded_rows(rng, 400, storage=storage)
    x.numbers[:50] *= np.exp2(rng.integers(0, 60, (50, 1)))
    bad = ~np.isfinite(x.squared_norms())
    y = rng.normal(size=400)
    y[3] = np.inf
    bad[3] = True
    weight, kept, response = weighting(x, y, norm_bound=bound)
    assert (weight[bad] == 0).all()
    assert (weight[~bad] > 0).all()
    assert np.isfinite(response).all()
    whole = kept.dense()
    assert np.isfinite(whole).all()
    for w, row in zip(weight, whole, strict=True):
        norm = sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))
        assert 0 <= w <= 1
        assert Fraction(float(w)) * norm <= Fraction(bound) ** 2


@pytest.mark.parametrize("lost", [0, 12, 24], ids=["well", "ill", "worse"])
def test_bounds_in_other_coordinates_hold_exactly(lost):
    """Two numbers of a row cancel but for its last digits, which is what a form loses and has to add back."""
    rng, size = np.random.default_rng(lost), 70
    layout = Layout(size, False, (0, 1), plain=1)
    x = CodedMatrix.empty(layout, 200)
    x.numbers[:, 0] = rng.uniform(0.1, 1, 200)
    x.numbers[:, 1] = -x.numbers[:, 0]
    x.codes[::5, 0] = rng.integers(2, size, 40)
    x.codes[7, 0] = layout.missing
    basis, bound = rng.normal(size=(size, size)), 2.0**-lost
    basis[1] = basis[0] + rng.normal(size=size) * 2.0**-lost
    exact = [[Fraction(value) for value in column] for column in basis.T]
    weights = np.empty(200)
    norms = RowNorms.blank(200, InMemory())
    BasisNorms(basis).fill(x, norms)
    BasisBounds(bound, 2.0**60).fill(norms, 1.0, np.ones(200), weights)
    assert weights[7] == 0.0
    assert (np.delete(weights, 7) > 0).all()
    for weight, row in zip(np.delete(weights, 7), np.delete(x.dense(), 7, axis=0), strict=True):
        terms = [(k, Fraction(value)) for k, value in enumerate(row) if value]
        square = sum(sum(value * column[k] for k, value in terms) ** 2 for column in exact)
        assert Fraction(weight) * square <= Fraction(bound) ** 2
        assert lost == 24 or Fraction(weight) * square >= Fraction(bound) ** 2 / 10  # or close to it


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("lost", [0, 10, 20], ids=["well", "ill", "worse"])
def test_bounds_for_columns_that_are_scaled_and_shifted_hold_exactly(lost, storage):
    """Numbers are centred, so that all but their last digits cancel."""
    rng = np.random.default_rng(lost)
    x = coded_rows(rng, 120, storage=storage)
    size = x.shape[1]
    center = rng.uniform(0.5, 0.9, size)
    x.numbers[:] = 0.7 + rng.normal(size=x.numbers.shape) * 2.0**-lost
    basis = np.diag(2.0**lost * rng.uniform(0.5, 2.0, size))
    basis[0] = -center * np.diag(basis)
    numbers = list(x.layout.columns)
    basis[0, numbers] = -0.7 * np.diag(basis)[numbers]
    basis[0, 0] = 1e-3
    norms = RowNorms.blank(120, InMemory())
    BasisNorms(basis).fill(x, norms)
    found, reach = norms.size, norms.reach
    usable = np.isfinite(x.squared_norms())
    assert np.isnan(found[~usable]).all()
    assert usable.sum() > 50
    exact = [[Fraction(value) for value in column] for column in basis.T]
    whole = x.dense()
    for bound, row in zip(found[usable], whole[usable], strict=True):
        terms = [(k, Fraction(value)) for k, value in enumerate(row) if value]
        square = sum(sum(value * column[k] for k, value in terms) ** 2 for column in exact)
        assert Fraction(bound) ** 2 * (1 + Fraction(2) ** -45) >= square
    expected = np.linalg.norm(whole[usable] @ basis, axis=1)
    np.testing.assert_allclose(found[usable], expected, rtol=1e-10 * 4.0**lost)
    length = np.linalg.norm(whole[usable], axis=1)
    assert (reach[usable] >= length * np.linalg.norm(basis, 2) * (1.0 - 1e-15)).all()


def test_weights_are_those_of_the_matrix():
    rng = np.random.default_rng(8)
    x = coded_rows(rng, CHUNK_ROWS + 50)
    y, basis = np.zeros(len(x)), rng.normal(size=(x.shape[1],) * 2)
    sources = [ArraySource(rows, y, norm_bound=1.7) for rows in (x, x.dense())]
    turned = [source.reweighted(basis, norm_bound=2.0, amplification=30.0) for source in sources]
    for one, other in (sources, turned):
        weights = [np.concatenate([block.weight for block in source.blocks()]) for source in (one, other)]
        np.testing.assert_allclose(weights[0], weights[1], rtol=1e-12)
        assert one.norm_bound == other.norm_bound
        assert one.n_rows == other.n_rows


def test_blocks_are_written_out_a_chunk_at_a_time():
    x = coded_rows(np.random.default_rng(9), 2 * CHUNK_ROWS + 5)
    source = ArraySource(x, np.zeros(len(x)), norm_bound=100.0)
    assert [block.y.size for block in source.blocks()] == [CHUNK_ROWS, CHUNK_ROWS, 5]
    order = np.array([5, 1, CHUNK_ROWS + 3])
    np.testing.assert_array_equal(source.take(order).x, x[order].dense())


def schema(**changes):
    columns = {
        "age": {"type": "numeric", "lower": 17, "upper": 90},
        "gain": {"type": "numeric", "lower": 0, "upper": 1000},
        "sex": {"type": "categorical", "levels": ["f", "m"]},
        "job": {"type": "categorical", "levels": LEVELS, "missing": LEVELS[2], "other": LEVELS[1]},
        "y": {"type": "numeric", "lower": 0, "upper": 1, "target": True},
    }
    return Schema({**columns, **changes})


def raw_table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    return Table(
        [
            ("age", rng.uniform(10, 100, n)),
            ("gain", np.where(rng.random(n) < 0.1, np.nan, rng.uniform(0, 2000, n))),
            ("sex", rng.choice(np.array(["f", "m", None, "?"], dtype=object), n)),
            ("job", rng.choice(np.array([*LEVELS, None, "new"], dtype=object), n)),
            ("y", rng.random(n)),
        ]
    )


def test_a_schema_gives_codes_with_its_reference_levels():
    sex = {"type": "categorical", "levels": ["f", "m"], "other": "f"}
    encoder, table = SchemaEncoder(schema(sex=sex)), raw_table()
    x, y = encoder.encode_coded(table, "float64"), encoder.encode_target(table)
    assert (x.layout.plain, x.layout.paired, x.layout.columns) == (2, 0, (1, 2))
    dense, same = encoder.encode(table)
    np.testing.assert_array_equal(x.dense(), dense)
    np.testing.assert_array_equal(y, same)
    jobs = np.array([LEVELS[2] if v is None else LEVELS[1] if v == "new" else v for v in table.values("job")])
    sexes = np.array([v == "m" for v in table.values("sex")])
    usable = np.array([v is not None for v in table.values("sex")])
    np.testing.assert_array_equal(dense[usable, 3], sexes[usable])
    for k, level in enumerate(LEVELS[1:]):
        np.testing.assert_array_equal(dense[usable, 4 + k], (jobs == level)[usable])
    assert np.isnan(dense[~usable]).any(axis=1).all()


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ age + C(job)",
        "y ~ C(job) * age + sex:gain",
        "y ~ sex:job - 1",
        "y ~ age",
        "y ~ 1",
        "y ~ sex*job*age",
    ],
)
def test_a_formula_gives_codes_for_factors_and_pairs_for_their_products(formula):
    sex = {"type": "categorical", "levels": ["f", "m"], "other": "f"}
    encoder, table = FormulaEncoder(formula, schema(sex=sex)), raw_table(seed=1)
    x, y = encoder.encode_coded(table, "float64"), encoder.encode_target(table)
    dense, same = encoder.encode(table)
    np.testing.assert_array_equal(x.dense(), dense)
    np.testing.assert_array_equal(y, same)
    assert x.layout.has_codes == ("sex" in formula or "job" in formula)
    names, found = encoder.design.names, {}
    for place, name in enumerate(names):
        found[name] = dense[:, place]
    usable = np.isfinite(dense).all(axis=1)
    for name, column in found.items():
        expected = np.ones(len(dense))
        for part in name.split(":"):
            if "[" in part:
                column_name, level = part.replace("T.", "").rstrip("]").split("[")
                cells = table.values(column_name.removeprefix("C(").rstrip(")"))
                known = [{None: LEVELS[2], "new": LEVELS[1], "?": "f"}.get(v, v) for v in cells]
                expected *= np.array([v == level for v in known])
        zero = expected == 0.0
        if "[" in name:
            np.testing.assert_array_equal(column[usable & zero], 0.0)
        if "[" in name and "age" not in name and "gain" not in name:
            np.testing.assert_array_equal(column[usable & ~zero], 1.0)


def test_float32_numbers_are_those_nearest():
    encoder, table = SchemaEncoder(schema()), raw_table()
    single, double = (encoder.encode_coded(table, storage) for storage in ("float32", "float64"))
    assert single.numbers.dtype == np.float32
    np.testing.assert_array_equal(single.numbers, double.numbers.astype(np.float32))
    np.testing.assert_array_equal(single.codes, double.codes)
    assert np.nanmax(np.abs(single.numbers)) <= 1.0


def test_more_levels_than_a_code_can_name_are_refused():
    assert Layout(MOST_COLUMNS, True, (), plain=1).code_type == np.uint16
    with pytest.raises(SchemaError, match="declare fewer levels"):
        Layout(MOST_COLUMNS + 1, True, (), plain=1)
    Layout(MOST_COLUMNS + 1, True, tuple(range(1, MOST_COLUMNS + 1)))


def test_coded_rows_show_nothing_and_do_not_travel():
    x = CodedMatrix.empty(Layout(3, True, (1,), plain=1), 2)
    x.numbers[:] = 0.7351
    assert "7351" not in repr(x) + str(x)
    with pytest.raises(TypeError, match="private rows"):
        pickle.dumps(ArraySource(x, np.zeros(2), norm_bound=3.0))
