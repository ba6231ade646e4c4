"""Losses with a kink, and one that is not convex, for tests of what solvers accept."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, scalar


@scalar
def _absolute(y, eta, s, c, k):
    return abs(y - eta)


@scalar
def _sign(y, eta, s, c, k):
    return 1.0 if eta > y else (-1.0 if eta < y else 0.0)


@scalar
def _hinge(y, eta, s, c, k):
    return max(0.0, 1.0 - (2.0 * y - 1.0) * eta)


@scalar
def _hinge_slope(y, eta, s, c, k):
    side = 2.0 * y - 1.0
    return -side if side * eta < 1.0 else 0.0


@scalar
def _none(y, eta, s, c, k):
    return 0.0


@scalar
def _welsch(y, eta, s, c, k):
    return 1.0 - math.exp(-0.5 * (eta - y) ** 2)


@scalar
def _welsch_slope(y, eta, s, c, k):
    return (eta - y) * math.exp(-0.5 * (eta - y) ** 2)


@scalar
def _welsch_curvature(y, eta, s, c, k):
    return (1.0 - (eta - y) ** 2) * math.exp(-0.5 * (eta - y) ** 2)


class _Plain:
    __slots__ = ()
    parameters = (0.0, 0.0)


@final
@dataclass(frozen=True, slots=True)
class Absolute(_Plain, AbstractLoss):
    target_kind: ClassVar = "numeric"
    functions: ClassVar = ScalarFunctions(_absolute, _sign, _none)
    name: ClassVar = "Absolute"
    constants: ClassVar = LossConstants(slope=1.0, curvature=math.inf)


@final
@dataclass(frozen=True, slots=True)
class PlainHinge(_Plain, AbstractLoss):
    target_kind: ClassVar = "binary"
    functions: ClassVar = ScalarFunctions(_hinge, _hinge_slope, _none)
    name: ClassVar = "PlainHinge"
    constants: ClassVar = LossConstants(slope=1.0, curvature=math.inf)


@final
@dataclass(frozen=True, slots=True)
class Welsch(_Plain, AbstractLoss):
    target_kind: ClassVar = "numeric"
    convex: ClassVar = False
    functions: ClassVar = ScalarFunctions(_welsch, _welsch_slope, _welsch_curvature)
    name: ClassVar = "Welsch"
    constants: ClassVar = LossConstants(slope=math.exp(-0.5), curvature=1.0)
