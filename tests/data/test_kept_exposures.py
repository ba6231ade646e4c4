"""Exposures of counts, as caches and clusters keep them beside the rows."""

import numpy as np
import pytest
from stored import assert_alike, cached, on_cluster, rows_of
from wards import SCHEMA, frame

from privfit.data.encode import SchemaEncoder
from privfit.data.source import ArraySource
from privfit.data.tables import open_table

ENCODER = SchemaEncoder(
    SCHEMA.with_roles(exposure="age"), target="gain", target_kind="count", columns=["ward", "sex"]
)
BOUND = ENCODER.design.norm_bound
NAMES = ("x", "y", "weight", "offset")


def table():
    """Rows of which some have no exposure, or none within bounds."""
    data = frame()
    data.loc[:5, "age"] = [np.nan, 0.0, -1.0, 1e6, 1e-9, np.inf]
    return data


def in_memory(data):
    rows = open_table(data)
    y, offset = ENCODER.encode_response(rows)
    return ArraySource(ENCODER.encode_coded(rows), y, norm_bound=BOUND, offset=offset)


def test_of_an_encoder_columns_that_are_read_are_those_it_needs_and_exposures():
    assert ENCODER.needed == ("ward", "sex", "gain")
    assert ENCODER.read == ("age", "ward", "sex", "gain")
    y, offset = ENCODER.encode_response(open_table(table()))
    np.testing.assert_array_equal(np.isnan(y[:7]), [True, True, True, False, False, False, False])
    np.testing.assert_allclose(offset[3:6], np.log([90.0, 17.0, 90.0]))
    assert np.isfinite(offset).all()


@pytest.mark.parametrize("kept", [cached, on_cluster])
@pytest.mark.parametrize("part", [0.3, 1.0])
def test_exposures_are_held_and_sampled_as_in_memory(kept, part, tmp_path, in_order):
    data = table()
    store = kept(data, tmp_path)
    whole = store.rows(ENCODER, norm_bound=BOUND).source(norm_bound=BOUND), in_memory(data)
    assert_alike(*whole, names=NAMES)
    coins = np.random.default_rng(4).random(len(data)) < part
    basis = np.diag(np.arange(1.0, 1.0 + len(ENCODER.design.columns)))
    for rows in whole:
        rows.reweighted(basis, norm_bound=1.1, amplification=30.0)
    held = [rows.exposed(-0.7, np.log(40.0)) for rows in whole]
    assert_alike(*held, names=NAMES)
    assert np.max(rows_of(held[1], NAMES)["offset"]) == pytest.approx(np.log(40.0) - 0.7)
    some = [rows.sampled(in_order(coins), part) for rows in held]
    assert some[0].n_rows == coins.sum()
    assert_alike(*some, names=NAMES)
    assert_alike(
        *(rows.reweighted(2.0 * basis, norm_bound=1.1, amplification=30.0) for rows in some), names=NAMES
    )
    assert_alike(*whole, names=NAMES)
