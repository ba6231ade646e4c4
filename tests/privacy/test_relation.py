import math
from fractions import Fraction

import numpy as np
import pytest

from privfit.errors import InvalidArgument
from privfit.privacy.relation import Relation

BOUNDS = [1e-12, 0.1, 0.23, 0.46, 1.0, 1 / 3, 7.3, 1e6]


@pytest.mark.parametrize("bound", BOUNDS)
def test_vector_sensitivity_is_twice_the_bound_only_for_replace(bound):
    assert Fraction(Relation.REPLACE.vector_sensitivity(bound)) == 2 * Fraction(bound)
    assert Relation.ADD_REMOVE.vector_sensitivity(bound) == bound


@pytest.mark.parametrize("bound", BOUNDS)
def test_outer_sensitivity_is_rounded_up(bound):
    """At 0.23 and 0.46 the product of floats is below the product of numbers."""
    replace = Relation.REPLACE.outer_sensitivity(bound)
    assert Fraction(replace) ** 2 >= 2 * Fraction(bound) ** 2
    assert replace == pytest.approx(math.sqrt(2) * bound, rel=1e-15)
    assert Relation.ADD_REMOVE.outer_sensitivity(bound) == bound


def test_vector_sensitivity_holds_and_is_reached_by_neighbours():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 5000, 3))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b /= np.linalg.norm(b, axis=1, keepdims=True)
    distances = np.linalg.norm(a - b, axis=1)
    assert distances.max() <= Relation.REPLACE.vector_sensitivity(1.0)
    assert np.linalg.norm(a + a, axis=1).max() == pytest.approx(Relation.REPLACE.vector_sensitivity(1.0))


def test_outer_sensitivity_holds_and_the_published_one_does_not():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 20_000, 2))
    a /= np.linalg.norm(a, axis=1, keepdims=True)
    b /= np.maximum(1.0, np.linalg.norm(b, axis=1, keepdims=True))
    difference = np.einsum("ni,nj->nij", a, a) - np.einsum("ni,nj->nij", b, b)
    worst = np.linalg.norm(difference, axis=(1, 2)).max()
    sensitivity = Relation.REPLACE.outer_sensitivity(1.0)
    assert worst <= sensitivity
    assert worst > 0.99 * sensitivity
    published = 1.0  # Avella Medina, Bradshaw and Loh, Lemma 1: sd 1/(mu n) for replace-one neighbours
    assert worst > 1.4 * published


def test_relation_is_made_from_its_name():
    assert Relation("replace") is Relation.REPLACE
    assert Relation("add_remove") is Relation.ADD_REMOVE
    assert Relation.REPLACE == "replace"
    assert "replaced" in Relation.REPLACE.describe()
    assert "removed" in Relation.ADD_REMOVE.describe()


@pytest.mark.parametrize("name", ["swap", "", None, 3])
def test_unknown_relation_is_refused(name):
    with pytest.raises(InvalidArgument, match="relation must be one of"):
        Relation(name)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_bounds_must_be_positive_and_finite(relation, bound):
    with pytest.raises(InvalidArgument, match="bound must"):
        relation.vector_sensitivity(bound)
    with pytest.raises(InvalidArgument, match="bound must"):
        relation.outer_sensitivity(bound)


def test_overflowing_sensitivity_is_refused():
    with pytest.raises(InvalidArgument, match="overflows"):
        Relation.REPLACE.vector_sensitivity(1.7e308)
    with pytest.raises(InvalidArgument, match="overflows"):
        Relation.REPLACE.outer_sensitivity(1.7e308)
