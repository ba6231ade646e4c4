"""The regression models: a title, a response, and how the loss follows from public facts."""

from collections.abc import Callable
from dataclasses import dataclass

from privfit.data.design import Design
from privfit.data.response import TargetKind
from privfit.losses import AbstractLoss, ConcomitantHuber, Huber, Logistic, Squared
from privfit.losses.huber import GAUSSIAN_95

UNIT_SCALE_RESIDUAL = 3.0
"""Residual bound of least squares for a response on a unit scale without declared bounds."""


@dataclass(frozen=True, slots=True)
class Model:
    """A regression model.

    Parameters
    ----------
    title : str
        For summaries.
    target_kind : {"numeric", "binary", "count"}
        Which response it takes.
    loss : callable
        Makes the loss from the public design, because thresholds are stated in units of the response and
        losses work on the encoded one.
    """

    title: str
    target_kind: TargetKind
    loss: Callable[[Design], AbstractLoss]


def logistic_regression() -> Model:
    """Return the logistic model of a binary response."""
    return Model("Logistic regression", "binary", lambda _: Logistic())


def linear_regression(residual_bound: float | None = None) -> Model:
    """Return least squares with a bounded residual.

    Parameters
    ----------
    residual_bound : float, optional
        In units of the response. Default: half the declared range, or 3 without declared bounds.
    """

    def loss(design: Design) -> AbstractLoss:
        if residual_bound is not None:
            return Squared(residual_bound / design.target.half_width)
        return Squared(1.0 if design.target.bounded else UNIT_SCALE_RESIDUAL)

    return Model("Linear regression (least squares)", "numeric", loss)


def huber_regression(threshold: float = GAUSSIAN_95, scale: float | None = None) -> Model:
    """Return Huber's robust linear model.

    Parameters
    ----------
    threshold : float
        In units of the residual scale.
    scale : float, optional
        Public residual scale in units of the response. By default it is estimated along.
    """

    def loss(design: Design) -> AbstractLoss:
        if scale is None:
            return ConcomitantHuber(threshold)
        return Huber(threshold * scale / design.target.half_width)

    return Model("Robust linear regression (Huber)", "numeric", loss)
