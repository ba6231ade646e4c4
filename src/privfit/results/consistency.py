"""Parts of a result: they belong together; arrays are copied, of the right shape and not to be changed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from privfit._checks import FloatArray
from privfit.data.design import Design, DesignColumn
from privfit.errors import InvalidArgument, SchemaError
from privfit.results.form import ModelForm

_UNCERTAIN = ("cov_sampling", "cov_noise", "dof")
"""Parts that a fit has together or not at all."""

PARTS = ("estimate", *_UNCERTAIN, "joint_dof")
"""Arrays of a result."""

_ROUNDING = 1e-9
"""Relative difference of scales that are the same: processors round the logarithm of a bound differently."""


def check_names(names: Sequence[str], form: ModelForm) -> None:
    """Raise `InvalidArgument` unless there is a coefficient for every column of every linear predictor."""
    if len(names) != len(form.columns) * max(len(form.classes) - 1, 1):
        raise InvalidArgument(
            "names must hold one coefficient for each column of form, for each class but the first"
        )


def check_design(design: Design, target: str, form: ModelForm) -> None:
    """Raise `SchemaError` unless an encoder of this design gives the rows that coefficients act on."""
    labels = () if design.target.labels is None else tuple(map(str, design.target.labels))
    same = {
        "its response is not that": design.target.name == target and labels == form.classes,
        "its columns are not those": design.names == form.columns and design.terms == form.terms,
        "its scales are not those": len(form.centers) == len(design.columns)
        and all(map(_close, design.columns, form.centers, form.half_widths)),
    }
    for wrong, fits in same.items():
        if not fits:
            raise SchemaError(f"encoder: {wrong} of the coefficients; use the schema and formula of the fit")


def _close(column: DesignColumn, center: float, half_width: float) -> bool:
    room = _ROUNDING * (abs(column.center) + column.half_width)
    return abs(column.center - center) <= room and abs(column.half_width - half_width) <= room


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
