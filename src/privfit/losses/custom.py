"""A loss from the user's own functions."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, TypeAlias, final

import numpy as np
from numba import njit

from privfit._checks import FloatArray, one_of, sized
from privfit.errors import InvalidArgument
from privfit.losses.base import (
    AbstractLoss,
    LossConstants,
    ScalarFunction,
    ScalarFunctions,
    TargetKind,
)
from privfit.losses.outside import ArrayGuard, compiled_guard

LossFunction: TypeAlias = Callable[[Any, Any], Any]
"""``f(y, eta)``, of numbers or of arrays."""

_PROBE_ETA = np.array([-800.0, -3.0, -1.0, -0.5, -1e-9, 0.0, 0.25, 1.0, 2.5, 800.0] * 2)
_PROBE_Y = {
    "binary": np.array([0.0] * 10 + [1.0] * 10),
    "numeric": np.array([0.0] * 10 + [-1.0, 1.0, 0.3, -0.5, 0.0, 0.0, 0.9, 1.0, -1.0, 1.0]),
    "count": np.array([0.0] * 10 + [1.0, 2.0, 3.0, 5.0, 8.0, 0.0, 1.0, 1.0, 4.0, 20.0]),
}
"""Public points at which functions of arrays are tried out."""


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Custom(AbstractLoss):
    """A loss from functions of ``(y, eta)``, with constants that you declare.

    Parameters
    ----------
    value : callable
        Loss of a row with encoded response ``y`` and linear predictor ``eta``.
    slope : callable
        Its first derivative in ``eta``.
    curvature : callable, optional
        Its second derivative in ``eta``; needed where ``curvature_bound`` is finite.
    slope_bound : float
        Larger slopes are cut to it, so it also is the influence that a row can have.
    curvature_bound : float
        Larger curvatures are cut to it. ``inf``: the loss has kinks, and no Hessian.
    target_kind : {"numeric", "binary", "count"}
        Which response it takes: scaled to [-1, 1] by the schema, 0/1, or a count that is not scaled.
    convex : bool
        Your claim. Solvers that need convexity rely on it for accuracy, none for privacy.
    name : str
        For plans and summaries.
    vectorized : bool
        False: the functions take and return numbers and are compiled by Numba, as fast as the losses of
        this package. True: they take arrays of shape (m,) and return one of the same shape, row by row,
        by NumPy; for functions that Numba cannot compile.

    Raises
    ------
    InvalidArgument
        If a bound is out of range, ``target_kind`` is none of these, Numba cannot compile a function, or a
        function of arrays fails on public points, changes its arguments, or returns anything but one number
        a row that depends on that row alone.

    Notes
    -----
    *Guarantee.* Slopes and curvatures are clamped to the declared bounds row by row where sums are formed,
    and what is not a number becomes 0, so that wrong bounds or derivatives cost accuracy, never privacy.
    An error inside a function makes the term of the row at fault 0, and no fit stops for it: a function of
    arrays that fails on rows together, or returns anything but a number for each, is asked row by row. That
    is slow, and how long a fit takes is not protected.

    What rests on you: functions are called with private rows, so they must not store or send them, and a
    function of arrays must work row by row; that it does is tried out on public points, which finds
    mistakes but proves nothing. Hence `proven` is False.

    Two of them are equal only if they are the same object. They can be pickled where their functions can.

    Examples
    --------
    >>> import math
    >>> loss = Custom(
    ...     lambda y, eta: math.sqrt(1.0 + (y - eta) ** 2) - 1.0,
    ...     lambda y, eta: (eta - y) / math.sqrt(1.0 + (y - eta) ** 2),
    ...     lambda y, eta: (1.0 + (y - eta) ** 2) ** -1.5,
    ...     slope_bound=1.0,
    ...     curvature_bound=1.0,
    ... )
    >>> loss
    Custom(name='custom loss', slope_bound=1, curvature_bound=1)
    """

    value: LossFunction
    slope: LossFunction
    curvature: LossFunction | None = None
    slope_bound: float = field(kw_only=True)
    curvature_bound: float = field(default=float("inf"), kw_only=True)
    target_kind: TargetKind = field(default="numeric", kw_only=True)  # pyright: ignore[reportIncompatibleVariableOverride]
    convex: bool = field(default=True, kw_only=True)  # pyright: ignore[reportIncompatibleVariableOverride]
    name: str = field(default="custom loss", kw_only=True)  # pyright: ignore[reportIncompatibleMethodOverride]
    vectorized: bool = field(default=False, kw_only=True)
    functions: ScalarFunctions = field(init=False)  # pyright: ignore[reportIncompatibleVariableOverride]
    proven: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "slope_bound", sized(slope_bound=self.slope_bound))
        if self.curvature_bound != float("inf"):
            object.__setattr__(self, "curvature_bound", sized(curvature_bound=self.curvature_bound))
            if self.curvature is None:
                raise InvalidArgument("curvature is needed with a finite curvature_bound")
        one_of(("numeric", "binary", "count"), target_kind=self.target_kind)
        curvature = _nothing if self.curvature is None else self.curvature
        given = {"value": self.value, "slope": self.slope, "curvature": curvature}
        for name, function in given.items():
            if not callable(function):
                raise InvalidArgument(f"{name} must be a function of (y, eta), got {type(function).__name__}")
        made = [self._made(name, function) for name, function in given.items()]
        object.__setattr__(self, "functions", ScalarFunctions(*made))

    def _made(self, name: str, function: LossFunction) -> ScalarFunction:
        if not self.vectorized:
            return _flat() if function is _nothing else _compiled(name, function)
        guarded = ArrayGuard(lambda y, eta, *_: function(y, eta))
        _try_out(name, guarded, _PROBE_Y[self.target_kind], _PROBE_ETA)
        return guarded

    def __repr__(self) -> str:
        return (
            f"Custom(name={self.name!r}, slope_bound={self.slope_bound:g}, "
            f"curvature_bound={self.curvature_bound:g})"
        )

    def __copy__(self) -> "Custom":
        return self

    def __deepcopy__(self, memo: object) -> "Custom":
        return self

    def __reduce__(self) -> Any:
        return _rebuilt, (
            (self.value, self.slope, self.curvature),
            {
                "slope_bound": self.slope_bound,
                "curvature_bound": self.curvature_bound,
                "target_kind": self.target_kind,
                "convex": self.convex,
                "name": self.name,
                "vectorized": self.vectorized,
            },
        )

    @property
    def compiled(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the functions are compiled."""
        return not self.vectorized

    @property
    def constants(self) -> LossConstants:
        """The declared bounds."""
        return LossConstants(slope=float(self.slope_bound), curvature=float(self.curvature_bound))

    @property
    def parameters(self) -> tuple[float, float]:
        """None used."""
        return (0.0, 0.0)


def _compiled(name: str, function: LossFunction) -> ScalarFunction:
    """Return the function compiled to the common signature; where it raises, it returns NaN."""
    plain = njit(error_model="numpy")(function)

    def of_all(y: float, eta: float, s: float, c: float, k: float) -> float:
        return plain(y, eta)

    with suppress(Exception):
        return compiled_guard(njit(of_all))
    raise InvalidArgument(
        f"{name} cannot be compiled by Numba as a function of two numbers; "
        "write it for arrays and pass vectorized=True"
    )


def _try_out(name: str, function: ArrayGuard, y: FloatArray, eta: FloatArray) -> None:
    """Raise `InvalidArgument` if a function of arrays does not work row by row on public points."""
    together = function.answered(y, eta)
    if together is None:
        raise InvalidArgument(
            f"{name} failed; write it so that it returns a number, or NaN, for every (y, eta)"
        )
    if together.shape != y.shape:
        raise InvalidArgument(f"{name} must return one number a row, in the shape of y and eta")
    turned = function(y[::-1].copy(), eta[::-1].copy())[::-1]
    alone = np.array([function(y[[i]], eta[[i]])[0] for i in range(y.size)])
    for other in (turned, alone):
        if not np.allclose(together, other, rtol=1e-9, atol=1e-12, equal_nan=True):
            raise InvalidArgument(f"{name} must work row by row: a row's number depends on others")


def _nothing(y: Any, eta: Any) -> Any:
    return 0.0 * eta


@cache
def _flat() -> ScalarFunction:
    """Return the second derivative of every loss that is given none, compiled once."""
    return _compiled("curvature", _nothing)


def _rebuilt(functions: tuple[Any, ...], options: dict[str, Any]) -> Custom:
    return Custom(*functions, **options)
