"""Results of tests on combinations of coefficients and on terms, as data and as tables."""

from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from privfit._checks import FloatArray, coverage
from privfit.inference import wald
from privfit.inference.contrasts import (
    Adjustment,
    adjusted_pvalues,
    check_adjustment,
)
from privfit.inference.recoded import Known
from privfit.inference.wald import JointTest
from privfit.results.absent import ExplainsAbsence, takes_level
from privfit.results.constraints import describe_combination
from privfit.results.numbers import ends
from privfit.results.printer import Column
from privfit.results.summary import AbstractTable, Summary, rows_of
from privfit.results.unusable import footnotes

_ADJUSTED = {
    "bonferroni": "P-values are adjusted by Bonferroni: the chance of any false finding is bounded.",
    "holm": "P-values are adjusted by Holm: the chance of any false finding is bounded.",
    "fdr_bh": "P-values are adjusted by Benjamini and Hochberg: the expected share of false ones among the "
    "findings is bounded.",
}

_INTERVALS = {
    "bonferroni": "Intervals are adjusted, too: the chance that any is wrong is bounded.",
    "holm": "Intervals are not adjusted.",
    "fdr_bh": "Intervals are not adjusted.",
}


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Estimates(AbstractTable, ExplainsAbsence):
    """Named estimates with standard errors: what `FitResult.t_test` and kin return.

    Parameters
    ----------
    title : str
    names : tuple of k str
    effect : array of shape (k,)
        The estimates.
    null : array of shape (k,)
        What they are tested to be.
    se, dof : array of shape (k,)
        Standard errors, privacy noise included, and degrees of freedom of their t reference.
    adjust : {"bonferroni", "holm", "fdr_bh"} or None
        How p-values are adjusted for the number of tests.
    notes : tuple of str
        Shown below the table.
    warning : str or None
        Shown first; marks a result without privacy.
    """

    title: str
    names: tuple[str, ...]
    effect: FloatArray
    null: FloatArray
    se: FloatArray
    dof: FloatArray
    adjust: Adjustment | None = None
    notes: tuple[str, ...] = ()
    warning: str | None = None

    def __post_init__(self) -> None:
        check_adjustment(self.adjust)

    @property
    def params(self) -> pd.Series:
        """The estimates."""
        return self._labelled(self.effect, "effect")

    @property
    def bse(self) -> pd.Series:
        """Their standard errors, privacy noise included."""
        return self._labelled(self.se, "std err")

    @property
    def zvalues(self) -> pd.Series:
        """Distances from the null in standard errors."""
        return self._labelled(wald.z_values(self.effect - self.null, self.se), "z")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values, adjusted if asked for."""
        p = wald.two_sided_pvalue(wald.z_values(self.effect - self.null, self.se), self.dof)
        return self._labelled(p if self.adjust is None else adjusted_pvalues(p, self.adjust), "P>|z|")

    @takes_level
    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return two-sided intervals; with Bonferroni's adjustment all hold together at this level."""
        coverage(level)
        each = 1.0 - (1.0 - level) / len(self.names) if self.adjust == "bonferroni" else level
        lower, upper = wald.interval(self.effect, self.se, each, self.dof)
        return pd.DataFrame({"lower": lower, "upper": upper}, index=list(self.names))

    @takes_level
    def summary_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Return all of it as a frame, a row each."""
        columns = (self.params, self.bse, self.zvalues, self.pvalues, self.conf_int(level))
        return pd.concat(columns, axis=1)

    @takes_level
    def summary(self, level: float = 0.95) -> Summary:
        """Return the table, for print or notebook."""
        lower, upper = ends(coverage(level))
        notes = self.notes
        if self.adjust is not None:
            notes = (*notes, f"{_ADJUSTED[self.adjust]} {_INTERVALS[self.adjust]}")
        return Summary(
            title=self.title,
            mark=self.warning,
            header=(),
            columns=(
                Column("effect", "significant"),
                Column("std err", "significant"),
                Column("z", "statistic"),
                Column("P>|z|", "pvalue"),
                Column(lower, "significant"),
                Column(upper, "significant"),
            ),
            rows=rows_of(self.names, self.summary_frame(level)),
            footers=notes,
        )

    def _labelled(self, values: FloatArray, name: str) -> pd.Series:
        return pd.Series(values.copy(), index=list(self.names), name=name)


@final
@dataclass(frozen=True, slots=True, repr=False)
class WaldTest:
    """A Wald test of linear hypotheses ``R b = r``: what `FitResult.wald_test` returns.

    Parameters
    ----------
    outcome : JointTest
        Its statistic and reference.
    null : str
        The null hypothesis in words.
    reason : str
        Shown where nothing can be tested.
    warning : str or None
        Shown first; marks a test of a result without privacy.
    left_out : int
        Number of coefficients that were to be tested, too, and that noise hides.
    """

    outcome: JointTest
    null: str
    reason: str
    warning: str | None = None
    left_out: int = 0

    @property
    def statistic(self) -> float:
        """F statistic; the chi-squared one if ``df_denom`` is inf; NaN where there is none."""
        return self.outcome.statistic

    @property
    def df(self) -> int:
        """Number of hypotheses tested jointly."""
        return self.outcome.df

    @property
    def df_denom(self) -> float:
        """Denominator degrees of freedom of the F reference; inf: chi-squared reference."""
        return self.outcome.df_denom

    @property
    def testable(self) -> bool:
        """False if there is no statistic, or no reference for it."""
        return self.outcome.testable

    @property
    def distribution(self) -> str:
        """Reference distribution, e.g. ``"chi2(2)"`` or ``"F(2, 31.5)"``."""
        return self.outcome.distribution

    @property
    def pvalue(self) -> float:
        """Probability of a statistic at least as large under the null; 1 where nothing can be tested."""
        return self.outcome.pvalue

    def summary(self) -> Summary:
        """Return the test as a table, for a notebook or a paper."""
        normal = np.isinf(self.df_denom)
        shown = (self.statistic, self.df_denom) if self.testable else (np.nan, np.nan)
        why = f"{_untested('The hypothesis')}: {self.reason}"
        return Summary(
            title="Wald test",
            mark=self.warning,
            header=(),
            columns=(
                Column("chi2" if normal else "F", "statistic"),
                Column("df", "count"),
                Column("df_denom", "reference"),
                Column("P>chi2" if normal else "P>F", "pvalue"),
            ),
            rows=rows_of((self.null,), [(shown[0], self.df, shown[1], self.pvalue)]),
            footers=(*self._left_out(), *(() if self.testable else (why,))),
        )

    def _left_out(self) -> tuple[str, ...]:
        if not self.left_out:
            return ()
        several = "s" if self.left_out > 1 else ""
        return (f"Not tested, as the noise hides it: {self.left_out} further coefficient{several}.",)

    def __str__(self) -> str:
        outcome = f"cannot be tested, p-value 1: {self.reason}"
        if self.testable:
            outcome = f"statistic {self.statistic:.4g}, {self.distribution}, p-value {self.pvalue:.4g}"
        first = f"{self.warning}\n" if self.warning else ""
        return "\n".join((f"{first}Wald test of H0: {self.null}", outcome, *self._left_out()))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def _untested(what: str) -> str:
    return f"{what} cannot be tested, and its p-value is 1"


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TermTests(AbstractTable):
    """Wald tests of the terms of a model, each of all its coefficients together.

    Parameters
    ----------
    terms : tuple of str
    tests : tuple of WaldTest
    adjust : {"bonferroni", "holm", "fdr_bh"} or None
    warning : str or None
    """

    terms: tuple[str, ...]
    tests: tuple[WaldTest, ...]
    adjust: Adjustment | None = None
    warning: str | None = None

    def __post_init__(self) -> None:
        check_adjustment(self.adjust)

    @property
    def pvalues(self) -> pd.Series:
        """P-values, adjusted if asked for."""
        p = np.array([test.pvalue for test in self.tests])
        p = p if self.adjust is None else adjusted_pvalues(p, self.adjust)
        return pd.Series(p, index=list(self.terms), name="P>F")

    def summary_frame(self) -> pd.DataFrame:
        """Return the tests as a frame: ``F``, ``df``, ``df_denom`` and the p-value of each term.

        ``F`` is the statistic of `FitResult.wald_test`, or the chi-squared one divided by ``df`` where
        ``df_denom``, the degrees of freedom of its reference, is inf.
        """
        columns = {
            "F": [test.statistic / (test.df if np.isinf(test.df_denom) else 1.0) for test in self.tests],
            "df": [float(test.df) for test in self.tests],
            "df_denom": [test.df_denom for test in self.tests],
        }
        return pd.DataFrame(columns, index=list(self.terms)).assign(**{"P>F": self.pvalues})

    def summary(self) -> Summary:
        """Return the table, for print or notebook."""
        notes = (
            "Each line tests that all coefficients of a term are 0 in the full model, by a Wald test that "
            "includes all privacy noise. It compares the model with the one without the term, from this fit "
            "alone.",
        )
        if self.adjust is not None:
            notes = (*notes, _ADJUSTED[self.adjust])
        lacking = [term for term, test in zip(self.terms, self.tests, strict=True) if test.left_out]
        if lacking:
            notes = (
                *notes,
                f"Without coefficients that noise hides: {', '.join(lacking)}; df counts the rest.",
            )
        hidden = [test.reason for test in self.tests if not test.testable]
        if hidden:
            notes = (*notes, f"F none: {_untested('the term')}: {hidden[0]}")
        return Summary(
            title="Wald tests of terms",
            mark=self.warning,
            header=(),
            columns=(
                Column("F", "statistic"),
                Column("df", "count"),
                Column("df_denom", "reference"),
                Column("P>F", "pvalue"),
            ),
            rows=rows_of(self.terms, self._shown()),
            footers=notes,
        )

    def _shown(self) -> pd.DataFrame:
        """Return the frame without numbers that say nothing."""
        frame = self.summary_frame()
        frame.loc[[not test.testable for test in self.tests], ["F", "df_denom"]] = np.nan
        return frame


def combinations(
    matrix: FloatArray,
    values: FloatArray,
    names: tuple[str, ...],
    known: Known,
    *,
    noisy: bool,
) -> Estimates:
    """Return linear combinations of coefficients, tested one by one and not adjusted.

    Parameters
    ----------
    matrix : array of shape (k, q)
    values : array of shape (k,)
        What the combinations are tested to be.
    names : tuple of q str
        Of the coefficients.
    known : Known
    noisy : bool
        Whether the fit added noise.
    """
    se, of_se = known.errors(matrix)
    labels = tuple(describe_combination(row, names) for row in matrix)
    nulls = "0" if not values.any() else ", ".join(f"{value:g}" for value in values)
    included = " Standard errors include the privacy noise." if noisy else ""
    notes = (f"Tested to be {nulls}.{included}", *footnotes(se, "this combination", noisy=noisy))
    effect = matrix @ known.estimate
    return Estimates("Linear combinations", labels, effect, values, se, of_se, notes=notes)
