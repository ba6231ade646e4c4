"""How steep the loss of a row can be near a point, whatever its response: what steep rows are weighted by."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numba import int64, void

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.data.caps import SlopeBounds
from privfit.data.coded import Matrix
from privfit.data.predictors import predictors_at
from privfit.data.row_types import VECTOR
from privfit.errors import PlanViolation
from privfit.losses.base import AbstractLoss
from privfit.losses.multinomial import Multinomial
from privfit.losses.pointers import address
from privfit.problem.slopes import SLOPE_CODES, fill_reaches

_TOGETHER = 256
"""Predictors that are looked at together."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class SteepRows:
    """Rows along which the loss can be steep near a point count less, so that no gradient is long.

    With ``g(x)`` the largest slope that a response can make at linear predictors within ``slack`` of that at
    the point, rows get at most the weight ``B / (norm(P'x) * g(x))``, and slopes are held to
    ``B / (w * norm(P'x))``, where ``B = part * slope * norm_bound`` bounds a row's gradient. The weight does
    not depend on the response, so that a model that is right is estimated without bias (Künsch, Stefanski
    and Carroll 1989, *Conditionally unbiased bounded-influence estimation in general regression models*).

    Parameters
    ----------
    part : float
        In (0, 1].
    at : array of shape (n_linear,)
        Coefficients of the encoded columns, a function of earlier releases.
    slack : float
        How far predictors may be off before slopes are cut.
    """

    part: float
    at: FloatArray
    slack: float

    def bounds(self, loss: AbstractLoss, bound: float) -> SlopeBounds:
        """Return what holds the gradients of rows to ``bound``.

        Raises
        ------
        PlanViolation
            If sums of this loss do not hold slopes row by row.
        """
        if not steepens(loss):
            raise PlanViolation(f"slopes of {loss.name} are not held row by row")
        return SlopeBounds(bound, loss.constants.slope, Reach(loss, self))


def steepens(loss: AbstractLoss) -> bool:
    """Return whether `SteepRows` can bound gradients: of compiled losses without a scale, and classes."""
    rowwise = loss.compiled or isinstance(loss, Multinomial)
    return rowwise and loss.convex and not loss.has_scale


@final
@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """``g(x)`` of `SteepRows` for encoded rows.

    Parameters
    ----------
    loss : AbstractLoss
        Convex.
    steep : SteepRows
    """

    loss: AbstractLoss
    steep: SteepRows

    def __call__(self, x: Matrix, offset: FloatArray | None = None) -> FloatArray:
        """Return it for each row, shape (n,), whose predictor has a known part (n,), or none."""
        points = self.steep.at.reshape(self.loss.n_outputs, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            eta = predictors_at(x, points)
            if offset is not None:
                eta += offset
        return steepest(self.loss, eta, self.steep.slack)


def steepest(loss: AbstractLoss, eta: FloatArray, slack: float) -> FloatArray:
    """Return the largest slope that any response makes within ``slack`` of the predictors, or more.

    Parameters
    ----------
    loss : AbstractLoss
        One that `steepens`.
    eta : array of shape (n_outputs, n)
    slack : float

    Returns
    -------
    array of shape (n,)
        At most the bound on slopes. Slopes of a convex loss grow with the predictor, so that the largest
        is at one of the two ends.
    """
    if isinstance(loss, Multinomial):
        return loss.steepest(eta, slack)
    functions, found = loss.functions, np.empty(eta.shape[1])
    state = np.array([1.0, *loss.parameters])
    code, limits = SLOPE_CODES.get(functions.slope, 0), np.array([slack, loss.constants.slope])
    _fill_steepest(code, address(functions.reach), np.ascontiguousarray(eta[0]), state, limits, found)
    return found


@lazily_compiled(void(int64, int64, VECTOR, VECTOR, VECTOR, VECTOR), nogil=True, error_model="numpy")
def _fill_steepest(  # noqa: PLR0917 -- compiled
    code: int, reach: int, eta: Any, loss: Any, limits: Any, out: Any
) -> None:
    """Fill ``out`` with the larger reach at both ends, ``limits[0]`` away, but at most ``limits[1]``."""
    s, c, k = loss[0], loss[1], loss[2]
    some, low, high = np.zeros(_TOGETHER), np.empty(_TOGETHER), np.empty(_TOGETHER)
    for first in range(0, eta.size, _TOGETHER):
        count = min(_TOGETHER, eta.size - first)
        y, left, right = some[:count], low[:count], high[:count]
        middle = eta[first : first + count]
        fill_reaches(code, reach, y, middle - limits[0], left, s, c, k)
        fill_reaches(code, reach, y, middle + limits[0], right, s, c, k)
        for i in range(count):
            out[first + i] = min(max(left[i], right[i]), limits[1])
