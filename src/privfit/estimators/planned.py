"""A plan with its forecast, as table and plot."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pandas as pd

from privfit._checks import coverage, in_range, whole
from privfit.data.source import MOST_ROWS
from privfit.errors import InvalidArgument
from privfit.estimators.counting import counting_in_words, spread_in_words
from privfit.estimators.forecast import Forecast
from privfit.estimators.options import FitOptions
from privfit.estimators.rehearsal import Rehearsal
from privfit.planning import Purpose, budget_split
from privfit.problem.plan import Plan
from privfit.results.coefficient_plot import need_matplotlib
from privfit.results.numbers import confidence, percent, significant
from privfit.results.printer import Column
from privfit.results.statement import PrivacyStatement
from privfit.results.summary import AbstractTable, Summary, rows_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RARE = 0.95
"""Share of rehearsals with a finite interval below which a table says so."""


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PlannedFit(AbstractTable):
    """What a fit would ask, spend and buy. No data were read, and nothing is spent.

    Parameters
    ----------
    model, target : str
        Title of the model, name of the response.
    plan : Plan
        Every release of the fit.
    statement : PrivacyStatement
        What it would promise.
    forecast : Forecast
        What it is expected to report.
    assumptions : str
        What the forecast rests on.
    level : float
        Coverage of the intervals.
    """

    model: str
    target: str
    plan: Plan
    statement: PrivacyStatement
    forecast: Forecast
    assumptions: str
    level: float

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.plan.n_rows

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the coefficients."""
        return self.forecast.names

    @property
    def width(self) -> pd.Series:
        """Expected width of each coefficient's interval; ``inf`` where none is finite."""
        return pd.Series(self.forecast.width(self.level), index=list(self.names), name="width")

    @property
    def budget_split(self) -> dict[Purpose, float]:
        """Part of the squared budget (of epsilon, for a pure one) that each purpose has.

        NaN, and no line of a summary, where a release costs neither a mu nor a pure epsilon.
        """
        return budget_split(self.plan)

    def power(self, effect: float | Mapping[str, float]) -> pd.Series:
        """Return the expected probability that a test finds a coefficient of this size.

        Parameters
        ----------
        effect : float or mapping
            Size in reported units: of each coefficient, or by name, for those alone.
        """
        given = effect if isinstance(effect, Mapping) else dict.fromkeys(self.names, effect)
        places = [position(name, self.names) for name in given]
        sizes = np.zeros(len(self.names))
        sizes[places] = [in_range(-math.inf, math.inf, effect=size) for size in given.values()]
        return pd.Series(self.forecast.power(sizes, self.level)[places], index=list(given), name="power")

    def table(self) -> pd.DataFrame:
        """Return the forecast, one row per coefficient.

        Columns: ``sampling`` and ``noise`` (expected standard deviations), ``width``, ``noise_share`` of the
        squared standard error, and ``finite``, the probability that the interval is finite.
        """
        f = self.forecast
        columns = {
            "sampling": f.sampling,
            "noise": f.noise,
            "width": f.width(self.level),
            "noise_share": f.noise_share,
            "finite": f.finite if f.known else np.full(len(self.names), math.nan),
        }
        return pd.DataFrame(columns, index=list(self.names))

    def summary(self) -> Summary:
        """Return the forecast for print or notebook."""
        table = self.table()
        return Summary(
            title="Expected intervals",
            mark=None,
            header=self._header(),
            columns=(
                Column("sampling sd", "significant"),
                Column("noise sd", "significant"),
                Column(f"{confidence(self.level)}% width", "significant"),
                Column("noise %", "percent"),
                Column("finite %", "percent"),
            ),
            rows=rows_of(self.names, table),
            footers=self._footers(table),
        )

    def plot(self) -> "Figure":
        """Return a Matplotlib figure of each interval's width, relative to one without privacy noise."""
        need_matplotlib()
        from privfit.estimators.plan_plot import draw  # noqa: PLC0415 -- Matplotlib is slow and optional

        counted = rows_in_words(self.n_rows, self.plan.unit)
        return draw(self.table(), title=f"{self.model} of {self.target}, {counted}", level=self.level)

    def _header(self) -> tuple[tuple[str, str], ...]:
        parts = self.budget_split
        split = ", ".join(f"{name} {percent(part)} %" for name, part in parts.items() if part)
        known = not any(map(math.isnan, parts.values()))
        return (
            ("Model", self.model),
            ("Dep. variable", self.target),
            ("No. rows" if self.plan.unit is None else "No. units", str(self.n_rows)),
            ("Method", self.plan.solver),
            ("Privacy", self.statement.guarantee),
            *([("Budget", split)] if known else ()),
        )

    def _footers(self, table: pd.DataFrame) -> tuple[str, ...]:
        caution = self.statement.caution(self.n_rows)
        notes = [] if caution is None else [caution]
        if not self.forecast.known:
            unknown = "Unknown: without inference a fit buys no standard errors, so there are none to expect."
            return (unknown, *notes)
        notes = [
            "Standard deviation of each coefficient from sampling and from privacy noise, in the "
            f"units of the raw columns; width of its {confidence(self.level)}% interval, Student's t "
            "included; noise %: share of the squared standard error that is noise; finite %: how often the "
            "budget will suffice for an interval. No data were read.",
            f"Assumed: {self.assumptions}. Shown are medians of {len(self.forecast.se)} fits of simulated "
            "rows, with the planned noise.",
            *notes,
        ]
        if (table["finite"] < RARE).any():
            notes.append(
                "Where finite % is low, noise is likely to hide the coefficient altogether: plan more rows "
                "or a larger budget."
            )
        return tuple(notes)


def rows_in_words(n_rows: int, unit: str | None) -> str:
    """Return a number of rows, or of privacy units where one may have several."""
    return f"{n_rows:,} {'rows' if unit is None else 'units'}"


def position(name: str, names: tuple[str, ...]) -> int:
    """Return which of the coefficients has this name, or raise `InvalidArgument`."""
    if name not in names:
        raise InvalidArgument(f"coefficient {name!r} is not in the model; it has {', '.join(names)}")
    return names.index(name)


def planned_rows(**kwargs: Any) -> int:
    """Return the single keyword's value as a number of rows of a fit, or raise `InvalidArgument`."""
    n_rows = whole(**kwargs)
    if n_rows > MOST_ROWS:
        raise InvalidArgument(f"{next(iter(kwargs))} must be at most {MOST_ROWS}")
    return n_rows


def described(
    rehearsal: Rehearsal, options: FitOptions, *, n_rows: int, level: float, forecast: Forecast | None = None
) -> PlannedFit:
    """Return the plan of a fit of ``n_rows`` rows and what it is expected to buy, unless that is known."""
    coverage(level)
    design = rehearsal.encoder.design
    looked = () if rehearsal.look is None else rehearsal.look.names
    learned = f"; bounds of {', '.join(looked)} as each fit learns them" if looked else ""
    if design.target.count_bound is not None and rehearsal.encoder.needed[-1] in looked:
        learned += f" (of counts, the plan's noise is for {design.target.count_bound:g})"
    covariates = rehearsal.assumptions.describe(rehearsal.schema, rehearsal.encoder.needed[:-1])
    counting = counting_in_words(options.shares, rehearsal.assumptions, rehearsal.rows.weight)
    problem, plan = rehearsal.plan(options, n_rows=n_rows)
    spent = options.settled(problem).budget if rehearsal.look is None else options.budget
    return PlannedFit(
        model=rehearsal.model.title_for(design),
        target=design.target.name,
        plan=plan,
        statement=PrivacyStatement.of(spent, plan, private=plan.private, noise=""),
        forecast=forecast or rehearsal.forecast(options, n_rows=n_rows),
        assumptions=f"{covariates}; {response_in_words(rehearsal)}{counting}{learned}",
        level=level,
    )


def response_in_words(rehearsal: Rehearsal) -> str:
    """Say what the stand-in responses are like."""
    target, y = rehearsal.encoder.design.target, rehearsal.rows.y
    if target.labels is not None and len(target.labels) > 2:
        shares = ", ".join(percent(float(np.mean(y == k))) for k in range(len(target.labels)))
        return f"classes with shares of {shares} %"
    if target.labels is not None:
        return f"{percent(float(y.mean()))} % of rows with the label {list(target.labels)[-1]!r}"
    if target.count_bound is not None:
        over = ""
        if target.exposure is not None and rehearsal.rows.offset is not None:
            usual, alike = spread_in_words(np.exp(rehearsal.rows.offset), rehearsal.assumptions)
            over = f" over {target.exposure.name} of {usual}{alike}"
        return f"a mean count of {significant(float(y.mean()), 2)}{over}"
    spread = float(y.std()) * target.half_width
    middle = _rounded(float(y.mean()) * target.half_width + target.center, spread)
    return f"a response about {significant(middle, 3)} with standard deviation {significant(spread, 2)}"


def _rounded(value: float, spread: float) -> float:
    """Return a number rounded to a hundredth of what is around it, about: 0 where it is no more."""
    return round(value, 2 - math.floor(math.log10(spread))) + 0.0 if spread > 0.0 else value
