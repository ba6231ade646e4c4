"""Neighbouring tables: one row is another one, or is missing."""

import numpy as np

N = 80
ROW = 17
SCHEMA = {
    "a": {"type": "numeric", "lower": -1, "upper": 1},
    "b": {"type": "categorical", "levels": ["u", "v", "w"]},
    "yes": {"type": "categorical", "levels": ["no", "yes"]},
    "size": {"type": "numeric", "lower": -5, "upper": 5},
    "count": {"type": "numeric", "lower": 0, "upper": 6},
}


def arrays(kind, variant):
    """Return ``(X, y)``: variant 0, with a row replaced by an extreme one (1), or with a row removed (2)."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (N, 2)) / 2
    eta = 0.3 + x[:, 0] - x[:, 1]
    if kind == "binary":
        y, other = (rng.random(N) < 1 / (1 + np.exp(-2 * eta))).astype(float), 0.0
    elif kind == "count":
        y, other = np.minimum(rng.poisson(np.exp(eta)), 6).astype(float), 1e9
    else:
        y, other = np.clip(eta + 0.2 * rng.normal(size=N), -1, 1), -1e9
    if variant == 1:
        x[ROW], y[ROW] = [1e300, -np.inf], other
    if variant == 2:
        x, y = np.delete(x, ROW, axis=0), np.delete(y, ROW)
    return x, y


def people(variant):
    """Return columns in which a person has two rows: one is another person (1), or is missing (2)."""
    columns = frame(0)
    person = [f"person-{k // 2}" for k in range(N)]
    weight = np.random.default_rng(7).uniform(0, 2, N).tolist()
    columns |= {"person": person, "weight": weight}
    if variant:
        for cells in columns.values():
            del cells[10:12]
    if variant == 1:
        other = {"a": -1e300, "b": "unheard-of-8231", "yes": "no", "size": 7e77, "count": 12345.0}
        for name, cell in (other | {"person": "somebody-8231", "weight": 1e9}).items():
            columns[name] += [cell] * 5
    return columns


def frame(variant):
    """Return columns of the schema, in the same variants."""
    rng = np.random.default_rng(6)
    columns = {
        "a": rng.uniform(-1, 1, N).tolist(),
        "b": rng.choice(["u", "v", "w"], N).tolist(),
        "yes": rng.choice(["no", "yes"], N).tolist(),
        "size": rng.uniform(-5, 5, N).tolist(),
        "count": rng.integers(0, 7, N).astype(float).tolist(),
    }
    if variant == 1:
        other = {"a": 1e300, "b": "unheard-of-8231", "yes": "no", "size": -7e77, "count": 12345.0}
        for name, value in other.items():
            columns[name][ROW] = value
    if variant == 2:
        for cells in columns.values():
            del cells[ROW]
    return columns


def exposed(variant):
    """Return the columns of `frame` and exposures of counts, in the same variants."""
    years = np.random.default_rng(8).uniform(0.1, 2.0, N).tolist()
    if variant == 1:
        years[ROW] = 1e9
    if variant == 2:
        del years[ROW]
    return frame(variant) | {"years": years}
