"""Losses: scalar functions of the linear predictor with declared constants."""

from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions
from privfit.losses.concomitant import ConcomitantHuber
from privfit.losses.custom import Custom
from privfit.losses.hinge import Hinge, SmoothedHinge
from privfit.losses.huber import Huber, Squared
from privfit.losses.logistic import Logistic
from privfit.losses.multinomial import Multinomial
from privfit.losses.poisson import Poisson
from privfit.losses.quantile import DensitySlope, Quantile, SmoothedQuantile
from privfit.losses.schweppe import Schweppe
from privfit.losses.score import AbstractScore, ZeroOne
from privfit.losses.self_concordant import LogCosh, PseudoHuber, SelfConcordantHuber
from privfit.losses.sigmoid import Sigmoid
from privfit.losses.smoothed_huber import SmoothedHuber

__all__ = [
    "AbstractLoss",
    "AbstractScore",
    "ConcomitantHuber",
    "Custom",
    "DensitySlope",
    "Hinge",
    "Huber",
    "LogCosh",
    "Logistic",
    "LossConstants",
    "Multinomial",
    "Poisson",
    "PseudoHuber",
    "Quantile",
    "ScalarFunctions",
    "Schweppe",
    "SelfConcordantHuber",
    "Sigmoid",
    "SmoothedHinge",
    "SmoothedHuber",
    "SmoothedQuantile",
    "Squared",
    "ZeroOne",
]
