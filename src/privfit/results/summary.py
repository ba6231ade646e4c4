"""The summary of a fit: data first, then rendered as text, HTML or LaTeX by one printer."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from privfit._checks import FloatArray, coverage
from privfit.problem.plan import Plan
from privfit.results import printer
from privfit.results.form import Held, LearnedRange, ModelForm
from privfit.results.numbers import confidence, ends
from privfit.results.printer import Column
from privfit.results.statement import PrivacyStatement
from privfit.results.unusable import footnotes, hidden_by, of_grids


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """A summary as data. Print it, show it in a notebook, or call one of the ``as_`` methods.

    Parameters
    ----------
    title : str
    mark : str or None
        The line that warns of a result without privacy, shown first and last.
    header : tuple of (label, value)
    columns : tuple of Column
        Heading and number style of each of the c columns.
    rows : tuple of (name, c numbers)
        Full names and unrounded numbers.
    footers : tuple of str
        One paragraph each.
    """

    title: str
    mark: str | None
    header: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[float, ...]], ...]
    footers: tuple[str, ...]

    def as_text(self) -> str:
        """Return monospaced text of at most 100 columns."""
        return printer.to_text(self)

    def as_html(self) -> str:
        """Return one self-contained HTML element."""
        return printer.to_html(self)

    def as_latex(self) -> str:
        """Return LaTeX that needs no package."""
        return printer.to_latex(self)

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.as_html()

    def _repr_latex_(self) -> str:
        return self.as_latex()


class AbstractTable(ABC):
    """What prints, and shows itself in a notebook, as its summary."""

    __slots__ = ()

    @abstractmethod
    def summary(self) -> Summary:
        """Return the table, for print or notebook."""

    def __str__(self) -> str:
        return str(self.summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def rows_of(names: Sequence[str], numbers: ArrayLike) -> tuple[tuple[str, tuple[float, ...]], ...]:
    """Return the rows of a summary from their names and numbers, shape (k, columns)."""
    return tuple((name, tuple(row)) for name, row in zip(names, np.asarray(numbers).tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """The columns of a summary that need a covariance; arrays of shape (q,)."""

    se: FloatArray
    z: FloatArray
    pvalue: FloatArray
    lower: FloatArray
    upper: FloatArray
    noise_share: FloatArray
    dof: FloatArray


def summarize(
    *,
    model: str,
    target: str,
    names: tuple[str, ...],
    estimate: FloatArray,
    scale: float | None,
    statement: PrivacyStatement,
    plan: Plan,
    form: ModelForm | None,
    level: float,
    uncertainty: Uncertainty | None,
) -> Summary:
    """Put released numbers into a summary; ``uncertainty`` is None for a fit without inference."""
    level = coverage(level)
    columns = [estimate]
    if uncertainty is not None:
        u = uncertainty
        columns += [u.se, u.z, u.pvalue, u.lower, u.upper]
        columns += [u.noise_share] if plan.private else []
    return Summary(
        title=f"{model} results",
        mark=statement.mark,
        header=_header(model, target, scale, statement, plan, inference=uncertainty is not None),
        columns=_columns(level, inference=uncertainty is not None, noisy=plan.private),
        rows=rows_of(names, np.column_stack(columns)),
        footers=(
            *statement.in_words(plan.n_rows),
            *_reading(uncertainty, level, noisy=plan.private, pure=statement.notion == "pure"),
            *_of_form(form, uncertainty, noisy=plan.private),
        ),
    )


def _header(
    model: str, target: str, scale: float | None, statement: PrivacyStatement, plan: Plan, *, inference: bool
) -> tuple[tuple[str, str], ...]:
    header = [("Model", model), ("Dep. variable", target), *counting(plan)]
    if scale is not None:
        header.append(("Residual scale", printer.significant(scale)))
    sandwich = ("noise-aware sandwich" if plan.private else "sandwich") + (
        "" if plan.unit is None else f", clustered by {plan.unit}"
    )
    covariance = sandwich if inference else "none (inference=False)"
    header += [
        ("Method", plan.solver),
        ("Covariance type", covariance),
        ("Noise", statement.noise),
        ("Privacy", statement.guarantee),
    ]
    return tuple(header)


def counting(plan: Plan) -> list[tuple[str, str]]:
    """Say what the rows of the table are counted by."""
    n_rows = f"{plan.n_rows}" if plan.relation == "replace" else f"{plan.n_rows} (public scale)"
    lines = [("No. rows", n_rows)]
    if plan.unit is not None:
        alike = "counted alike" if plan.rows_per_unit == 1 else f"counted as up to {plan.rows_per_unit} rows"
        lines = [("No. units", n_rows), ("Privacy unit", f"{plan.unit}, {alike}")]
    if plan.weights is not None:
        lines.append(("Weights", plan.weights))
    if plan.exposure is not None:
        lines.append(("Exposure", plan.exposure))
    return lines


def _columns(level: float, *, inference: bool, noisy: bool) -> tuple[Column, ...]:
    coef = Column("coef", "significant")
    if not inference:
        return (coef,)
    lower, upper = ends(level)
    share = (Column("noise %", "percent"),) if noisy else ()
    return (
        coef,
        Column("std err", "significant"),
        Column("z", "statistic"),
        Column("P>|z|", "pvalue"),
        Column(lower, "significant"),
        Column(upper, "significant"),
        *share,
    )


def _reading(uncertainty: Uncertainty | None, level: float, *, noisy: bool, pure: bool) -> list[str]:
    """Explain the table to a statistician who has not met privacy noise before."""
    if not noisy:
        return [] if uncertainty is None else _reading_without_noise(uncertainty, level)
    if uncertainty is None:
        return [
            "Coefficients only: they hold privacy noise, and this fit bought no standard errors to tell how "
            "much. Fit again with inference=True to get standard errors and intervals."
        ]
    footers = [
        f"Standard errors, tests and {confidence(level)}% intervals include the privacy noise as well as "
        "sampling variation. noise %: share of the squared standard error that is privacy noise; the rest is "
        "sampling variation."
    ]
    known = uncertainty.dof[np.isfinite(uncertainty.se)]
    finite = known[np.isfinite(known)]
    if len(finite):
        rest = "" if len(finite) == len(known) else " (the normal for the other coefficients)"
        tails = " and the noise of a pure budget has heavier tails than normal noise" if pure else ""
        footers.append(
            f"P>|z| and intervals use Student's t with {_span(finite)} degrees of freedom{rest}, because the "
            f"standard errors are themselves estimated with privacy noise{tails}."
        )
    return [*footers, *footnotes(uncertainty.se, "this coefficient", noisy=True)]


def _of_form(form: ModelForm | None, uncertainty: Uncertainty | None, *, noisy: bool) -> list[str]:
    if form is None:
        return []
    se = None if uncertainty is None else uncertainty.se
    return [
        *of_grids(se, form.quantile),
        *hidden_by(form.hiding, len(form.classes)),
        *_held(form.held, noisy=noisy),
        *_weighted_down(form.full),
        *_bounds(form.learned),
    ]


_CUTS_NONE = {"residuals": "residual_bound={possible} cuts none", "counts": "solver='newton' cuts none"}
_CUTS_FEWER = "a larger residual_bound= cuts fewer"


def _held(held: Held | None, *, noisy: bool) -> list[str]:
    if held is None:
        return []
    at = ("±" if held.what == "residuals" else "") + printer.significant(held.at, 2)
    remedy = _CUTS_FEWER if math.isinf(held.possible) else _CUTS_NONE[held.what]
    remedy = remedy.format(possible=f"{held.possible:g}")
    cut = f"{held.what.capitalize()} beyond {at} count as {at}"
    if not noisy:
        return [f"{cut}, as in a private fit of the same arguments: {remedy}."]
    return [
        f"{cut}, for less noise. Where noise hides larger ones of few rows, or of one level alone, "
        f"coefficients lack what these would add, and intervals do not tell: {remedy}, for longer intervals."
    ]


def _weighted_down(full: float | None) -> list[str]:
    if full is None:
        return []
    return [
        f"Rows more than {printer.significant(full, 2)} times as far out in the predictors as usual ones "
        "count for less, for less noise. Where the model is right that moves no coefficient; where it lacks "
        "a curve coefficients are those of the weighted rows, and so are intervals. With a larger budget, or "
        "solver=WhitenedGradientDescent(spread=...), more rows count in full."
    ]


def _bounds(learned: Sequence[LearnedRange]) -> list[str]:
    ranges = [f"{one.name} {one.lower:g} to {one.upper:g}" for one in learned]
    return (
        [f"Bounds learned within the budget, to which values are moved: {', '.join(ranges)}."]
        if ranges
        else []
    )


def _reading_without_noise(uncertainty: Uncertainty, level: float) -> list[str]:
    return [
        f"Standard errors, tests and {confidence(level)}% intervals are for sampling variation alone.",
        *footnotes(uncertainty.se, "this coefficient", noisy=False),
    ]


def _span(values: FloatArray) -> str:
    low, high = printer.significant(values.min(), 3), printer.significant(values.max(), 3)
    return low if low == high else f"{low} to {high}"
