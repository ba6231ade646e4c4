"""How generous a loss's bounds are beside what is usual of the response, as far as releases tell."""

import math
from dataclasses import replace

from privfit.losses import AbstractLoss, Poisson, SmoothedQuantile
from privfit.solvers.response import AbstractResponse, ClassShares, MeanResponse

_ERRORS, _ERRORS_OF_VARIANCE = 2.0, 4.0
"""Standard deviations of noise that are taken from the mean of counts, and from their variance; the first are
added to the share of the rarer label."""

_USUAL = 0.8
"""Curvature of usual rows beside that at even odds, where labels and classes are as many: their predictors
are spread. Limits on how long rows may be are for those."""

_UNEXPLAINED = 0.7
"""Spread of errors over that of the response, where predictors tell half of its variance."""

_LEAST_MEAN, _RAREST = 1e-3, 1e-4
"""Mean count, and share of a label, that are taken for smaller ones."""


def slack_at(loss: AbstractLoss, response: AbstractResponse) -> tuple[float, float]:
    """Return how generous the loss's bounds are beside what is usual of its response; see its ``slack``.

    Labels and classes have the shares that were released, as even as noise allows. Counts have the mean and
    the variance that were released, less what noise may have added; where noise hides the mean it is as large
    as its noise, or 1 if that is less. Their curvature is about that mean, and the standard deviation of
    their slopes its root, or half that of the counts where these vary more than a Poisson law's.
    """
    if isinstance(response, ClassShares):
        return _of_classes(loss, response)
    if not isinstance(response, MeanResponse):
        return loss.slack
    if loss.target_kind == "binary":
        return _of_labels(loss, min(response.mean, 1.0 - response.mean), response.error)
    if isinstance(loss, SmoothedQuantile):
        return _of_width(loss, response)
    if not isinstance(loss, Poisson):
        return loss.slack
    hidden = max(min(response.error, 1.0), _LEAST_MEAN)
    mean = max(response.mean - _ERRORS * response.error, hidden)
    certain = max(response.certain_variance(_ERRORS_OF_VARIANCE), 0.0)
    usual = max(math.sqrt(mean), 0.5 * math.sqrt(certain))
    bounds = loss.constants
    return max(0.5 * bounds.slope / usual, 1.0), max(bounds.curvature / mean, 1.0)


def _of_width(loss: SmoothedQuantile, response: MeanResponse) -> tuple[float, float]:
    """Return the same of a quantile, whose curvature is that of the share of rows within the width.

    Where no look has told it, it is at most that of a width that suits the rows, and at most that of errors
    which make up a part of the response's spread.
    """
    if loss.adapts or loss.within is not None:
        return loss.slack
    units = loss.width / max(_UNEXPLAINED * response.spread, loss.width)
    within = 2.0 * units * loss.density
    of_slope, of_curvature = loss.slack
    return of_slope, max(of_curvature, replace(loss, within=within).slack[1])


def _of_labels(loss: AbstractLoss, share: float, error: float) -> tuple[float, float]:
    """Return the same where the rarer of two labels has this share of the rows, with this noise.

    A logit's curvature is ``s (1 - s)`` where a share s is expected, and the squares of slopes are so on
    average: less than at even odds.
    """
    rarer = min(max(max(share, 0.0) + _ERRORS * error, _RAREST), 0.5)
    return _less_curved(loss, 4.0 * rarer * (1.0 - rarer))


def _of_classes(loss: AbstractLoss, response: ClassShares) -> tuple[float, float]:
    """Return the same of several classes, by the share of the rarest: in its direction curvature is least."""
    rarest = max(float(response.shares.min()), _RAREST) + _ERRORS * response.error
    return _less_curved(loss, response.shares.size * rarest)


def _less_curved(loss: AbstractLoss, part: float) -> tuple[float, float]:
    """Return the same where curvature is this part of that at even odds."""
    uneven = max(_USUAL / part, 1.0)
    of_slope, of_curvature = loss.slack
    return of_slope * math.sqrt(uneven), of_curvature * uneven
