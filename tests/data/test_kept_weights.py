"""Survey weights, as caches and clusters keep them beside the rows."""

import numpy as np
import pytest
from stored import assert_alike, cached, on_cluster, rows_of
from wards import BOUND, ENCODER, frame

import privfit as pf
from privfit.data.declarations import NumericColumn
from privfit.data.shares import ShareRule
from privfit.data.source import ArraySource
from privfit.data.tables import open_table

RULE = ShareRule(weights=("w", NumericColumn(0.0, 2.0, weight=True)))
NAMES = ("x", "y", "weight", "influence", "share")


def table():
    """Rows of which some have no weight, or none within bounds, or such a small one that it vanishes."""
    data = frame()
    data["w"] = np.random.default_rng(8).uniform(0.1, 2.5, len(data))
    data.loc[:6, "w"] = [np.nan, 0.0, -1.0, 1e6, 1e-9, np.inf, 5e-324]
    return data


def in_memory(data):
    rows = open_table(data)
    x, y = ENCODER.encode_coded(rows), ENCODER.encode_target(rows)
    return ArraySource(x, y, norm_bound=BOUND, shares=RULE.read(rows))


@pytest.mark.parametrize("kept", [cached, on_cluster])
def test_weights_are_kept_as_in_memory(kept, tmp_path):
    data = table()
    store = kept(data, tmp_path)
    stored = store.rows(ENCODER, norm_bound=BOUND, shares=RULE).source(norm_bound=BOUND)
    whole = in_memory(data)
    assert (stored.unit, stored.n_units) == (None, len(data))
    assert_alike(stored, whole, names=NAMES)
    known = rows_of(whole, NAMES)
    assert (known["weight"] == 0.0).sum() > 4
    assert known["share"].max() <= 1.0
    assert np.ptp(known["share"]) > 0.9
    basis = np.diag(np.arange(1.0, 1.0 + len(ENCODER.design.columns)))
    turned = [rows.reweighted(basis, norm_bound=1.1, amplification=30.0) for rows in (stored, whole)]
    assert_alike(*turned, names=NAMES)
    rows = rows_of(turned[1], NAMES)
    weight, part = rows["weight"], rows["influence"] * rows["share"]
    np.testing.assert_array_equal(weight, np.where(part < np.finfo(float).tiny, 0.0, part))
    indices = np.array([7, len(data) - 1, 4, 9_000])
    taken = [one.take(indices) for one in turned]
    for name in NAMES:
        np.testing.assert_allclose(*(getattr(one, name) for one in taken), rtol=1e-13)


def test_cached_rows_by_other_weights_are_others(tmp_path):
    data = table().assign(v=1.0)
    cache = pf.RowCache(cached(data, tmp_path)._path, folder=tmp_path / "kept")
    column = NumericColumn(0.0, 2.0, weight=True)
    rules = (
        ShareRule(),
        RULE,
        ShareRule(weights=("v", column)),
        ShareRule(weights=("w", NumericColumn(0.0, 3.0, weight=True))),
        ShareRule(weights=("w", NumericColumn(0.5, 2.0, weight=True))),
    )
    for _ in range(2):
        for rule in rules:
            cache.rows(ENCODER, norm_bound=BOUND, shares=rule)
    assert len(list((tmp_path / "kept").glob("*.rows"))) == len(rules)
