"""Losses: scalar functions of the linear predictor with declared constants."""

from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions
from privfit.losses.concomitant import ConcomitantHuber
from privfit.losses.huber import Huber, Squared
from privfit.losses.logistic import Logistic

__all__ = [
    "AbstractLoss",
    "ConcomitantHuber",
    "Huber",
    "Logistic",
    "LossConstants",
    "ScalarFunctions",
    "Squared",
]
