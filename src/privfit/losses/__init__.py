"""Losses: scalar functions of the linear predictor with declared constants."""

from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions
from privfit.losses.concomitant import ConcomitantHuber
from privfit.losses.huber import Huber, Squared
from privfit.losses.logistic import Logistic
from privfit.losses.score import AbstractScore, ZeroOne

__all__ = [
    "AbstractLoss",
    "AbstractScore",
    "ConcomitantHuber",
    "Huber",
    "Logistic",
    "LossConstants",
    "ScalarFunctions",
    "Squared",
    "ZeroOne",
]
