from fractions import Fraction

import numpy as np
import pytest

from privfit.data import norm_loops
from privfit.data.basis_norms import BasisBounds, BasisNorms, LastNorms, RowNorms
from privfit.data.coded import CodedMatrix, Layout
from privfit.data.reduction import slabs
from privfit.data.room import InMemory
from privfit.data.source import ArraySource


def weights(source, basis, **bounds):
    turned = source.reweighted(basis, **{"norm_bound": 1.0, "amplification": 2.0**60, **bounds})
    return np.concatenate([block.weight for block in turned.blocks()])


def filled(bounds, norms, factor=1.0, before=None):
    out = np.empty(norms.size.size)
    bounds.fill(norms, factor, np.ones(out.size) if before is None else before, out)
    return out


def rows_that_cancel(lost):
    """Rows of which the basis leaves the last digits only."""
    rng = np.random.default_rng(lost)
    x = np.ones((50, 6))
    x[:, 1:] = rng.uniform(-1, 1, (50, 5))
    basis = np.outer(rng.normal(size=6), np.ones(6))
    basis[0] = -x[:, 1:].mean(axis=0) @ basis[1:]
    return x, basis + rng.normal(size=(6, 6)) * 2.0**-lost


@pytest.mark.parametrize("lost", [0, 20, 45])
@pytest.mark.parametrize("factor", [1.0, -3.7, 1e-9, 2.0**60])
def test_weights_in_a_multiple_of_the_last_basis_bound_rows_exactly(lost, factor):
    x, basis = rows_that_cancel(lost)
    source = ArraySource(x, np.zeros(50), norm_bound=2.0)
    weights(source, basis)
    other = factor * basis
    bound = abs(factor) * float(np.median(np.linalg.norm(x @ basis, axis=1))) + 1e-300
    known = weights(source, other, norm_bound=bound, amplification=abs(factor) * 2.0**60)
    fresh = weights(
        ArraySource(x, np.zeros(50), norm_bound=2.0),
        other,
        norm_bound=bound,
        amplification=abs(factor) * 2.0**60,
    )
    np.testing.assert_allclose(known, fresh, rtol=1e-11)
    exact = [[Fraction(float(v)) for v in column] for column in other.T]
    for weight, row in zip(known, x, strict=True):
        square = sum(
            sum(Fraction(float(a)) * b for a, b in zip(row, column, strict=True)) ** 2 for column in exact
        )
        assert Fraction(float(weight)) * square <= Fraction(bound) ** 2


def test_norms_of_another_basis_are_computed_anew():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(9000, 4))
    basis = rng.normal(size=(4, 4))
    other = basis.copy()
    other[2, 1] *= 1 + 1e-9
    swapped = basis[::-1]
    source = ArraySource(x, np.zeros(9000), norm_bound=50.0)
    for one in (basis, other, swapped, 0.0 * basis, basis):
        alone = ArraySource(x, np.zeros(9000), norm_bound=50.0)
        np.testing.assert_array_equal(weights(source, one), weights(alone, one))


def test_a_multiple_is_told_from_what_is_near_it():
    basis = np.random.default_rng(5).normal(size=(7, 7))
    norms = BasisNorms(basis)
    assert norms.factor_to(-2.5 * basis) == pytest.approx(2.5)
    assert norms.factor_to(basis + 1e-18) == pytest.approx(1.0)
    for other in (basis.T, basis + 1e-12, np.full((7, 7), np.nan), np.eye(7)):
        assert norms.factor_to(other) is None
    assert BasisNorms(np.zeros((7, 7))).factor_to(basis) is None


def test_a_pass_that_breaks_off_leaves_no_norms_behind(monkeypatch):
    x, basis = rows_that_cancel(0)
    source = ArraySource(x, np.zeros(50), norm_bound=2.0)
    first = weights(source, basis)
    filled_in = BasisNorms.fill

    def interrupted(self, rows, found):
        filled_in(self, rows, found)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(BasisNorms, "fill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            weights(source, basis.T)
    np.testing.assert_array_equal(weights(source, basis), first)


@pytest.mark.parametrize("width", [0, 1, 50, 300, 5000])
@pytest.mark.parametrize("rows", [slice(0, 0), slice(0, 1), slice(4096, 8192), slice(100, 9999)])
def test_slabs_hold_each_row_once(rows, width):
    parts = slabs(rows, width)
    assert [k for part in parts for k in range(part.start, part.stop)] == list(range(rows.start, rows.stop))
    assert all(part.stop > part.start for part in parts)


def norms_of(x, norms):
    """Return both bounds on the norms of rows."""
    found = RowNorms.blank(len(x), InMemory())
    norms.fill(x, found)
    return found.size, found.reach


def exact_squares(x, basis):
    """Return the squared norms of ``basis' x`` in exact arithmetic."""
    columns = [[Fraction(float(v)) for v in column] for column in basis.T]
    rows = [[Fraction(float(v)) for v in row] for row in x]
    return [
        sum(sum(a * b for a, b in zip(row, column, strict=True)) ** 2 for column in columns) for row in rows
    ]


def wide_rows(n, p, lost, rng):
    """Rows that a basis without structure leaves little of: all but ``2**-lost`` of them cancels."""
    x = np.ones((n, p))
    x[:, 1:] = 1e3 + rng.normal(size=(n, p - 1)) * 2.0**-lost
    basis = np.linalg.qr(rng.normal(size=(p, p)))[0] * rng.uniform(0.5, 2, p)
    if p > 1:
        basis[0] = -1e3 * basis[1:].sum(axis=0)
    return x, basis


@pytest.mark.parametrize("lost", [0, 15, 40])
@pytest.mark.parametrize(("n", "p"), [(1, 1), (3, 2), (7, 8), (8, 9), (17, 16), (20, 13)])
def test_norms_bound_rows_exactly_and_closely(n, p, lost):
    x, basis = wide_rows(n, p, lost, np.random.default_rng(100 * n + lost))
    size, reach = norms_of(x, BasisNorms(basis))
    length = np.linalg.norm(x, axis=1)
    for bound, far, square in zip(size, length, exact_squares(x, basis), strict=True):
        assert (Fraction(float(bound)) * (1 + Fraction(2) ** -41)) ** 2 >= square
        looser = (1e-6 * far * np.linalg.norm(basis)) ** 2
        assert bound <= np.sqrt(float(square) * (1 + 1e-9) + looser)
    assert (reach >= length * np.linalg.norm(basis, 2) * (1 - 1e-15)).all()


def single(x, constant):
    """Return rows kept in single precision, behind a constant 1 or not, and what they then are."""
    kept = CodedMatrix.of_array(
        Layout(x.shape[1], constant, tuple(range(int(constant), x.shape[1]))), x, "float32"
    )
    return kept, kept.dense()


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("lost", [0, 6, 12, 20])
@pytest.mark.parametrize(("n", "p"), [(1, 2), (3, 2), (6, 8), (7, 15), (8, 16), (20, 17), (15, 40)])
def test_norms_of_rows_in_single_precision_bound_them_exactly_and_closely(n, p, lost, constant):
    """Where little of a row is left, single precision would say little of its norm."""
    rng = np.random.default_rng(100 * n + lost)
    basis = np.linalg.qr(rng.normal(size=(p, p)))[0] * rng.uniform(0.5, 2, p)
    left = basis[:, 1:] @ np.linalg.pinv(basis[:, 1:])
    near = (np.eye(p) - left) @ rng.normal(size=p)
    basis[:, 0] *= 2.0**-lost  # rows near this direction have short norms
    x, stored = single(near * rng.uniform(0.5, 2, (n, 1)) + rng.normal(size=(n, p)) * 2.0**-lost, constant)
    size, reach = norms_of(x, BasisNorms(basis))
    length = np.linalg.norm(stored, axis=1)
    for bound, far, square in zip(size, length, exact_squares(stored, basis), strict=True):
        assert (Fraction(float(bound)) * (1 + Fraction(2) ** -41)) ** 2 >= square
        looser = (1e-6 * far * np.linalg.norm(basis)) ** 2
        assert bound <= np.sqrt(float(square) + looser) * (1 + 2.0**-8)
    assert (reach >= length * np.linalg.norm(basis, 2) * (1 - 1e-15)).all()


@pytest.mark.parametrize("unit", [1e-44, 1e-30, 1e-22, 1e-21, 1e-20, 1e-12, 1.0, 1e12, 1e21, 1e30, 1e38])
@pytest.mark.parametrize("of_basis", [1e-60, 1.0, 1e60])
def test_norms_of_rows_in_single_precision_hold_in_any_unit(unit, of_basis):
    rng = np.random.default_rng(7)
    basis = np.triu(rng.normal(size=(9, 9))) * 10.0 ** rng.uniform(-8, 8, 9) * of_basis
    x, stored = single(unit * rng.normal(size=(25, 9)), constant=False)
    assert np.isfinite(stored).all()
    size, _ = norms_of(x, BasisNorms(basis))
    for bound, square in zip(size, exact_squares(stored, basis), strict=True):
        assert (Fraction(float(bound)) * (1 + Fraction(2) ** -41)) ** 2 >= square
        assert bound <= float(square) ** 0.5 * (1 + 2.0**-8)


def test_rows_that_single_precision_suits_are_turned_in_it_and_others_in_double(monkeypatch):
    rng, seen, turned = np.random.default_rng(3), [], norm_loops.turned_squares
    monkeypatch.setattr(
        norm_loops, "turned_squares", lambda x, *more: seen.append(len(x)) or turned(x, *more)
    )
    x, _ = single(rng.normal(size=(50, 6)), constant=True)
    x.numbers[10:13] *= 1e30
    norms_of(x, BasisNorms(rng.normal(size=(6, 6))))
    assert seen == [3]


def rows_that_shifts_leave_little_of(n, p, lost, rng):
    """Rows near a multiple of what the basis takes away: all but ``2**-lost`` of them cancels."""
    center, scale = rng.uniform(0.5, 2, p) * 1e3, rng.uniform(0.5, 2, p)
    x = rng.uniform(0.5, 2, (n, 1)) * center * (1.0 + rng.normal(size=(n, p)) * 2.0**-lost)
    basis = np.diag(scale)
    basis[0, 1:] = -scale[1:] * center[1:] / center[0]
    basis[0, 0] = 2.0**-lost
    return x, basis


@pytest.mark.parametrize("lost", [0, 30, 45, 52, 60])
@pytest.mark.parametrize("p", [2, 3, 9])
def test_norms_of_rows_that_are_scaled_and_shifted_bound_them_exactly(p, lost):
    """In a basis that takes nearly all of them away, rounding is as large as what is left."""
    x, basis = rows_that_shifts_leave_little_of(200, p, lost, np.random.default_rng(100 * p + lost))
    norms = BasisNorms(basis)
    size, squares = norms_of(x, norms)[0], exact_squares(x, basis)
    far = np.linalg.norm(x, axis=1) * np.linalg.norm(basis)
    if lost >= 45:
        assert (np.sqrt([float(square) for square in squares]) < 1e-9 * far).all()
    for bound, square in zip(size, squares, strict=True):
        assert (Fraction(float(bound)) * (1 + Fraction(2) ** -41)) ** 2 >= square
    limit = float(np.median(size))
    weight = weights(ArraySource(x, np.zeros(200), norm_bound=2.0**60), basis, norm_bound=limit)
    for one, square in zip(weight, squares, strict=True):
        assert Fraction(float(one)) * square <= Fraction(limit) ** 2


def test_norms_of_ordinary_rows_are_raised_by_no_more_than_weights_show():
    rng = np.random.default_rng(8)
    x, basis = rng.normal(size=(300, 51)), rng.normal(size=(51, 51))
    size, _ = norms_of(x, BasisNorms(basis))
    np.testing.assert_allclose(size, np.linalg.norm(x @ basis, axis=1), rtol=1e-10)


def rows_whose_triangular_factor_is_off(monkeypatch, error):
    """Return rows and a basis whose factor is found smaller by a part."""
    rng, found = np.random.default_rng(4), np.linalg.qr
    monkeypatch.setattr(np.linalg, "qr", lambda a, mode: found(a, mode=mode) * (1.0 - error))
    return rng.normal(size=(40, 6)), rng.normal(size=(6, 6))


@pytest.mark.parametrize("error", [1e-12, 1e-6, 1e-2])
def test_norms_bound_rows_however_badly_the_triangular_factor_was_found(monkeypatch, error):
    x, basis = rows_whose_triangular_factor_is_off(monkeypatch, error)
    size, _ = norms_of(x, BasisNorms(basis))
    for bound, square in zip(size, exact_squares(x, basis), strict=True):
        assert Fraction(float(bound)) ** 2 >= square


def test_rows_beyond_any_number_and_coordinates_of_zeros_are_told_apart():
    x = np.array([[1.0, 1e300], [1.0, -1e300], [1.0, 2.0]])
    basis = np.array([[1e10, -1e10], [1e10, 1e10]])
    weight = weights(ArraySource(x, np.zeros(3), norm_bound=2.0), basis, norm_bound=1e10)
    assert (weight[:2] == 0.0).all()
    assert weight[2] == pytest.approx(1.0 / 10.0)
    size, reach = norms_of(x[2:], BasisNorms(np.zeros((2, 2))))
    assert size.tolist() == reach.tolist() == [0.0]


@pytest.mark.parametrize("factor", [1.0, 1e-3, 37.0])
@pytest.mark.parametrize(("norm_bound", "amplification"), [(1.0, 4096.0), (7.3, 8.0), (1e-3, 1e3)])
def test_weights_keep_both_norms_within_their_bounds_exactly(norm_bound, amplification, factor):
    rng = np.random.default_rng(2)
    size, reach = 10.0 ** rng.uniform(-5, 5, 400), 10.0 ** rng.uniform(-5, 8, 400)
    weight = filled(BasisBounds(norm_bound, amplification), RowNorms(size, reach), factor)
    assert (weight == 1.0).any()
    assert (weight < 1.0).any()
    expected = np.minimum(1.0, np.minimum(norm_bound / size / factor, amplification / reach / factor) ** 2)
    np.testing.assert_allclose(weight, expected, rtol=1e-11)
    for bound, norm in ((norm_bound, size), (amplification, reach)):
        for w, length in zip(weight, norm, strict=True):
            square = Fraction(float(w)) * (Fraction(factor) * Fraction(float(length))) ** 2
            assert square <= Fraction(bound) ** 2


def test_weights_of_norms_that_are_no_numbers_or_too_large_are_0():
    odd = np.array([np.nan, np.inf, 1e200, 1e160, 1.0])
    fine = np.ones(5)
    bounds = BasisBounds(2.0, 2.0)
    assert filled(bounds, RowNorms(odd, fine)).tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert filled(bounds, RowNorms(fine, odd)).tolist() == [0.0, 0.0, 0.0, 0.0, 1.0]
    assert filled(bounds, RowNorms(0.0 * fine, 0.0 * fine)).tolist() == [1.0] * 5
    before = np.array([1.0, 0.0, 0.5, 0.0, 1.0])
    assert filled(bounds, RowNorms(fine, fine), before=before).tolist() == [1.0, 0.0, 1.0, 0.0, 1.0]


def basis_that_takes_the_first_coordinate_away(p, rng, scaled=False):
    """Nothing is left of a row of that alone, so that its bounds are the room for rounding."""
    basis = np.diag(rng.uniform(0.5, 2.0, p)) if scaled else rng.normal(size=(p, p))
    basis[0] = 0.0
    return basis


@pytest.mark.parametrize("p", [20, 100])
def test_what_a_triangular_factor_may_be_off_by_is_added_to_the_square(p):
    """Twice ``p + 5`` roundings and a little more, in a row that is turned to nothing."""
    basis, x = basis_that_takes_the_first_coordinate_away(p, np.random.default_rng(p)), np.zeros((2, p))
    x[:, 0] = 1.0, 1e5
    size, reach = norms_of(x, BasisNorms(basis))
    least = np.linalg.norm(basis) * np.sqrt(2 * (p + 5) * 2.0**-52)
    assert (size >= least * x[:, 0]).all()
    assert (size <= 1.2 * least * x[:, 0]).all()
    spectral = np.linalg.svd(basis, compute_uv=False)[0]
    np.testing.assert_allclose(reach / x[:, 0] - spectral, 2.0**-46 * np.linalg.norm(basis), rtol=0.1)


@pytest.mark.parametrize("error", [1e-9, 1e-6])
def test_what_the_triangular_factor_is_off_by_is_added_twice(monkeypatch, error):
    x, basis = rows_whose_triangular_factor_is_off(monkeypatch, error)
    size, _ = norms_of(x, BasisNorms(basis))
    added = 2.0 * np.linalg.norm(basis @ basis.T) * np.linalg.norm(x, axis=1) ** 2
    square = np.linalg.norm(x @ basis, axis=1) ** 2
    part = (size**2 - (1.0 - error) ** 2 * square) / added
    np.testing.assert_allclose(part, 2.0 * error - error**2, rtol=1e-4)


@pytest.mark.parametrize("p", [2, 100])
def test_rows_that_are_scaled_have_room_for_rounding_and_for_a_multiple_that_is_off(p):
    rng, x = np.random.default_rng(p), np.zeros((2, p))
    basis = basis_that_takes_the_first_coordinate_away(p, rng, scaled=True)
    x[:, 0] = 1.0, 1e5
    size, _ = norms_of(x, BasisNorms(basis))
    np.testing.assert_allclose(size, (p + 64) * 2.0**-52 * np.linalg.norm(basis) * x[:, 0], rtol=1e-12)


def by_code_rows(p, entries, constant):
    """Return rows by code with entries 1 in the first columns, the second of them by code."""
    columns = tuple(k for k in range(int(constant), entries) if k != 1)
    layout = Layout(p, constant, columns, plain=1)
    x = CodedMatrix.empty(layout, 3)
    x.numbers[:], x.codes[:] = 1.0, 1
    assert x.entries == entries
    return x


@pytest.mark.parametrize(("scaled", "constant"), [(True, True), (False, True), (False, False)])
def test_rows_by_code_have_room_for_the_rounding_of_all_their_products(scaled, constant):
    """In a basis that takes all their coordinates away."""
    p, entries, rng = 120, 25, np.random.default_rng(6)
    basis = np.diag(rng.uniform(0.5, 2.0, p)) if scaled else rng.normal(size=(p, p))
    basis[:entries] = 0.0
    x = by_code_rows(p, entries, constant)
    size, _ = norms_of(x, BasisNorms(basis))
    terms = p + entries * (entries + 1) / 2 + 3 + 3 * 64
    room = np.sqrt(terms * 2.0**-52 * entries) * np.linalg.norm(basis)
    np.testing.assert_allclose(size, room, rtol=1e-9)


@pytest.mark.parametrize("shape", ["scaled", "first alone", "last alone", "row", "diagonal", "full", "lower"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("entries", [2, 9])
def test_norms_by_code_and_written_out_are_those_of_the_basis_whatever_its_zeros(shape, constant, entries):
    rng, p = np.random.default_rng(7), 20
    full = rng.normal(size=(p, p))
    basis = np.diag(np.diag(full))
    parts = {"scaled": (0, slice(1, p)), "first alone": (1, 0), "last alone": (p - 1, 0), "row": (p - 1, 1)}
    if shape in parts:
        basis[0, 2:5] = full[0, 2:5]
        basis[parts[shape]] = 3.0 * full[parts[shape]]
    elif shape != "diagonal":
        basis = np.tril(full) if shape == "lower" else full
    layout = Layout(p, constant, tuple(range(int(constant), entries)), plain=1)
    x = CodedMatrix.empty(layout, 40)
    x.numbers[:] = rng.normal(size=x.numbers.shape)
    x.codes[:, 0] = rng.integers(entries, p, 40)
    exact = np.linalg.norm(x.dense() @ basis, axis=1)
    far = 1e-6 * np.linalg.norm(x.dense(), axis=1) * np.linalg.norm(basis)
    for rows in (x, x.dense()):
        size, reach = norms_of(rows, BasisNorms(basis))
        assert (size >= exact * (1.0 - 1e-14)).all()
        assert (size <= np.hypot(exact, far) * (1.0 + 1e-9)).all()
        wanted = np.linalg.norm(x.dense(), axis=1) * np.linalg.norm(basis, 2)
        np.testing.assert_allclose(reach, wanted, rtol=1e-12)


@pytest.mark.parametrize("p", [30, 300])
def test_rows_in_single_precision_have_room_for_its_rounding(p):
    """That of the product and of the squares, of a row that the basis makes no shorter than most."""
    rng = np.random.default_rng(p)
    basis = np.linalg.qr(rng.normal(size=(p, p)))[0]
    x, stored = single(rng.normal(size=(50, p)), constant=False)
    size, _ = norms_of(x, BasisNorms(basis))
    long = np.linalg.norm(stored, axis=1)
    room = (size - np.linalg.norm(stored @ basis, axis=1)) / (long * np.linalg.norm(basis) * 2.0**-24)
    needed = (p + 1) + (p / 16 + 3)
    assert (room >= needed).all()
    assert (room <= 1.1 * needed + 70).all()


@pytest.mark.parametrize("factor", [1.0, -1e3, 1e-3])
@pytest.mark.parametrize("unit", [1e-5, 1.0, 1e5])
def test_a_basis_is_a_multiple_up_to_the_part_that_bounds_have_room_for(unit, factor):
    rng = np.random.default_rng(9)
    basis, other = rng.normal(size=(8, 8)) * unit, rng.normal(size=(8, 8))
    other -= np.vdot(other, basis) / np.vdot(basis, basis) * basis
    other *= np.linalg.norm(basis) / np.linalg.norm(other) * 2.0**-46
    norms = BasisNorms(basis)
    assert norms.factor_to(factor * (basis + 0.9 * other)) == pytest.approx(abs(factor))
    assert norms.factor_to(factor * (basis + 1.1 * other)) is None
    assert norms.size == 64


def test_what_is_known_serves_multiples_of_the_last_basis_and_is_picked_as_rows_are():
    basis, before = np.random.default_rng(1).normal(size=(3, 3)), []

    def measure(norms, old):
        assert norms.factor_to(basis.T if len(before) > 1 else basis) == pytest.approx(1.0)
        before.append(old)
        return np.arange(5.0)

    last = LastNorms()
    assert last.of(lambda found: found[:2]).within(basis, measure)[0].size == 5  # nothing was known
    found, factor = last.within(basis, measure)
    assert (before, factor) == ([None, None], 1.0)
    again, factor = last.within(-3.0 * basis, measure)
    assert again is found
    assert factor == pytest.approx(3.0)
    picked, factor = last.of(lambda found: found[[3, 1]]).within(2.0 * basis, measure)
    assert picked.tolist() == [3.0, 1.0]
    assert factor == pytest.approx(2.0)
    assert len(before) == 2
    assert last.within(basis.T, measure)[1] == 1.0
    assert before[2] is found
