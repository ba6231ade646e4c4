"""How many gradients lead to the optimum, what each may cost, and how many of the rows each asks."""

import math
from dataclasses import dataclass

from privfit.problem.objective import Problem
from privfit.problem.schedule import growing_shares
from privfit.solvers.base import noise_norm

_LEAST_ROWS = 20_000.0
"""Rows that lead the way at least."""

_ROWS_A_COLUMN = 1000.0
"""Rows that lead the way, for a column: their Hessian is then within some six percent of that of all."""

_FOR_STEPS, _FOR_MOMENT = 300.0, 40.0
"""Rows that lead the way, times mu, for a column and for the power 3/2 of their number: what noise asks."""

_LARGEST_PART, _LARGEST_OF_MATRICES = 0.5, 0.6
"""Parts of the rows beyond which a sample of them is not worth its copy: one that leads the way, and one that
matrices come from, which take longer for a row."""

_FOR_LONG_ROWS = 100.0
"""Rows that lead the way, times mu, for each unit of the largest squared norm of standardised rows, so that
noise does not move predictions for the longest rows far."""

_LED_STEPS, _FINAL_STEPS, _LATE_STEPS = 6, 4, 3

_LED_SHARE = 0.08
"""Part of the squared budget of the gradients that those of the sample have."""

_FINAL_GROWTH = 2.5
"""Ratio of the squared budgets of a step of all rows and of the one before."""

_GROWTHS, _GROWTH_OF_SIGNAL = (36.0, 250.0), 0.1
"""Limits of `usual_growth`, and what it is for each unit of the signal."""

_ROWS_A_NORM = 400.0
"""Rows of the sample that matrices are found from, for each unit of the largest squared norm: a variance is
then known to five percent even along the longest rows."""

_LEAST_NUMBERS = 2.0**23
"""Numbers that the sample of the matrices holds at least: fewer would save little."""

_BREAD_NOISE, _MEAT_NOISE = 0.15, 0.1
"""Noise that a sample may lead to: the spectral norm of the bread's, and the standard deviation of that in a
diagonal entry of the meat, relative to their eigenvalues. Standard errors are then known to five percent."""


def usual_growth(problem: Problem, mu: float) -> float:
    """Return how much the squared budget of steps grows from before the first to the last.

    Little where noise is large beside what the first steps have to find, as is a residual scale.
    """
    if problem.loss.has_scale:
        return _GROWTHS[0]
    least, most = _GROWTHS
    return min(max(_GROWTH_OF_SIGNAL * problem.n_rows * mu, least), most)


@dataclass(frozen=True, slots=True)
class Course:
    """The gradients of a fit, from public facts.

    Parameters
    ----------
    leading, arriving : tuple of float
        Parts of the squared budget of the gradients that each costs, before and after the coordinates are
        turned.
    n_late : int
        Number of last gradients that the estimate is made of.
    sample : tuple of float or None
        Parts of the rows that may lead the way, as noise allows it: whatever the rows, and for each unit of
        the largest squared norm of standardised ones. None if all do.

    Notes
    -----
    What leads the way need not be exact. Where the rows are so many that a sample of them shows the geometry
    and the neighbourhood of the optimum through the noise, which is as much larger as the sample is
    smaller, a pass over all rows is saved with every gradient. Those that follow ask all rows. They start so
    near to the optimum that, if a bread follows, no Hessian need be released for their steps: the model of
    it, corrected by what they say, leads near enough, and the bread, asked for there, has the last word.
    """

    leading: tuple[float, ...]
    arriving: tuple[float, ...]
    n_late: int
    sample: tuple[float, float] | None = None

    @classmethod
    def even(cls, n_steps: int, growth: float) -> "Course":
        """Return one in which all gradients ask all rows, and n steps grow by the n-th root of ``growth``."""
        shares, half = growing_shares(n_steps, growth ** (1.0 / n_steps)), n_steps // 2
        return cls(shares[:half], shares[half:], n_steps - half)

    @classmethod
    def sampled(cls, problem: Problem, mu: float) -> "Course":
        """Return one in which a sample of the rows leads the way, as large as noise asks.

        Parameters
        ----------
        problem : Problem
        mu : float
            Signal of the solver's budget.
        """
        final = growing_shares(_FINAL_STEPS, _FINAL_GROWTH)
        p, n, of_slope = problem.n_coef, problem.n_linear, problem.loss.slack[0]
        for_noise = max(_FOR_STEPS * n * of_slope, _FOR_MOMENT * p**1.5) / mu
        rows = max(_LEAST_ROWS, _ROWS_A_COLUMN * n, for_noise)
        alone = problem.shares.plain and math.isfinite(mu) and not _far_levels(problem)
        return cls(
            (_LED_SHARE / _LED_STEPS,) * _LED_STEPS,
            tuple((1.0 - _LED_SHARE) * share for share in final),
            _LATE_STEPS,
            (rows / problem.n_rows if alone else 1.0, _FOR_LONG_ROWS / (mu * problem.n_rows)),
        )

    @property
    def samples(self) -> bool:
        """Whether a sample of the rows leads the way, if they allow it."""
        return self.sample is not None

    @property
    def looks(self) -> int:
        """Looks at the norms of rows: where a sample leads the way, its rows are not looked at once more."""
        return 2 if self.samples else 3

    @property
    def shares(self) -> tuple[float, ...]:
        """Parts of the squared budget, in the order in which gradients are asked."""
        return self.leading + self.arriving

    def leading_part(self, longest: float) -> float:
        """Return the part of the rows that leads the way; 1 where it would be nearly all.

        ``longest`` is the largest squared norm of standardised rows.
        """
        if self.sample is None:
            return 1.0
        part = max(self.sample[0], self.sample[1] * longest)
        return part if part <= _LARGEST_PART else 1.0


def _far_levels(problem: Problem) -> bool:
    """Return whether levels may be so far from others that few steps by a model do not lead to theirs.

    Rows of numbers have no curvature beyond a bound, or a width of smoothing, until steps are near. Where
    counts and labels are so far `privfit.solvers.far_levels` goes on.
    """
    return problem.has_levels and problem.loss.target_kind == "numeric"


@dataclass(frozen=True, slots=True)
class Matrices:
    """What is expected of the Hessian and the meat before a row is asked for them, in one unit.

    Parameters
    ----------
    squared_norm : float
        That of the longest rows, relative to the mean square of a coordinate.
    bread, meat : float
        Mean eigenvalues.
    bread_noise, meat_noise : float
        Standard deviations of the noise in a diagonal entry, if all rows are asked.
    size : int
        Number of rows of the matrices.
    """

    squared_norm: float
    bread: float
    meat: float
    bread_noise: float
    meat_noise: float
    size: int

    def part(self, n_rows: int) -> float:
        """Return the part of ``n_rows`` rows that they may be found from; 1 where that is nearly all."""
        for_bread = noise_norm(self.bread_noise, self.size) / (_BREAD_NOISE * self.bread)
        for_meat = self.meat_noise / (_MEAT_NOISE * max(self.meat, 1e-300))
        rows = max(_ROWS_A_NORM * self.squared_norm, _LEAST_NUMBERS / self.size)
        part = max(rows / n_rows, for_bread, for_meat)
        return part if part <= _LARGEST_OF_MATRICES else 1.0
