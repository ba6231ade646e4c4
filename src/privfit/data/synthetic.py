"""Simulated tables with known coefficients, for demonstrations, tests and experiments. No real person."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtr, softmax

from privfit._checks import FloatArray, in_range, one_of, positive, whole
from privfit.data.schema import Schema

CensusTarget: TypeAlias = Literal["income_over_50k", "hourly_wage"]
DesignName: TypeAlias = Literal["normal", "uniform", "arcsine", "student", "binary"]
NoiseName: TypeAlias = Literal["normal", "laplace", "student"]

CensusTable: TypeAlias = dict[str, NDArray[Any]]

_STUDENT_DF = 3.0
_WAGE_SD = 0.45


@dataclass(frozen=True, slots=True)
class _Factor:
    """A categorical column: share of each level, and its effects relative to the first level."""

    levels: tuple[str, ...]
    shares: tuple[float, ...]
    income: tuple[float, ...]
    wage: tuple[float, ...]


_FACTORS: Mapping[str, _Factor] = MappingProxyType(
    {
        "sex": _Factor(("Female", "Male"), (0.49, 0.51), (0.0, 0.35), (0.0, 0.12)),
        "education": _Factor(
            ("No diploma", "High school", "Some college", "Bachelor", "Master", "Doctorate"),
            (0.12, 0.31, 0.27, 0.19, 0.09, 0.02),
            (0.0, 0.60, 1.00, 1.75, 2.20, 2.70),
            (0.0, 0.15, 0.25, 0.50, 0.65, 0.80),
        ),
        "marital_status": _Factor(
            ("Never married", "Married", "Divorced", "Widowed"),
            (0.31, 0.50, 0.14, 0.05),
            (0.0, 1.40, 0.25, 0.10),
            (0.0, 0.10, 0.03, 0.0),
        ),
        "occupation": _Factor(
            ("Service", "Clerical", "Craft", "Sales", "Professional", "Manager", "?"),
            (0.20, 0.16, 0.18, 0.13, 0.16, 0.13, 0.04),
            (0.0, 0.30, 0.45, 0.50, 1.00, 1.20, 0.10),
            (0.0, 0.06, 0.12, 0.10, 0.28, 0.32, 0.02),
        ),
        "region": _Factor(
            ("South", "Midwest", "Northeast", "West"),
            (0.37, 0.21, 0.18, 0.24),
            (0.0, 0.10, 0.25, 0.20),
            (0.0, 0.02, 0.10, 0.08),
        ),
    }
)
_NUMBERS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "Intercept": (-7.2, 2.05),
        "age": (0.030, 0.006),
        "hours_per_week": (0.035, 0.001),
        "log1p(capital_gain)": (0.22, 0.015),
    }
)
"""Effects of the numeric columns on the log-odds of a high income and on the logarithm of the wage."""


def census(n_rows: int, seed: int, *, clean: bool = False) -> CensusTable:
    """Simulate a table like a census extract.

    Parameters
    ----------
    n_rows : int
        Number of people.
    seed : int
        The same seed gives the same table.
    clean : bool
        Leave out the blemishes that `census` plants after the outcomes are drawn: ages of 999 and hours
        of -1 in about 1 of 500 rows each, blank regions in about 1 of 200, capital gains above the bound.

    Returns
    -------
    dict of str to array of shape (n_rows,)
        ``age`` (years), ``sex``, ``education``, ``marital_status``, ``occupation`` (with the code ``?``),
        ``hours_per_week``, ``region``, ``capital_gain`` (dollars), ``income_over_50k`` (``no``/``yes``) and
        ``hourly_wage`` (dollars). ``pandas.DataFrame`` takes it as it is.
    """
    n_rows = whole(n_rows=n_rows)
    rng = np.random.default_rng(seed)
    age = np.clip(np.round(17 + rng.gamma(2.4, 9.5, n_rows)), 17, 90)
    hours = np.clip(np.round(40 + 11 * rng.standard_t(4, n_rows)), 1, 99)
    gain = np.where(rng.random(n_rows) < 0.09, np.round(np.exp(rng.normal(8.4, 1.1, n_rows))), 0.0)
    gain = np.minimum(gain, 100_000.0)
    table: CensusTable = {"age": age, "hours_per_week": hours, "capital_gain": gain}
    codes = {name: _draw_levels(rng, factor, age, n_rows) for name, factor in _FACTORS.items()}
    numbers = {"age": age, "hours_per_week": hours, "log1p(capital_gain)": np.log1p(gain)}
    odds, log_wage = (_linear_predictor(numbers, codes, k) for k in (0, 1))
    high = rng.random(n_rows) < expit(odds)
    wage = np.exp(log_wage + _WAGE_SD * rng.standard_normal(n_rows))
    for name, factor in _FACTORS.items():
        table[name] = np.array(factor.levels, dtype=object)[codes[name]]
    table["income_over_50k"] = np.array(["no", "yes"], dtype=object)[high.astype(int)]
    table["hourly_wage"] = np.round(wage, 2)
    return table if clean else _blemished(table, rng)


def census_schema(target: CensusTarget = "income_over_50k") -> Schema:
    """Return the public declaration of `census` for one of its two outcomes; the other is left out."""
    one_of(("income_over_50k", "hourly_wage"), target=target)
    columns: dict[str, Any] = {
        "age": {"type": "numeric", "lower": 17, "upper": 90},
        "hours_per_week": {"type": "numeric", "lower": 1, "upper": 99},
        "capital_gain": {"type": "numeric", "lower": 0, "upper": 100_000, "transform": "log1p"},
    }
    for name, factor in _FACTORS.items():
        columns[name] = {"type": "categorical", "levels": list(factor.levels)}
    columns["occupation"]["missing"] = "?"
    if target == "income_over_50k":
        columns[target] = {"type": "categorical", "levels": ["no", "yes"], "target": True}
    else:
        wage = {"type": "numeric", "lower": 2, "upper": 250, "transform": "log", "target": True}
        columns[target] = wage
    return Schema(columns)


def census_coefficients(target: CensusTarget = "income_over_50k") -> dict[str, float]:
    """Return the coefficients behind `census`, in raw units, in the order and names of its design.

    For ``income_over_50k`` they act on the log-odds, for ``hourly_wage`` on the logarithm of dollars an
    hour, whose errors are normal with standard deviation 0.45.
    """
    which = ("income_over_50k", "hourly_wage").index(
        one_of(("income_over_50k", "hourly_wage"), target=target)
    )
    effects = {name: pair[which] for name, pair in _NUMBERS.items()}
    order = ("Intercept", "age", "hours_per_week", "log1p(capital_gain)")
    truth = {name: effects[name] for name in order}
    for name, factor in _FACTORS.items():
        steps = (factor.income, factor.wage)[which]
        pairs = zip(factor.levels[1:], steps[1:], strict=True)
        truth |= {f"{name}[T.{level}]": step for level, step in pairs}
    return truth


def linear_model(
    n: int,
    beta: ArrayLike,
    *,
    intercept: float = 0.0,
    noise_sd: float = 1.0,
    noise: NoiseName = "normal",
    design: DesignName = "normal",
    correlation: float = 0.0,
    seed: int,
) -> tuple[FloatArray, FloatArray]:
    """Simulate ``y = intercept + X @ beta + error``.

    Parameters
    ----------
    n : int
        Number of rows.
    beta : array of shape (p,)
        Slopes.
    intercept, noise_sd : float
        In the unit of y.
    noise : {"normal", "laplace", "student"}
        Law of the error, scaled to standard deviation ``noise_sd``; Student's t has 3 degrees of freedom.
    design : {"normal", "uniform", "arcsine", "student", "binary"}
        Law of each column of X: standard normal; uniform or Beta(1/2, 1/2) on [-1, 1]; Student's t with 3
        degrees of freedom; -1 or 1.
    correlation : float
        Correlation of any two columns in the underlying normal vector, in [0, 1).
    seed : int
        The same seed gives the same sample.

    Returns
    -------
    X : array of shape (n, p)
        Without a constant column.
    y : array of shape (n,)
    """
    rng, x, mean = _simulated_design(
        n, beta, intercept=intercept, design=design, correlation=correlation, seed=seed
    )
    positive(noise_sd=noise_sd)
    one_of(("normal", "laplace", "student"), noise=noise)
    if noise == "normal":
        error = rng.standard_normal(n)
    elif noise == "laplace":
        error = rng.laplace(scale=np.sqrt(0.5), size=n)
    else:
        error = rng.standard_t(_STUDENT_DF, n) / np.sqrt(_STUDENT_DF / (_STUDENT_DF - 2))
    return x, mean + noise_sd * error


def logistic_model(
    n: int,
    beta: ArrayLike,
    *,
    intercept: float = 0.0,
    design: DesignName = "normal",
    seed: int,
) -> tuple[FloatArray, FloatArray]:
    """Simulate labels 0/1 with log-odds ``intercept + X @ beta``; parameters as in `linear_model`."""
    rng, x, mean = _simulated_design(n, beta, intercept=intercept, design=design, seed=seed)
    return x, (rng.random(n) < expit(mean)).astype(np.float64)


def multinomial_model(
    n: int,
    beta: ArrayLike,
    *,
    intercept: ArrayLike = 0.0,
    design: DesignName = "normal",
    seed: int,
) -> tuple[FloatArray, FloatArray]:
    """Simulate labels 0 to K - 1 by a multinomial logit; other parameters as in `linear_model`.

    Parameters
    ----------
    beta : array of shape (K - 1, k)
        Log-odds of classes 1 to K - 1 against class 0, a row each.
    intercept : float or array of shape (K - 1,)
    """
    slopes = np.atleast_2d(np.asarray(beta, dtype=np.float64))
    rng, x, _ = _simulated_design(n, np.zeros(slopes.shape[1]), intercept=0.0, design=design, seed=seed)
    odds = x @ slopes.T + np.asarray(intercept, dtype=np.float64)
    chances = softmax(np.column_stack([np.zeros(n), odds]), axis=1)
    return x, (rng.random((n, 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1).astype(np.float64)


def _simulated_design(
    n: int, beta: ArrayLike, *, intercept: float, design: str, correlation: float = 0.0, seed: int
) -> tuple[np.random.Generator, FloatArray, FloatArray]:
    slopes = np.atleast_1d(np.asarray(beta, dtype=np.float64))
    one_of(("normal", "uniform", "arcsine", "student", "binary"), design=design)
    in_range(0.0, 1.0, closed="left", correlation=correlation)
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((whole(n=n), 1))
    own = rng.standard_normal((n, slopes.size))
    z = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own
    if design == "uniform":
        z = 2.0 * ndtr(z) - 1.0
    elif design == "arcsine":
        z = np.sin(np.pi * (ndtr(z) - 0.5))
    elif design == "student":
        z /= np.sqrt(rng.chisquare(_STUDENT_DF, (n, 1)) / _STUDENT_DF)
    elif design == "binary":
        z = np.where(z > 0, 1.0, -1.0)
    return rng, z, intercept + z @ slopes


def _draw_levels(
    rng: np.random.Generator, factor: _Factor, age: FloatArray, n_rows: int
) -> NDArray[np.int64]:
    """Draw level codes; the young are more often in the first level of marital status."""
    codes = rng.choice(len(factor.levels), size=n_rows, p=factor.shares)
    if "Never married" in factor.levels:
        codes[(age < 25) & (rng.random(n_rows) < 0.6)] = 0
    return codes


def _linear_predictor(
    numbers: Mapping[str, FloatArray], codes: Mapping[str, NDArray[np.int64]], which: int
) -> FloatArray:
    total = np.full(next(iter(numbers.values())).size, _NUMBERS["Intercept"][which])
    for name, values in numbers.items():
        total += _NUMBERS[name][which] * values
    for name, factor in _FACTORS.items():
        steps: Sequence[float] = (factor.income, factor.wage)[which]
        total += np.array(steps)[codes[name]]
    return total


def _blemished(table: CensusTable, rng: np.random.Generator) -> CensusTable:
    n_rows = table["age"].size
    plants = (("age", 999.0, 1 / 500), ("hours_per_week", -1.0, 1 / 500), ("region", "", 1 / 200))
    for name, value, share in plants:
        table[name][rng.random(n_rows) < share] = value
    large = table["capital_gain"] > 50_000
    table["capital_gain"][large] *= 3
    return table
