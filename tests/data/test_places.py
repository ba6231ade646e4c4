"""What is found of a row depends on the row alone, to the last bit, wherever it stands among however many."""

import numpy as np
import pytest

from privfit.data.basis_norms import BasisNorms, RowNorms
from privfit.data.blocks import Block, CodedBlock
from privfit.data.coded import CodedMatrix, Layout, fill_squared_norms
from privfit.data.predictors import predictors
from privfit.losses.means import of_classes
from privfit.losses.multinomial import Multinomial

NUMBERS_OF_ROWS = (*range(1, 41), 257, 1003, 4095)

CODES = Layout(17, True, (2, 1, 3, 4, 5), plain=2, paired=1)
"""Constant, five numbers, two factors of four and three levels, a product of a number with four levels."""


def matrix(storage, p, rng):
    """Return one row of p numbers behind a constant, or by code, or written out."""
    if storage == "codes":
        x = CodedMatrix.empty(CODES, 1)
        x.numbers[:], x.codes[:] = rng.normal(size=x.numbers.shape), [[7, 11, 14]]
        return x
    numbers = rng.normal(size=(1, p))
    if storage == "written out":
        return numbers
    layout = Layout(p + 1, True, tuple(range(1, p + 1)))
    return CodedMatrix(layout, numbers.astype(storage), np.empty((1, 0), dtype=np.uint8))


def block(x):
    number = np.zeros(len(x))
    return CodedBlock(x, number, number) if isinstance(x, CodedMatrix) else Block(x, number, number)


def squared_norms(x):
    found = np.empty(len(x))
    fill_squared_norms(x, found)
    return found


def norms(basis):
    def found(x):
        both = RowNorms(np.empty(len(x)), np.empty(len(x)))
        BasisNorms(basis).fill(x, both)
        return both.size, both.reach

    return found


def loops(p, rng):
    """Return what looks at rows one by one, by name."""
    theta, skew = rng.normal(size=p), rng.normal(size=(p, p))
    shift = np.diag(rng.random(p) + 0.5)
    shift[0] = rng.normal(size=p)
    points = rng.normal(size=(p, 3))
    return {
        "predictors": lambda x: predictors(x, theta),
        "predictors of a block": lambda x: block(x).predictors(theta),
        "predictors along": lambda x: block(x).along(points),
        "squared norms": squared_norms,
        "norms after shifts": norms(shift),
        "norms in a basis": norms(skew),
    }


@pytest.mark.parametrize("storage", ["written out", "float64", "float32", "codes"])
def test_equal_rows_have_equal_numbers_at_every_place(storage):
    rng = np.random.default_rng(0)
    for p in (17,) if storage == "codes" else (1, 3, 4, 5, 6, 7, 8, 13, 16, 51, 130):
        for _ in range(3):
            row = matrix(storage, p, rng)
            for name, loop in loops(row.shape[1], rng).items():
                alone = np.atleast_2d(loop(row))
                for n in NUMBERS_OF_ROWS:
                    found = np.atleast_2d(loop(row[np.zeros(n, dtype=np.int64)]))
                    assert (found == alone).all(), f"{name}, {p} columns, {n} rows"


@pytest.mark.parametrize("n_classes", [3, 4, 9, 20])
def test_equal_rows_have_equal_predictors_of_classes(n_classes):
    rng = np.random.default_rng(0)
    contrasts, eta = Multinomial(n_classes).contrasts, rng.normal(size=(n_classes - 1, 1))
    np.testing.assert_allclose(of_classes(contrasts, eta), contrasts @ eta, rtol=1e-12, atol=1e-13)
    for n in NUMBERS_OF_ROWS:
        assert (of_classes(contrasts, np.tile(eta, n)) == of_classes(contrasts, eta)).all()
