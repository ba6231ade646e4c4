"""How many rows, or how much budget, a wanted precision needs."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from privfit._checks import coverage, in_range, optional, positive
from privfit.data.design import INTERCEPT
from privfit.data.encode import AbstractEncoder
from privfit.errors import Incompatible, InvalidArgument, TooLittleData
from privfit.estimators.forecast import Forecast
from privfit.estimators.models import Model
from privfit.estimators.objective import make_problem
from privfit.estimators.options import FitOptions
from privfit.estimators.planned import PlannedFit, described, position, rows_in_words
from privfit.estimators.rehearsal import Rehearsal
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.solvers import ProjectedNoisyGradientDescent

_SEARCH_REHEARSALS = 8
"""Fits of a forecast that leads a search to about the right place; those that a plan shows end it there."""

_OFTEN = 0.75
"""Share of rehearsals with a finite interval that a search asks for."""

_TOLERANCE = 0.01
"""Relative width of the bracket at which a search ends."""

_FAR, _NEAR = math.log(8.0), 0.08
"""Strides of the search by few rehearsals, and of the one that starts from what it found."""

MOST_SOUGHT, MOST_EPSILON = 10**9, 64.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What intervals or tests should achieve.

    Parameters
    ----------
    width : float or mapping, optional
        Largest median width of the interval: of ``coefficient``, or by name.
    power : float, optional
        Probability with which a test should find ``effect``.
    effect : float or mapping, optional
        Coefficient that should be found, in reported units: of ``coefficient``, or by name.
    coefficient : str, optional
        Which coefficient a single number is about; may be left out where there is only one slope.
    level : float
        Coverage of the intervals; tests have size ``1 - level``, which ``power`` exceeds with any effect.
    """

    width: float | Mapping[str, float] | None
    power: float | None
    effect: float | Mapping[str, float] | None
    coefficient: str | None
    level: float

    def __post_init__(self) -> None:
        if (self.power is None) != (self.effect is None):
            raise InvalidArgument(
                "power and effect go together: the chance to find a coefficient of that size"
            )
        if (self.width is None) == (self.power is None):
            raise InvalidArgument("give one target: width, or power and effect, or accuracy")
        size = round(1.0 - coverage(self.level), 12)  # a number that can be printed
        optional(in_range, size, 1.0, closed="neither", power=self.power)

    def targets(self, names: tuple[str, ...]) -> dict[int, float]:
        """Return the wanted width or effect of each coefficient that matters, by position."""
        given = self.effect if self.width is None else self.width
        if isinstance(given, Mapping):
            if self.coefficient is not None:
                raise InvalidArgument("coefficient names one; leave it out where targets are given by name")
            if not given:
                raise InvalidArgument("width or effect by name must name at least one coefficient")
            return {position(name, names): self._size(value) for name, value in given.items()}
        slopes = [name for name in names if not name.endswith(INTERCEPT)]
        if self.coefficient is None and len(slopes) != 1:
            raise InvalidArgument(f"coefficient says which the target is about: one of {', '.join(names)}")
        name = slopes[0] if self.coefficient is None else self.coefficient
        return {position(name, names): self._size(given)}

    def _size(self, value: object) -> float:
        if self.width is None:
            return abs(in_range(-math.inf, math.inf, closed="neither", effect=value))
        return positive(width=value)

    def met_by(self, forecast: Forecast) -> bool:
        """Return whether a forecast achieves it, with intervals that are finite often enough."""
        targets = self.targets(forecast.names)
        if any(forecast.finite[k] < _OFTEN for k in targets):
            return False
        if self.power is None:
            widths = forecast.width(self.level)
            return all(widths[k] <= wanted for k, wanted in targets.items())
        return all(forecast.power(wanted, self.level)[k] >= self.power for k, wanted in targets.items())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SampleSize:
    """The rows or the budget that a target needs, and what a fit with them is expected to report.

    Parameters
    ----------
    n_rows : int
    budget : Budget
    found : {"rows", "epsilon"}
        Which of the two was looked for.
    planned : PlannedFit
        Its ``summary()``, ``plot()`` and ``plan`` are those of a fit of that size.
    """

    n_rows: int
    budget: Budget
    found: str
    planned: PlannedFit

    @property
    def answer(self) -> str:
        """What was looked for, in words."""
        rows = rows_in_words(self.n_rows, self.planned.plan.unit)
        return f"Needed: {rows if self.found == 'rows' else f'epsilon = {self.budget.epsilon:.3g}'}"

    def __str__(self) -> str:
        return f"{self.answer}\n{self.planned}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.planned.summary().as_html()


def rows_needed(rehearsal: Rehearsal, options: FitOptions, wanted: Wanted) -> SampleSize:
    """Return the fewest rows, to about 1 %, with which the forecast of their plan meets the target.

    Raises
    ------
    Incompatible
        If a billion rows do not suffice.
    """
    smallest = 2 * len(rehearsal.encoder.design.reported_names)

    def rows(log_rows: float) -> int:
        return min(max(math.ceil(_round_up(math.exp(log_rows))), smallest), MOST_SOUGHT)

    @cache
    def forecast(n_rows: int, rehearsals: int | None) -> Forecast:
        return _forecast(rehearsal, options, n_rows, rehearsals)

    def meets(log_rows: float, rehearsals: int | None) -> bool:
        return wanted.met_by(forecast(rows(log_rows), rehearsals))

    wanted.targets(rehearsal.encoder.design.reported_names)
    log_rows = _sought(meets, math.log(smallest), math.log(MOST_SOUGHT), start=math.log(10_000.0))
    if log_rows is None:
        raise Incompatible("width or power: a billion rows do not suffice; ask for less, or give more budget")
    n_rows = rows(log_rows)
    planned = described(
        rehearsal, options, n_rows=n_rows, level=wanted.level, forecast=forecast(n_rows, None)
    )
    return SampleSize(n_rows, options.budget, "rows", planned)


def epsilon_needed(
    rehearsal: Rehearsal,
    options: FitOptions,
    wanted: Wanted,
    *,
    n_rows: int,
) -> SampleSize:
    """Return the smallest epsilon, to about 1 %, with which the plan of ``n_rows`` rows meets the target.

    Raises
    ------
    Incompatible
        If even a budget of 64 does not suffice: the sampling variation alone is too large.
    """
    delta = options.budget.delta

    def with_epsilon(log_epsilon: float) -> FitOptions:
        epsilon = min(_round_up(math.exp(log_epsilon)), MOST_EPSILON)
        return replace(options, budget=Budget(epsilon, delta))

    @cache
    def forecast(log_epsilon: float, rehearsals: int | None) -> Forecast:
        return _forecast(rehearsal, with_epsilon(log_epsilon), n_rows, rehearsals)

    def meets(log_epsilon: float, rehearsals: int | None) -> bool:
        return wanted.met_by(forecast(log_epsilon, rehearsals))

    wanted.targets(rehearsal.encoder.design.reported_names)
    found = _sought(meets, math.log(1e-3), math.log(MOST_EPSILON), start=0.0)
    if found is None:
        raise Incompatible(
            f"width or power: with {n_rows} rows no budget up to epsilon {MOST_EPSILON:g} suffices, as "
            "sampling varies too much; plan more rows"
        )
    chosen = with_epsilon(found)
    planned = described(rehearsal, chosen, n_rows=n_rows, level=wanted.level, forecast=forecast(found, None))
    return SampleSize(n_rows, chosen.budget, "epsilon", planned)


@dataclass(frozen=True, slots=True)
class AccuracyPlan:
    """What a wanted excess risk of constrained empirical risk minimisation needs.

    Parameters
    ----------
    accuracy : float
        Bound on the expected excess risk over the ball, in units of the loss.
    n_steps : int
        Iterations ``T = 4 R**2 C**2 / accuracy**2``.
    n_rows : int
        Rows ``n = 4 R C sqrt(q) / (accuracy mu)``; for a pure budget, or ``add_remove``, see
        `ProjectedNoisyGradientDescent.rows_for`.
    radius : float
        ``R``, of the ball in encoded coordinates.
    gradient_bound : float
        ``C``, of a row's gradient there.
    solver : ProjectedNoisyGradientDescent
        What to give to a fit as ``solver=``, with ``inference=False``.
    """

    accuracy: float
    n_steps: int
    n_rows: int
    radius: float
    gradient_bound: float
    solver: ProjectedNoisyGradientDescent


def accuracy_plan(
    model: Model, encoder: AbstractEncoder, options: FitOptions, *, accuracy: float, radius: float | None
) -> AccuracyPlan:
    """Return steps and rows for an expected excess risk of ``accuracy``, see `AccuracyPlan`.

    Parameters
    ----------
    model : Model
    encoder : AbstractEncoder
    options : FitOptions
        Its budget, relation and ridge.
    accuracy : float
    radius : float, optional
        Of the ball in encoded coordinates.
    """
    solver = ProjectedNoisyGradientDescent(radius=radius)
    chosen = replace(options, solver=solver, inference=False, n_rows=None)
    problem = make_problem(model, encoder.design, chosen, n_rows=MOST_SOUGHT)
    n_steps = solver.steps_for(accuracy, problem)
    ball = solver.ball(problem)
    return AccuracyPlan(
        accuracy=accuracy,
        n_steps=n_steps,
        n_rows=solver.rows_for(accuracy, problem, Allowance.of(options.budget)),
        radius=ball,
        gradient_bound=problem.ridged_gradient_bound(ball),
        solver=replace(solver, n_steps=n_steps),
    )


def _forecast(rehearsal: Rehearsal, options: FitOptions, n_rows: int, rehearsals: int | None) -> Forecast:
    """Return the forecast; that of no finite interval where the rows are too few by a public rule."""
    try:
        return rehearsal.forecast(options, n_rows=n_rows, rehearsals=rehearsals)
    except TooLittleData:
        return Forecast.of(rehearsal.encoder.design.reported_names, [None])


def _sought(
    meets: Callable[[float, int | None], bool], low: float, high: float, *, start: float
) -> float | None:
    """Return the least point in [low, high], to `_TOLERANCE`, where the forecast of a plan is good enough.

    None if it is nowhere. A search by few rehearsals only says where to begin: of eight fits, six may have a
    finite interval where half of all have.
    """
    rough = _least(
        lambda at: meets(at, _SEARCH_REHEARSALS), low, high, start=start, stride=_FAR, tolerance=_NEAR
    )
    return _least(
        lambda at: meets(at, None),
        low,
        high,
        start=high if rough is None else rough,
        stride=_FAR if rough is None else _NEAR,  # chance may hide a place that is far from the end
        tolerance=_TOLERANCE,
    )


def _least(
    meets: Callable[[float], bool], low: float, high: float, *, start: float, stride: float, tolerance: float
) -> float | None:
    """Return the least point in [low, high] from which on a target is met, None if it is met nowhere.

    Brackets by strides from ``start``, then halves the bracket.
    """
    at = min(max(start, low), high)
    met = meets(at)
    while at > low if met else at < high:
        following = min(max(at - stride if met else at + stride, low), high)
        if meets(following) != met:
            bad, good = (following, at) if met else (at, following)
            return _narrowed(meets, bad, good, tolerance)
        at = following
    return at if met else None


def _narrowed(meets: Callable[[float], bool], bad: float, good: float, tolerance: float) -> float:
    """Return the good end of a bracket, narrowed to ``tolerance``."""
    while good - bad > tolerance:
        middle = 0.5 * (bad + good)
        bad, good = (bad, middle) if meets(middle) else (middle, good)
    return good


def _round_up(value: float) -> float:
    """Return the least number with three significant digits that is not below ``value``."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.12g}")  # what rounding adds is not rounded up
