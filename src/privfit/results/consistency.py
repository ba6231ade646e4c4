"""Arrays of a result: copied, of the right shape, and not to be changed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from privfit._checks import FloatArray
from privfit.errors import InvalidArgument

_UNCERTAIN = ("cov_sampling", "cov_noise", "dof")
"""Parts that a fit has together or not at all."""

PARTS = ("estimate", *_UNCERTAIN)
"""Arrays of a result."""


def frozen_parts(size: int, parts: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Return the parts that are given as arrays of their own, read-only.

    Parameters
    ----------
    size : int
        Number q of coefficients. Covariances have shape (q, q), other parts (q,).
    parts : mapping of name to array or None
    """
    missing = [parts[name] is None for name in _UNCERTAIN]
    if any(missing) and not all(missing):
        raise InvalidArgument("cov_sampling, cov_noise and dof must all be given, or all be None")
    return {name: _frozen(name, value, size) for name, value in parts.items() if value is not None}


def _frozen(name: str, value: Any, size: int) -> FloatArray:
    shape = (size, size) if name.startswith("cov") else (size,)
    array = np.array(value, dtype=float)
    if array.shape != shape:
        raise InvalidArgument(f"{name} must have shape {shape}, one entry per name; got {array.shape}")
    array.setflags(write=False)
    return array
