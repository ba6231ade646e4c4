"""Minimisers whose outcome moves by a publicly bounded distance when one row is replaced."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import final

import numpy as np

from privfit._checks import FloatArray, optional, positive, whole
from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.procedures.landscape import Landscape, Objective

MOST_STEPS = 20_000
"""Most gradient steps that a default asks for."""

_SMALLEST_RIDGE = 1e-10
"""Least ridge over the bound on the curvature for Newton steps in double precision."""

_SAFE = 1.0 + 1e-9
"""Covers the rounding of the bounds themselves."""

_RATE = 1.0 - 1e-16
"""Largest rate of a step's decay whose logarithm is finite."""


class AbstractMinimiser(ABC):
    """A way to minimise an objective on the rows, without noise, with a bound on its sensitivity.

    Subclasses are final, frozen dataclasses of public numbers. What they return is secret.
    """

    __slots__ = ()

    @abstractmethod
    def settled(self, landscape: Landscape, *, distance: float, spread: float) -> "AbstractMinimiser":
        """Return the same minimiser with every default replaced by a number.

        Parameters
        ----------
        landscape : Landscape
        distance : float
            Public guess at the distance from the start to the minimiser. Only accuracy rests on it.
        spread : float
            Root mean square norm of the noise that will be added, over the sensitivity.

        Raises
        ------
        InvalidArgument, Incompatible
            If a setting breaks what the sensitivity rests on.
        """

    @abstractmethod
    def sensitivity(self, landscape: Landscape) -> float:
        """Return how far the outcomes of two tables can be apart that differ in one replaced row."""

    @abstractmethod
    def gap(self, landscape: Landscape, *, distance: float) -> float:
        """Return a bound on ``F(outcome) - min F`` if the minimiser is within ``distance`` of the start."""

    @abstractmethod
    def minimise(self, landscape: Landscape, objective: Objective) -> FloatArray:
        """Return the outcome, shape (size,)."""


@final
@dataclass(frozen=True, slots=True)
class GradientDescent(AbstractMinimiser):
    """A fixed number of full gradient steps from the public start.

    Parameters
    ----------
    n_steps : int, optional
        Default: what minimises the bound on the error, at most `MOST_STEPS`.
    step_size : float, optional
        At most ``2 / (curvature + 2 l2)``. Default: what minimises the bound on the error.
    radius : float, optional
        Of a ball around the start that iterates are projected to; none by default.

    Notes
    -----
    *Sensitivity.* With ``c = 1 - step_size * l2``, two runs on neighbouring tables obey
    ``d[t+1] <= c d[t] + step_size * 2 L / n``, since below the step limit the step of a convex and smooth
    objective with a ridge contracts by c: so they end within ``(2 L / (n l2)) (1 - c**T)``, or
    ``2 L step_size T / n`` without a ridge. Equality holds for linear losses. Projection is non-expansive.
    Rounding adds at most ``2 (rounding of a gradient) * step_size`` and the rounding of a step, every step.

    References
    ----------
    Zhang, Zheng, Mou and Wang 2017, *Efficient private ERM for smooth objectives*, algorithm 1; they bound
    the sensitivity by ``3 L step_size T / n`` and ``5 L (mu + beta) / (n mu beta)``. Hardt, Recht and Singer
    2016, lemma 3.7, for the contraction.
    """

    n_steps: int | None = None
    step_size: float | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        optional(whole, n_steps=self.n_steps)
        optional(positive, step_size=self.step_size)
        optional(positive, radius=self.radius)

    def settled(self, landscape: Landscape, *, distance: float, spread: float) -> "GradientDescent":
        """Fill in steps and step size; refuse a step beyond the limit."""
        if self.step_size is not None and self.step_size > landscape.longest_step:
            raise InvalidArgument(
                f"step_size must be at most 2 / (curvature + 2 l2) = {landscape.longest_step:.6g}, beyond "
                f"which gradient steps may drive neighbouring tables apart; got {self.step_size:g}"
            )
        if self.n_steps is not None and self.step_size is not None:
            return self
        return _best(self, landscape, distance, spread)

    def candidates(self, landscape: Landscape, distance: float, spread: float) -> "Sequence[GradientDescent]":
        """Return settings worth comparing, the optimal ones of theory among them."""
        if self.step_size is not None:
            sizes = [self.step_size]
        else:
            sizes = [1.0 / landscape.smoothness]
            if landscape.l2 > 0:
                sizes.append(landscape.longest_step * (1.0 - 1e-12))
        counts = [self.n_steps] if self.n_steps is not None else _grid(MOST_STEPS)
        found = [replace(self, n_steps=count, step_size=size) for size in sizes for count in counts]
        length = self._ideal_length(landscape, distance, spread)
        steps = self.n_steps or max(math.ceil(min(landscape.smoothness * length, MOST_STEPS)), 1)
        if self.step_size is None and 0 < length / steps <= 1.0 / landscape.smoothness:
            found.append(replace(self, n_steps=steps, step_size=length / steps))
        return found

    @staticmethod
    def _ideal_length(landscape: Landscape, distance: float, spread: float) -> float:
        """Return ``n_steps * step_size`` that balances ``D**2 / (2 s)`` with noise proportional to s."""
        noise = spread * landscape.sensitivity
        if noise == 0.0:
            return math.inf
        return (distance**2 / (2.0 * landscape.smoothness * noise**2)) ** (1.0 / 3.0)

    def _numbers(self) -> tuple[int, float]:
        if self.n_steps is None or self.step_size is None:
            raise PlanViolation("a minimiser was used before its steps were settled")
        return self.n_steps, self.step_size

    def sensitivity(self, landscape: Landscape) -> float:
        """Return the bound above, rounding included."""
        steps, size = self._numbers()
        if size > landscape.longest_step:
            raise PlanViolation("a gradient step exceeds the limit that its sensitivity rests on")
        radius = self._farthest(landscape)
        drift = 2.0 * (size * landscape.rounding(radius) + landscape.update_rounding(radius, size))
        return (size * landscape.sensitivity + drift) * _decayed(steps, size * landscape.l2) * _SAFE

    def _farthest(self, landscape: Landscape) -> float:
        """Return a bound on the norm of every iterate."""
        steps, size = self._numbers()
        origin = math.hypot(*landscape.start)
        walk = 2.0 * steps * size * (landscape.steepest + landscape.tilt + landscape.l2 * origin)
        ball = math.inf if self.radius is None else self.radius
        return origin + min(walk, 2.0 * landscape.reach, ball)

    def gap(self, landscape: Landscape, *, distance: float) -> float:
        """Return the smaller of the linear and the sublinear rate's bound."""
        steps, size = self._numbers()
        away = min(distance, landscape.reach)
        if self.radius is not None and self.radius < away:
            return math.inf
        decay = math.exp(2.0 * steps * math.log1p(-min(size * landscape.l2, _RATE)))
        linear = 0.5 * landscape.smoothness * decay * away**2
        if size > _SAFE / landscape.smoothness:
            return linear
        return min(linear, away**2 / (2.0 * size * steps))

    def minimise(self, landscape: Landscape, objective: Objective) -> FloatArray:
        """Take the steps."""
        steps, size = self._numbers()
        start = np.array(landscape.start)
        at = start
        for _ in range(steps):
            at = project(at - size * objective.gradient(at), start, self.radius)
        return at


@final
@dataclass(frozen=True, slots=True)
class CertifiedMinimiser(AbstractMinimiser):
    """Newton's method, until the gradient shows that the minimiser is near. Needs a ridge.

    The target is the minimiser within a public ball around the start.

    Parameters
    ----------
    tolerance : float, optional
        Bound on ``l2`` times the distance from the minimiser. Default: a 10 000th of what replacing a row
        does to the mean gradient, or 8 times the bound on the gradient's rounding if that is larger.
    radius : float, optional
        Of the ball. Default ``10 sqrt(size)``.
    newton_steps : int
        Most Newton steps.

    Notes
    -----
    *Sensitivity.* A point in the ball whose gradient has a norm of at most ``tau``, and any point for which
    gradient steps prove it, is within ``tau / l2`` of the minimiser, since the objective is l2-strongly
    convex. Minimisers of neighbouring tables are within ``2 L / (n l2)``. Together
    ``(2 L / n + 2 tau) / l2``, whichever way a point was found.

    *No leak by failure.* Where Newton's method does not get there, accelerated steps are tried, a public
    number of them; where these fail too, a public number of projected gradient steps follows, which is
    known to suffice from anywhere in the ball, rounding included. Every outcome is within ``tau / l2``. The
    time it takes depends on the rows. Where their number is private these steps suit the one there is.
    """

    tolerance: float | None = None
    radius: float | None = None
    newton_steps: int = 60

    def __post_init__(self) -> None:
        optional(positive, tolerance=self.tolerance)
        optional(positive, radius=self.radius)
        whole(newton_steps=self.newton_steps)

    def settled(self, landscape: Landscape, *, distance: float, spread: float) -> "CertifiedMinimiser":
        """Fill in tolerance and ball; refuse a tolerance below what rounding allows."""
        del distance, spread
        if landscape.l2 == 0.0:
            raise Incompatible(
                "l2: CertifiedMinimiser needs a ridge, without which minimisers of neighbouring tables may "
                "be arbitrarily far apart; set l2 > 0 or use GradientDescent()"
            )
        if landscape.l2 < _SMALLEST_RIDGE * landscape.curvature:
            raise InvalidArgument(
                f"l2 must be at least {_SMALLEST_RIDGE * landscape.curvature:.3g} for CertifiedMinimiser, "
                "below which rounding hides the ridge; or use GradientDescent()"
            )
        filled = replace(self, radius=self.radius or 10.0 * math.sqrt(landscape.size))
        floor = 2.0 * filled.floor(landscape)
        if self.tolerance is None:
            return replace(filled, tolerance=max(4.0 * floor, 1e-4 * landscape.sensitivity))
        if self.tolerance < floor:
            raise InvalidArgument(
                f"tolerance must be at least {floor:.3g}, below which rounding hides the gradient; "
                f"got {self.tolerance:g}"
            )
        return filled

    def floor(self, landscape: Landscape) -> float:
        """Return what rounding alone can leave of the tolerance, for gradient steps within the ball."""
        farthest = self._farthest(landscape)
        size = landscape.longest_step
        return landscape.rounding(farthest) + landscape.update_rounding(farthest, size) / size

    def _numbers(self) -> tuple[float, float]:
        if self.tolerance is None or self.radius is None:
            raise PlanViolation("a minimiser was used before its tolerance was settled")
        return self.tolerance, self.radius

    def _farthest(self, landscape: Landscape) -> float:
        return math.hypot(*landscape.start) + (self.radius or 0.0) * _SAFE

    def error(self, landscape: Landscape) -> float:
        """Return a bound on the distance of the outcome from the minimiser in the ball."""
        tolerance, _ = self._numbers()
        if 2.0 * self.floor(landscape) > tolerance * _SAFE or landscape.l2 <= 0:
            raise PlanViolation("a minimiser's tolerance is below what rounding allows")
        return tolerance / landscape.l2 * _SAFE

    def sensitivity(self, landscape: Landscape) -> float:
        """Return ``(2 L / n + 2 tau) / l2``."""
        return (landscape.sensitivity / landscape.l2 + 2.0 * self.error(landscape)) * _SAFE

    def gap(self, landscape: Landscape, *, distance: float) -> float:
        """Return ``smoothness * error**2 / 2``, if the minimiser lies in the ball."""
        _, radius = self._numbers()
        inside = min(distance, landscape.reach) <= radius
        return 0.5 * landscape.smoothness * self.error(landscape) ** 2 if inside else math.inf

    def minimise(self, landscape: Landscape, objective: Objective) -> FloatArray:
        """Return a point within `error` of the minimiser in the ball."""
        at = self._newton(landscape, objective)
        if self._certified(landscape, objective, at):
            return at
        crowded = replace(landscape, crowd=max(landscape.crowd, objective.crowd))
        at = self._accelerated(crowded, objective)
        if self._certified(landscape, objective, at):
            return at
        return self._descend(crowded, objective)

    def _certified(self, landscape: Landscape, objective: Objective, at: FloatArray) -> bool:
        tolerance, radius = self._numbers()
        inside = float(np.linalg.norm(at - np.array(landscape.start))) <= radius
        rounding = landscape.rounding(self._farthest(landscape))
        return inside and float(np.linalg.norm(objective.gradient(at))) + rounding <= tolerance

    def _newton(self, landscape: Landscape, objective: Objective) -> FloatArray:
        tolerance, radius = self._numbers()
        start = np.array(landscape.start)
        at, gradient = start, objective.gradient(start)
        for _ in range(self.newton_steps):
            norm = float(np.linalg.norm(gradient))
            if norm <= 0.25 * tolerance:
                break
            values, vectors = np.linalg.eigh(objective.hessian(at))
            step = vectors @ ((vectors.T @ gradient) / np.maximum(values, landscape.l2))
            for _ in range(30):
                candidate = project(at - step, start, radius)
                following = objective.gradient(candidate)
                if float(np.linalg.norm(following)) < norm:
                    break
                step = 0.5 * step
            else:
                break
            at, gradient = candidate, following
        return at

    def _accelerated(self, landscape: Landscape, objective: Objective) -> FloatArray:
        """Nesterov's method with constant momentum for twice the steps that exact arithmetic needs."""
        _, radius = self._numbers()
        start = np.array(landscape.start)
        root = math.sqrt(landscape.l2 / landscape.smoothness)
        momentum = (1.0 - root) / (1.0 + root)
        at = ahead = start
        for _ in range(math.ceil(2.0 * self._orders(landscape, landscape.smoothness) / root)):
            following = project(ahead - objective.gradient(ahead) / landscape.smoothness, start, radius)
            ahead = following + momentum * (following - at)
            at = following
        return at

    def _descend(self, landscape: Landscape, objective: Objective) -> FloatArray:
        _, radius = self._numbers()
        steps = self.fallback_steps(landscape)
        descent = GradientDescent(steps, landscape.longest_step * (1.0 - 1e-12), radius)
        return descent.minimise(landscape, objective)

    def fallback_steps(self, landscape: Landscape) -> int:
        """Return the gradient steps that bring any table's iterate within `error`: half of it by contraction.

        The other half covers rounding, since the tolerance is at least twice `floor`.
        """
        contraction = -math.log1p(-landscape.longest_step * (1.0 - 1e-9) * landscape.l2)
        return math.ceil(self._orders(landscape, landscape.l2) / contraction) + 1

    def _orders(self, landscape: Landscape, scale: float) -> float:
        """Return the logarithm of how much smaller than at the start a gradient has to become."""
        tolerance, radius = self._numbers()
        return max(1.0, math.log(2.0 * scale * min(radius, landscape.reach) / tolerance))


def project(at: FloatArray, center: FloatArray, radius: float | None) -> FloatArray:
    """Return the nearest point within ``radius`` of ``center``; ``at`` itself without a radius."""
    if radius is None:
        return at
    away = float(np.linalg.norm(at - center))
    return at if away <= radius else center + (at - center) * (radius / away)


def _decayed(steps: int, rate: float) -> float:
    """Return ``sum((1 - rate)**k for k in range(steps))`` for a rate in [0, 1]."""
    return float(steps) if rate == 0.0 else -math.expm1(steps * math.log1p(-min(rate, _RATE))) / rate


@lru_cache(maxsize=64)
def _best(chosen: GradientDescent, landscape: Landscape, distance: float, spread: float) -> GradientDescent:
    """Return the candidate with the least error. A fit asks twice, plan and run, and fits are repeated."""

    def error(candidate: GradientDescent) -> float:
        noise = spread * candidate.sensitivity(landscape)
        return candidate.gap(landscape, distance=distance) + 0.5 * landscape.smoothness * noise**2

    return min(chosen.candidates(landscape, distance, spread), key=error)


def _grid(most: int) -> list[int]:
    return sorted({round(step) for step in np.geomspace(1, most, 200)})
