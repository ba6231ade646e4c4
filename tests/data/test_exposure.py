"""Exposures of counts: their column, its role in a schema, and what is read of it."""

from dataclasses import replace

import numpy as np
import pytest

from privfit.data.draft import Draft
from privfit.data.encode import SchemaEncoder
from privfit.data.exposure import Exposure, SeenExposures
from privfit.data.schema import NumericColumn, Schema
from privfit.data.tables import Table
from privfit.errors import FormulaError, SchemaError
from privfit.terms.encoder import FormulaEncoder

SCHEMA = Schema(
    {
        "events": {"type": "numeric", "lower": 0, "upper": 20},
        "years": {"type": "numeric", "lower": 0.5, "upper": 4.5},
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "w": {"type": "numeric", "lower": 0, "upper": 1},
    }
)
MARKED = SCHEMA.with_roles(exposure="years")


def test_logarithms_are_of_exposures_within_their_bounds():
    exposure = Exposure("years", NumericColumn(0.0, 4.0))
    cells = np.array([0.25, 2.0, 9.0, 0.0, -3.0, np.nan, np.inf, 1e-300])
    expected = [np.log(0.25), np.log(2.0), np.log(4.0), np.nan, np.nan, np.nan]
    found = exposure.read(Table([("years", cells)]))
    np.testing.assert_allclose(found[:6], expected)
    assert found[7] == pytest.approx(np.log(1e-300))
    filled = Exposure("years", NumericColumn(0.0, 4.0, missing=1.0))
    assert filled.read(Table([("years", np.array([np.nan]))]))[0] == 0.0
    with pytest.raises(SchemaError, match="'years'"):
        exposure.read(Table([("years", np.array(["2024-05-01"], dtype="datetime64[D]"))]))


def test_what_is_taken_from_logarithms_is_public_and_needs_a_constant():
    exposure = Exposure("years", NumericColumn(0.5, 4.5))
    assert exposure.middle == 2.5
    assert exposure.center(constant=True) == np.log(2.5)
    assert exposure.center(constant=False) == 0.0


def test_what_is_not_positive_is_no_exposure_whatever_the_bounds_are():
    exposure = Exposure("years", NumericColumn(0.5, 4.0, missing=2.0))
    found = exposure.read(Table([("years", np.array([0.0, -1.0, 0.1, 9.0, np.nan]))]))
    np.testing.assert_allclose(found, [np.nan, np.nan, np.log(0.5), np.log(4.0), np.log(2.0)])
    filled = Exposure("years", NumericColumn(0.0, 4.0, missing=0.0))
    assert np.isnan(filled.read(Table([("years", np.array([np.nan]))]))).all()


def test_a_look_says_what_is_typical():
    bare = Exposure("years", NumericColumn(0.0, 5.0))
    assert (bare.typical, bare.most, bare.variance, bare.bare) == (2.5, 5.0, 0.0, (0.0, 0.0))
    assert bare.reach == pytest.approx(np.log(2.0))
    seen = replace(bare, seen=SeenExposures(0.4, 2.0, 0.7, (0.5, 0.9)))
    assert (seen.middle, seen.typical, seen.most, seen.variance) == (2.5, 0.4, 2.0, 0.7)
    assert seen.center(constant=True) == np.log(0.4)
    assert seen.reach == pytest.approx(np.log(5.0))
    assert seen.bare == (pytest.approx(np.log(0.5 / 0.4) - 0.45), 0.9)
    beyond = replace(bare, seen=SeenExposures(0.4, 7.0, 0.7, (0.5, 0.9)))
    assert beyond.most == 5.0


def test_a_marked_column_is_neither_a_predictor_nor_a_response():
    assert MARKED.exposure == "years"
    assert MARKED.with_roles(exposure="years") == MARKED
    assert MARKED.fingerprint == SCHEMA.fingerprint
    assert Schema(MARKED.to_dict()) == MARKED
    encoder = SchemaEncoder(MARKED, target="events", target_kind="count")
    assert encoder.needed == ("x", "w", "events")
    assert encoder.design.target.beside == ("years",)
    assert SchemaEncoder(MARKED, target="events").design.target.beside == ()
    by_formula = FormulaEncoder("events ~ .", MARKED, target_kind="count")
    assert by_formula.needed == ("x", "w", "events")
    assert by_formula.design.target.exposure == Exposure("years", MARKED["years"])
    for made in (encoder, by_formula):
        assert made.facts.encoder().design == made.design
    with pytest.raises(SchemaError, match="'years' holds the exposures and cannot be the response"):
        SchemaEncoder(MARKED, target="years")
    with pytest.raises(FormulaError, match="'years' holds the exposures and cannot be the response"):
        FormulaEncoder("years ~ x", MARKED)


@pytest.mark.parametrize(
    ("roles", "rule"),
    [
        ({"exposure": "x"}, "the schema marks 'years'"),
        ({"weights": "years"}, "cannot be the same column"),
        ({"unit": "years"}, "cannot be the same column"),
        ({"unit": "w", "exposure": "w"}, "unit and exposure: 'w' cannot be both"),
        ({"weights": "w", "exposure": "w"}, "weights and exposure: 'w' cannot be both"),
    ],
)
def test_roles_do_not_contradict_each_other(roles, rule):
    with pytest.raises(SchemaError, match=rule):
        MARKED.with_roles(**roles)


def test_bounds_of_exposures_are_not_learned():
    open_bounds = SCHEMA.to_dict() | {"years": {"type": "numeric"}}
    with pytest.raises(SchemaError, match="exposure='years': its bounds are not learned; declare them"):
        Draft.of(open_bounds).check_roles(unit=None, weights=None, exposure="years")
    open_bounds["years"]["exposure"] = True
    with pytest.raises(SchemaError, match="the bounds of a column with exposure=true are not learned"):
        Draft.of(open_bounds)


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ({"lower": -1, "upper": 1}, "exposures need lower >= 0 and no transform"),
        ({"lower": 1, "upper": 2, "transform": "log"}, "exposures need lower >= 0 and no transform"),
        ({"lower": 0, "upper": 2, "weight": True}, "cannot be the same column"),
        ({"lower": 0, "upper": 2, "exposure": 1}, "exposure must be true or false"),
    ],
)
def test_declarations_that_are_no_exposures_are_refused(entry, rule):
    with pytest.raises(SchemaError, match=rule):
        Schema({"years": {"type": "numeric", "exposure": True, **entry}})
