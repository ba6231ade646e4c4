"""Privacy events and what they cost together. An event that is not known here is refused."""

import math
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Final, Literal, TypeAlias, final

from scipy.special import erfinv, log_expit, ndtri_exp

from privfit._checks import in_range, one_of, positive, whole
from privfit.errors import Incompatible, InvalidArgument
from privfit.privacy.budget import Budget
from privfit.privacy.curves import gdp_delta, gdp_epsilon, pair_delta, smallest_epsilon
from privfit.privacy.sampling import SMALLEST_DELTA, Steps, sampled_delta

_LARGEST_LOSS: Final = 300.0
"""Total privacy loss up to which numerical composition is tried; beyond it exponentials overflow."""

_LEAST_EVENT: Final = 1e-12
"""Smaller events are composed numerically as ones of this size: inverses and grids stay within bounds."""

_TOLERANCE: Final = 1e-6
"""Relative precision of an ε that is found numerically."""

_CEILING: Final = Context(prec=4, rounding=ROUND_CEILING)


@final
@dataclass(frozen=True, slots=True)
class GaussianEvent:
    """A release that is μ-Gaussian differentially private."""

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive(mu=self.mu))


@final
@dataclass(frozen=True, slots=True)
class PureEvent:
    """A release that is ε-differentially private."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon=self.epsilon))


@final
@dataclass(frozen=True, slots=True)
class ApproximateEvent:
    """A release that is (ε, δ)-differentially private, and about which no more is known."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(epsilon=self.epsilon))
        object.__setattr__(self, "delta", in_range(0.0, 1.0, closed="left", delta=self.delta) + 0.0)


@final
@dataclass(frozen=True, slots=True)
class SampledGaussianEvent:
    """Noisy sums over rows that are drawn afresh at every step; who was drawn stays secret.

    Parameters
    ----------
    scheme : {"one", "poisson"}
        ``one``: each step uses one row, drawn evenly and with replacement; ``rate`` is 1 over the number of
        rows. ``poisson``: each row takes part in a step with probability ``rate``, independently.
    relation : {"replace", "add_remove"}
        Neighbouring relation. ``one`` needs ``replace``.
    ratio : float
        ``mu`` of a step if the differing row were known to take part: the largest change of a step's sum,
        over the standard deviation of its noise.
    rate : float
        In (0, 1].
    steps : int

    Notes
    -----
    Under ``replace`` every row's term is at most half of ``ratio`` times the standard deviation, so that two
    of them are at most ``ratio`` apart. See `privfit.privacy.sampling` for what the steps cost.
    """

    scheme: Literal["one", "poisson"]
    relation: Literal["replace", "add_remove"]
    ratio: float
    rate: float
    steps: int

    def __post_init__(self) -> None:
        one_of(("one", "poisson"), scheme=self.scheme)
        one_of(("replace", "add_remove"), relation=self.relation)
        if self.scheme == "one" and self.relation != "replace":
            raise Incompatible("one row per step is accounted for under relation='replace' only")
        object.__setattr__(self, "ratio", positive(ratio=self.ratio))
        object.__setattr__(self, "rate", in_range(0.0, 1.0, closed="right", rate=self.rate))
        object.__setattr__(self, "steps", whole(steps=self.steps))


Event: TypeAlias = GaussianEvent | PureEvent | ApproximateEvent | SampledGaussianEvent


def round_up(value: float) -> str:
    """Write a privacy parameter with at most 4 significant digits, never smaller than it is."""
    return f"{float(_CEILING.create_decimal(repr(float(value)))):.4g}"


def compose(events: Iterable[Event]) -> "Guarantee":
    """Return what releases cost together, each chosen after seeing the earlier ones, but not its cost.

    Parameters
    ----------
    events : iterable of GaussianEvent, PureEvent, ApproximateEvent or SampledGaussianEvent
        Empty for nothing released.

    Raises
    ------
    Incompatible
        If an event is of another type, or steps on sampled rows are accounted for under different relations.
    InvalidArgument
        If μ of Gaussian events is so large that the total overflows.

    Notes
    -----
    *Guarantee.* An upper bound on the cost; the order does not matter. See `Guarantee`, and
    `privfit.privacy.filters` where costs are chosen, too.
    """
    gaussian: list[float] = []
    pairs: list[tuple[float, float]] = []
    sampled: Counter[tuple[str, str, float, float]] = Counter()
    for event in events:
        match event:
            case GaussianEvent(mu):
                gaussian.append(mu)
            case PureEvent(epsilon):
                pairs.append((epsilon, 0.0))
            case ApproximateEvent(epsilon, delta):
                pairs.append((epsilon, delta))
            case SampledGaussianEvent(scheme, relation, ratio, rate, steps):
                sampled[scheme, relation, ratio, rate] += steps
            case _:
                raise Incompatible(f"an event of type {type(event).__name__} cannot be composed")
    if len({relation for _, relation, _, _ in sampled}) > 1:
        raise Incompatible(
            "steps on sampled rows under relation='replace' and relation='add_remove' cannot be composed"
        )
    merged = tuple(SampledGaussianEvent(*key, count) for key, count in sorted(sampled.items()))  # pyright: ignore[reportArgumentType]
    return Guarantee(_root_above(_sum_of_squares(gaussian)), tuple(sorted(pairs)), merged)


@final
@dataclass(frozen=True, slots=True)
class Guarantee:
    """The cost of a composition.

    Parameters
    ----------
    gaussian : float
        μ of all Gaussian events together, ``sqrt(sum(mu**2))`` rounded up (Dong, Roth and Su 2022,
        Corollary 3.3); 0 if there are none.
    pairs : tuple of (float, float)
        (ε, δ) of the pure and approximate events, sorted.
    sampled : tuple of SampledGaussianEvent
        Steps on sampled rows, equal ones merged, sorted.

    Notes
    -----
    *Guarantee.* All answers err on the safe side. Gaussian events alone are composed exactly. Others are
    composed numerically (`privfit.privacy.sampling`; Kairouz, Oh and Viswanath 2015 for the worst case of a
    pair); without steps on sampled rows, δ is the smaller of that and of basic composition (Dwork and Roth
    2014, Theorem 3.16). In sums, ε and δ are the decimal numbers as they print, so that ten
    events of 0.1 exhaust a budget of 1 exactly.
    """

    gaussian: float
    pairs: tuple[tuple[float, float], ...]
    sampled: tuple[SampledGaussianEvent, ...] = ()

    @property
    def mu(self) -> float | None:
        """The composition's μ; None unless all events are Gaussian."""
        return None if self.pairs or self.sampled else self.gaussian

    def delta_at(self, epsilon: float, *, rough: bool = False) -> float:
        """Return a δ such that the composition is (``epsilon``, δ)-differentially private.

        Parameters
        ----------
        epsilon : float
            At least 0.
        rough : bool
            Whether a larger δ will do, for searches: saves most of the time where rows are sampled.

        Raises
        ------
        InvalidArgument
            If ``epsilon`` is not in [0, inf).
        """
        epsilon = in_range(0.0, math.inf, closed="left", epsilon=epsilon)
        if self.sampled:
            return self._numerical_delta(epsilon, rough=rough)
        basic = self._basic_delta(epsilon)
        return min(basic, self._numerical_delta(epsilon, rough=rough)) if self._mixed else basic

    def epsilon_at(self, delta: float) -> float:
        """Return an ε such that the composition is (ε, ``delta``)-differentially private, or ``inf``.

        Raises
        ------
        InvalidArgument
            If ``delta`` is not in [0, 1).

        Notes
        -----
        *Guarantee.* ``delta_at(epsilon_at(delta)) <= delta`` literally, where finite.
        """
        delta = in_range(0.0, 1.0, closed="left", delta=delta)
        basic = math.inf if self.sampled else self._basic_epsilon(delta)
        if not (self.sampled or self._mixed) or delta <= max(self._failure(), SMALLEST_DELTA):
            return basic
        return min(basic, smallest_epsilon(self.delta_at, delta, tolerance=_TOLERANCE))

    def within(self, budget: Budget) -> bool:
        """Return whether the composition is known to cost no more than ``budget``.

        Notes
        -----
        *Guarantee.* False where it is not known. A pure event counts as one of ``mu = -2 * ndtri(1 / (1 +
        exp(epsilon)))`` in a GDP budget (randomised response is a threshold on such a Gaussian release, and
        dominates: Kairouz, Oh and Viswanath 2015) and as ``rho = epsilon**2 / 2`` in a zCDP budget (Bun and
        Steinke 2016, Proposition 1.4). Steps on sampled rows are not within a pure budget, and not known to
        be within one in GDP or zCDP.
        """
        if self.sampled:
            return budget.notion == "approximate" and self.delta_at(budget.epsilon) <= budget.delta
        if not self.pairs and self.gaussian <= budget.mu:
            return True
        pure = self.has_mu
        match budget.notion:
            case "pure":
                return self.gaussian == 0 and pure and self._loss() <= budget.epsilon
            case "approximate":
                return self.delta_at(budget.epsilon) <= budget.delta
            case "gdp":
                return pure and self._squared_mu() <= Fraction(budget.mu) ** 2
            case "zcdp":
                squares = (Fraction(epsilon) ** 2 for epsilon, _ in self.pairs)
                return pure and Fraction(self.gaussian) ** 2 + sum(squares) <= 2 * Fraction(budget.rho)

    def within_mu(self, budget: Budget) -> bool:
        """Return whether the μ of Gaussian and pure events together, as `within` says, implies an (ε, δ).

        False if there are others. It is then within the budget, but what is within need not be.
        """
        return self.has_mu and self._squared_mu() <= Fraction(budget.mu) ** 2

    @property
    def has_mu(self) -> bool:
        """Whether every event has a μ: all are Gaussian or pure."""
        return not self.sampled and all(delta == 0 for _, delta in self.pairs)

    @property
    def basic(self) -> tuple[float, float]:
        """The sums of the ε and of the δ of pure and approximate events."""
        return self._loss(), self._failure()

    def describe(self) -> str:
        """Return the composition in words, its numbers rounded up; pure events as their total."""
        parts = [f"{round_up(self.gaussian)}-Gaussian differential privacy"] if self.gaussian > 0 else []
        pure = _decimal_sum(epsilon for epsilon, delta in self.pairs if delta == 0)
        if pure > 0:
            parts.append(f"{round_up(pure)}-differential privacy")
        for (epsilon, delta), count in Counter(pair for pair in self.pairs if pair[1] > 0).items():
            times = f" {count} times" if count > 1 else ""
            parts.append(f"({round_up(epsilon)}, {round_up(delta)})-differential privacy{times}")
        parts += [
            f"{event.steps} steps of {round_up(event.ratio)}-Gaussian differential privacy on rows sampled "
            f"at a rate of {round_up(event.rate)}"
            for event in self.sampled
        ]
        return " and ".join(parts) or "nothing released"

    @property
    def _mixed(self) -> bool:
        """Whether several events that are not all Gaussian are small enough to be composed numerically."""
        total = self._loss() + self.gaussian**2 / 2 + 12 * self.gaussian
        return len(self.pairs) + (self.gaussian > 0) > 1 and bool(self.pairs) and total <= _LARGEST_LOSS

    def _numerical_delta(self, epsilon: float, *, rough: bool) -> float:
        if self._loss() > _LARGEST_LOSS:
            return 1.0
        steps = [
            Steps(event.scheme, event.relation == "add_remove", event.ratio, event.rate, event.steps)
            for event in self.sampled
        ]
        if self.gaussian > 0:
            ratio = max(self.gaussian, _LEAST_EVENT)
            steps.append(Steps("all", one_sided=False, ratio=ratio, rate=1.0, count=1))
        pairs = tuple((max(epsilon, _LEAST_EVENT), delta) for epsilon, delta in self.pairs)
        scale = 2.0 ** math.ceil(math.log2(min(epsilon, _LARGEST_LOSS))) if epsilon > 1e-6 else 0.0
        return sampled_delta(epsilon, tuple(steps), pairs, scale=scale, rough=rough)

    def _squared_mu(self) -> Fraction:
        """Return the squared μ of all events, of which the pairs are pure."""
        squares = (Fraction(_gdp_of_pure(epsilon)) ** 2 for epsilon, _ in self.pairs)
        return Fraction(self.gaussian) ** 2 + sum(squares)

    def _loss(self) -> float:
        return _decimal_sum(epsilon for epsilon, _ in self.pairs)

    def _failure(self) -> float:
        return _decimal_sum(delta for _, delta in self.pairs)

    def _basic_delta(self, epsilon: float) -> float:
        loss, failure = self._loss(), self._failure()
        if math.isinf(loss):
            return 1.0
        if self.gaussian == 0:
            return pair_delta(loss, failure, epsilon) if self.pairs and failure < 1 else min(1.0, failure)
        if not self.pairs:
            return gdp_delta(self.gaussian, epsilon)
        if epsilon < loss:
            return 1.0
        rest = gdp_delta(self.gaussian, max(0.0, math.nextafter(epsilon - loss, -math.inf)))
        return min(1.0, _add_up(failure, rest))

    def _basic_epsilon(self, delta: float) -> float:
        loss, failure = self._loss(), self._failure()
        if delta < failure or math.isinf(loss):
            return math.inf
        if self.gaussian == 0:
            return Budget(loss, failure).epsilon_at(delta) if self.pairs else 0.0
        if not self.pairs:
            return gdp_epsilon(self.gaussian, delta)
        return smallest_epsilon(self._basic_delta, delta)


def _gdp_of_pure(epsilon: float) -> float:
    if epsilon < 1.0:  # where the other form cancels
        mu = 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(log_expit(-epsilon)))
    return mu * (1 + 1e-12) + 1e-320  # numbers below 1e-308 have fewer digits


def _decimal_sum(numbers: Iterable[float]) -> float:
    """Return the smallest float that prints as no less than the sum of the numbers as they print, or inf."""
    total = sum((Fraction(repr(number)) for number in numbers), Fraction(0))
    if total > Fraction(repr(sys.float_info.max)):
        return math.inf
    result = float(total)
    while Fraction(repr(result)) < total:
        result = math.nextafter(result, math.inf)
    return result


def _add_up(a: float, b: float) -> float:
    return math.nextafter(a + b, math.inf) if a > 0 and b > 0 else a + b


def _sum_of_squares(numbers: Iterable[float]) -> Fraction:
    """Return that, exactly: denominators of floats are powers of 2, so the largest is common to all."""
    ratios = [number.as_integer_ratio() for number in numbers]
    unit = max((below for _, below in ratios), default=1)
    return Fraction(sum((above * (unit // below)) ** 2 for above, below in ratios), unit**2)


def _root_above(square: Fraction) -> float:
    if square > Fraction(2) ** 1000:
        raise InvalidArgument("the events' mu must be smaller: their sum overflows")
    small = max(square.denominator.bit_length() - square.numerator.bit_length(), 0) // 2
    root = math.ldexp(math.sqrt(float(square * 4**small)), -small)  # the square itself may underflow
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while root > 0 and Fraction(below := math.nextafter(root, 0.0)) ** 2 >= square:
        root = below
    return root
