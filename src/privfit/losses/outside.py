"""Functions from outside, which are called with private rows: where one fails it is NaN, and nobody is told.

An error in compiled code that is called by its address would be printed, once a call and with what it quotes;
one in other code would stop a fit. Either shows that there is such a row.
"""

from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import Any, final

import numpy as np
from numba import float64, njit
from numba.extending import is_jitted

from privfit._checks import FloatArray
from privfit._silent import silence

SIGNATURE = float64(float64, float64, float64, float64, float64)
"""``f(y, eta, s, c, k)``."""

_ONE_AT_A_TIME = RLock()
"""Functions of arrays are called by one thread at a time, so that they need not be thread-safe; one may call
another."""


def guarded(function: Any) -> Any:
    """Return a scalar function, compiled or of arrays, that raises for no row; our own as they are."""
    if isinstance(function, ArrayGuard) or _defined_here(function):
        return function
    return compiled_guard(function) if is_jitted(function) else ArrayGuard(function)


def _defined_here(function: Any) -> bool:
    """Return whether the code of a function stands in this package: its own name may have been copied."""
    code = getattr(function, "py_func", function)
    return str(getattr(code, "__globals__", {}).get("__name__", "")).startswith(__name__.split(".")[0] + ".")


@cache
def compiled_guard(function: Any) -> Any:
    """Return a compiled function of the common signature that is NaN where the given one raises."""

    def answered(y: float, eta: float, s: float, c: float, k: float) -> float:
        try:
            return function(y, eta, s, c, k)
        except Exception:
            return np.nan

    return njit(SIGNATURE)(answered)


@final
@dataclass(frozen=True, slots=True, eq=False)
class ArrayGuard:
    """A function of arrays that is NaN for a row on which it fails, and raises for none.

    Where it fails on rows together, or returns another shape, it is asked row by row.

    Parameters
    ----------
    function : callable
        Of ``(y, eta, s, c, k)``, the first two of shape (m,).
    """

    function: Any

    def __call__(self, y: Any, eta: Any, *constants: float) -> Any:
        """Return what the function does for each row, NaN where it fails."""
        single = np.ndim(eta) == 0
        y, eta = (np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in (y, eta))
        out = self.answered(y, eta, *constants)
        if out is None or out.shape != y.shape:
            alone = (self.answered(y[[i]], eta[[i]], *constants) for i in range(y.size))
            out = np.array([np.nan if one is None or one.shape != (1,) else one[0] for one in alone])
        return out[0] if single else out

    def answered(self, y: FloatArray, eta: FloatArray, *constants: float) -> FloatArray | None:
        """Return what the function does, in whatever shape; None where it fails."""
        y, eta = y.view(), eta.view()
        y.flags.writeable = eta.flags.writeable = False
        with _ONE_AT_A_TIME, np.errstate(all="ignore"), silence, suppress(Exception, SystemExit):
            return np.array(self.function(y, eta, *constants), dtype=np.float64)
        return None
