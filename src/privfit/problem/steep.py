"""How steep the loss of a row can be near a point, whatever its response: what steep rows are weighted by."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray
from privfit.data.caps import SlopeBounds
from privfit.data.coded import Matrix
from privfit.errors import PlanViolation
from privfit.losses.base import AbstractLoss
from privfit.losses.multinomial import Multinomial


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

    def __call__(self, x: Matrix) -> FloatArray:
        """Return it for each row, shape (n,)."""
        points = self.steep.at.reshape(self.loss.n_outputs, -1)
        with np.errstate(over="ignore", invalid="ignore"):
            eta = np.array([x @ point for point in points])
        return self.loss.steepest(eta, self.steep.slack)
