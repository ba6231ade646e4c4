"""Passes over small tables with every node recorded, or replayed on a neighbouring table."""

from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from privfit.data.source import ArraySource
from privfit.learners import AdaGradNorm
from privfit.learners.base import AbstractLearner, AbstractPlayer
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, scalar
from privfit.losses.logistic import Logistic
from privfit.privacy.mechanisms import NoNoise
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.rows import Rows
from privfit.procedures.online_to_batch import OnePass


@scalar
def _linear_value(y, eta, s, c, k):
    return y * eta


@scalar
def _linear_slope(y, eta, s, c, k):
    return y


@scalar
def _nothing(y, eta, s, c, k):
    return 0.0


@scalar
def _wild_slope(y, eta, s, c, k):
    return np.nan if eta > 2.0 else 1e9 * np.sin(50.0 * eta) * (y + 1.0)


@final
@dataclass(frozen=True, slots=True)
class Linear(AbstractLoss):
    """``y * eta`` with ``abs(y) <= 1``: differences are as large as G allows."""

    target_kind: ClassVar[Literal["numeric", "binary", "count"]] = "numeric"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_linear_value, _linear_slope, _nothing)
    name = "Linear"
    constants = LossConstants(slope=1.0, curvature=0.0)
    parameters = (0.0, 0.0)


@final
@dataclass(frozen=True, slots=True)
class Wild(AbstractLoss):
    """Keeps none of the bounds that it states."""

    declared_convex: bool = True
    target_kind: ClassVar[Literal["numeric", "binary", "count"]] = "numeric"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_linear_value, _wild_slope, _nothing)
    proven: ClassVar[bool] = False
    name = "Wild"
    constants = LossConstants(slope=0.7, curvature=0.3)
    parameters = (0.0, 0.0)

    @property
    def convex(self):
        return self.declared_convex


class Recorder:
    """A source whose noise is seeded, and which remembers values and outcomes of all nodes."""

    private = False
    label = "recorded"

    def __init__(self, seed=0):
        self.rng, self.values, self.outcomes, self.levels = np.random.default_rng(seed), [], [], []

    def _answer(self, value, noise, level):
        self.values.append(value.copy())
        self.outcomes.append(value + noise)
        self.levels.append(level)
        return self.outcomes[-1]

    def gaussian(self, value, sd):
        return self._answer(value, self.rng.normal(scale=sd, size=value.size), sd)

    def radial(self, value, scale):
        spread = np.sqrt(2.0 * self.rng.gamma(0.5 * (value.size + 1)))
        return self._answer(value, scale * spread * self.rng.normal(size=value.size), scale)

    def laplace(self, value, scale):
        return self._answer(value, self.rng.laplace(scale=scale, size=value.size), scale)


class Replay(Recorder):
    """Gives the recorded outcomes again, so that the transcript is that of the recorded run."""

    def __init__(self, recorded):
        super().__init__()
        self.recorded = recorded

    def _answer(self, value, noise, level):
        self.values.append(value.copy())
        self.levels.append(level)
        return self.recorded.outcomes[len(self.values) - 1]


@dataclass(frozen=True, slots=True)
class Spy(AbstractLearner):
    """Passes everything on to another learner and keeps what it was told."""

    told: list
    learner: AbstractLearner
    name = "spy"

    def start(self, game):
        return _SpyPlayer(self.learner.start(game), self.told)


class _SpyPlayer(AbstractPlayer):
    def __init__(self, player, told):
        self.player, self.told = player, told

    def predict(self):
        return self.player.predict()

    def update(self, feedback):
        self.told.append(feedback)
        self.player.update(feedback)


@dataclass(frozen=True, slots=True)
class Plays(AbstractLearner):
    """Plays what it is given, whatever it is told."""

    plays: np.ndarray
    name = "plays"

    def start(self, game):
        return _Playing(iter(self.plays))


class _Playing(AbstractPlayer):
    def __init__(self, plays):
        self.plays = plays
        self.now = next(plays)

    def predict(self):
        return self.now

    def update(self, feedback):
        self.now = next(self.plays)


def problem_of(loss=None, *, n=32, p=3, norm_bound=1.5, l2=0.0, basis=None):
    names = tuple(f"x{k}" for k in range(p))
    penalised = (False,) + (True,) * (p - 1)
    return Problem(
        loss or Logistic(), names, norm_bound, n, Relation.REPLACE, l2, (0.0,) * p, penalised, basis=basis
    )


def one_pass(learner=None, *, p=3, center=None, **changes):
    fields = {"power": 1.0, "radius": 2.0, "batch": 1, "mode": "tight", "amount": 0.7, **changes}
    return OnePass(learner=learner or AdaGradNorm(), center=center or (0.0,) * p, **fields)


def table_of(n, p, rng, *, binary=True):
    x = rng.normal(size=(n, p))
    y = (rng.random(n) < 0.5).astype(float) if binary else rng.uniform(-1, 1, size=n)
    return x, y


def run(one, problem, x, y, source=None):
    rows = Rows(problem, ArraySource(x, y, norm_bound=problem.norm_bound))
    return one.carry_out(problem, rows, source or NoNoise())
