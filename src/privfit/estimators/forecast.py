"""What a plan will buy, by rehearsals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import roots_legendre

from privfit._checks import FloatArray
from privfit.inference.wald import critical_value, interval
from privfit.problem.objective import Problem
from privfit.problem.plan import Plan
from privfit.results import FitResult

FEWEST_REHEARSALS = 16
"""Fits of the stand-in rows that make a forecast; its own error is about a third of a fit's."""

MOST_REHEARSALS = 96
"""Those with few rows and few coefficients, whose widths differ most from fit to fit."""

_MANY_ROWS, _MANY_COEFFICIENTS, _MANY_RELEASES = 10_000, 30, 400
"""Numbers from which `FEWEST_REHEARSALS` suffice, or take the time that a plan may take."""

_SCALES = 200
"""Values of the estimated scale that stand for all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """The uncertainty that a fit is expected to report, from rehearsals.

    Parameters
    ----------
    names : tuple of str
        Labels of the k reported coefficients.
    se : array of shape (r, k)
        Reported standard errors, in the reported units; ``inf`` where the noise left no usable one. NaN
        without inference.
    noise_shares : array of shape (r, k)
        Share of each squared standard error that is privacy noise.
    dof : array of shape (r, k)
        Degrees of freedom of its t reference.
    """

    names: tuple[str, ...]
    se: FloatArray
    noise_shares: FloatArray
    dof: FloatArray

    @classmethod
    def of(
        cls, names: tuple[str, ...], results: Sequence[FitResult | None], sampling: float = 1.0
    ) -> "Forecast":
        """Return the forecast that fits of stand-in rows amount to; None stands for one that is refused.

        ``sampling`` is the sampling variance of those that they stand for, relative to theirs.
        """
        refused = tuple(np.full(len(names), value) for value in (math.inf, 1.0, math.inf))
        found = np.array(
            [refused if one is None else (one.bse, one.noise_share, one.dof) for one in results],
            dtype=np.float64,
        )
        se, noise_shares, dof = found.transpose(1, 0, 2)
        part = noise_shares + (1.0 - noise_shares) * sampling
        return cls(names, se * np.sqrt(part), noise_shares / part, dof)

    @classmethod
    def unknown(cls, names: tuple[str, ...]) -> "Forecast":
        """Return that of fits that report no standard errors."""
        return cls(names, *np.full((3, 1, len(names)), math.nan))

    @property
    def known(self) -> bool:
        """False for a fit without inference, which reports no standard errors."""
        return not bool(np.isnan(self.se).all())

    @property
    def finite(self) -> FloatArray:
        """Share of the rehearsals with a finite interval, shape (k,)."""
        return np.isfinite(self._widths(0.95)).mean(axis=0)

    @property
    def sampling(self) -> FloatArray:
        """Median standard deviation from sampling, shape (k,); ``inf`` where no interval is finite."""
        return self._typical_root(1.0 - self.noise_shares)

    @property
    def noise(self) -> FloatArray:
        """Median standard deviation from privacy noise, shape (k,); ``inf`` where no interval is finite."""
        return self._typical_root(self.noise_shares)

    @property
    def noise_share(self) -> FloatArray:
        """Expected share of the squared standard error that is privacy noise, shape (k,)."""
        with np.errstate(invalid="ignore"):
            share = self.noise**2 / (self.noise**2 + self.sampling**2)
        return np.where(np.isinf(self.noise), 1.0, share)

    def width(self, level: float = 0.95) -> FloatArray:
        """Return the median width of the finite confidence intervals, shape (k,); ``inf`` if none is.

        Where rows are few, one fit in a hundred may have an interval ten times as wide and decide the mean.
        """
        return _median_of_finite(self._widths(level))

    def information(self, level: float) -> FloatArray:
        """Return the expected inverse square of the intervals' widths, shape (k,); infinite ones add 0.

        0 where fewer than half are finite: the few that are, are a selection of lucky ones.
        """
        inverse = self._widths(level) ** -2.0
        return np.where(np.median(inverse, axis=0) > 0.0, np.mean(inverse, axis=0), 0.0)

    def power(self, effect: float | FloatArray, level: float = 0.95) -> FloatArray:
        """Return the expected probability that a coefficient of size ``effect`` is found not to be 0.

        Parameters
        ----------
        effect : float or array of shape (k,)
            Coefficient, in the reported units: one for all, or each its own.
        level : float
            1 minus the size of the two-sided test.

        Returns
        -------
        array of shape (k,)
            Mean over the rehearsals of the power of a t test; 0 in those without a finite interval.
        """
        critical = critical_value(level, self.dof)
        usable = np.isfinite(self.se) & np.isfinite(critical)
        shift = np.where(usable, np.abs(effect) / np.where(usable, self.se, 1.0), 0.0)
        found = t_test_power(shift, np.where(usable, critical, 1.0), self.dof)
        return np.where(usable, found, 0.0).mean(axis=0)

    def _widths(self, level: float) -> FloatArray:
        lower, upper = interval(np.zeros(self.se.shape), self.se, level, self.dof)
        return np.where(np.isnan(self.se), math.nan, upper - lower)

    def _typical_root(self, shares: FloatArray) -> FloatArray:
        """Return the root of the median of these shares of the squared standard errors, where finite."""
        finite = np.isfinite(self._widths(0.95))
        squares = np.where(finite, self.se, 1.0) ** 2 * shares
        return np.sqrt(_median_of_finite(np.where(finite, squares, self.se)))


def t_test_power(shift: FloatArray, critical: FloatArray, dof: FloatArray) -> FloatArray:
    """Return the chance that ``abs((z + shift) / s)`` exceeds ``critical``, each of one shape.

    Notes
    -----
    ``z`` is standard normal and ``dof * s**2`` chi-squared, so it is the tail of a non-central t, the mean
    over ``s`` of normal tails, by Gauss's rule in the chance of ``s``: `scipy.stats.nct` returns NaN for
    some arguments of common size.
    """
    nodes, weights = roots_legendre(_SCALES)
    dof = np.where(np.isfinite(dof), dof, 1e12)[..., None]
    edge = critical[..., None] * np.sqrt(stats.chi2.ppf(0.5 * (nodes + 1.0), dof) / dof)
    tails = stats.norm.sf(edge - shift[..., None]) + stats.norm.cdf(-edge - shift[..., None])
    return np.minimum(tails @ (0.5 * weights), 1.0)


def _median_of_finite(values: FloatArray) -> FloatArray:
    """Return the median of the finite entries of each column: ``inf`` if none is, NaN if all are NaN."""
    columns = [column[np.isfinite(column)] for column in values.T]
    none = np.where(np.isnan(values).all(axis=0), math.nan, math.inf)
    return np.array([np.median(found) if found.size else none[k] for k, found in enumerate(columns)])


def enough_rehearsals(problem: Problem, plan: Plan) -> int:
    """Return how many fits make the forecast of a plan.

    Notes
    -----
    Where rows are few, noise decides the widths, and they differ from fit to fit, the more so the fewer
    coefficients tell how large the noise was. Many coefficients or releases take longer.
    """
    wanted = FEWEST_REHEARSALS * min(
        _MANY_ROWS / problem.n_rows, _MANY_COEFFICIENTS / problem.size, _MANY_RELEASES / len(plan.releases)
    )
    return min(max(FEWEST_REHEARSALS, int(wanted)), MOST_REHEARSALS)
