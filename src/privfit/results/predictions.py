"""Predicted means and quantiles at public covariates, with standard errors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from privfit._checks import FloatArray, coverage
from privfit.errors import Incompatible
from privfit.inference import effects, wald
from privfit.inference.effects import Link
from privfit.results.absent import OF_PREDICTIONS, ExplainsAbsence, takes_level
from privfit.results.numbers import ends
from privfit.results.printer import Column
from privfit.results.regression import PUBLIC, Coefficients, Regression, need_mean, scaled_notes
from privfit.results.summary import AbstractTable, Summary, rows_of
from privfit.results.unusable import footnotes_on_a_curve


def predicted(regression: Regression, data: object) -> pd.Series | pd.DataFrame:
    """Return means or quantiles, probabilities of classes, or classes, at the rows of a public table."""
    if regression.form.link == "none":
        return _predicted_class(regression, data)
    values, _ = regression.means(data)
    outputs, rows = regression.form.outputs, _rows(data, len(values))
    if len(outputs) == 1:
        values = np.minimum(values, regression.encoder.design.target.largest_mean)
        return pd.Series(values[:, 0], index=rows, name=regression.form.of_response)
    return pd.DataFrame(values, index=rows, columns=pd.Index(outputs))


def decided(regression: Regression, data: object) -> pd.Series | pd.DataFrame:
    """Return the linear predictor, or that of every class, at the rows of a public table."""
    values = regression.decisions(data)
    rows = _rows(data, len(values))
    if values.shape[1] == 1:
        return pd.Series(values[:, 0], index=rows, name="decision")
    return pd.DataFrame(values, index=rows, columns=pd.Index(regression.form.classes))


def _predicted_class(regression: Regression, data: object) -> pd.Series:
    """Return the class on whose side of 0 each linear predictor is, as the schema spells it."""
    target = regression.encoder.design.target
    if target.labels is None:
        raise Incompatible(
            "predict needs a mean or classes, of which the loss of this model says nothing; "
            "decision_function gives its linear predictor"
        )
    values = regression.decisions(data)
    codes = (values[:, 0] > 0.0).astype(int)
    return pd.Series(np.array(target.labels)[codes], index=_rows(data, len(values)), name=target.name)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Predictions(AbstractTable, ExplainsAbsence):
    """Means or quantiles of the response at given covariates, with standard errors, as of `get_prediction`.

    Parameters
    ----------
    index : Index of k rows
        That of a pandas frame, else 0, 1, ...; with a level ``class`` below where there are several classes.
    predicted, se, dof : array of shape (k,)
    line, line_se : array of shape (k,)
        The same on the scale on which intervals are symmetric: of the linear predictor.
    link : str
    quantile : float or None
        Which quantile is predicted; None: the mean, or a probability.
    notes : tuple of str
        Shown below the table.
    warning : str or None
    """

    _instead = OF_PREDICTIONS

    index: pd.Index
    predicted: FloatArray
    se: FloatArray
    dof: FloatArray
    line: FloatArray
    line_se: FloatArray
    link: Link
    quantile: float | None
    notes: tuple[str, ...]
    warning: str | None

    @classmethod
    def at(cls, given: Coefficients, data: object) -> "Predictions":
        """Predict at the rows of a public table."""
        form = given.regression.form
        need_mean(form, "get_prediction")
        values, derivatives = given.regression.means(data)
        line, stretch = effects.to_line(values, form.link)
        with np.errstate(invalid="ignore", over="ignore"):
            line_se, _ = given.errors(stretch[:, :, None] * derivatives)
        se, dof = given.errors(derivatives)
        se = np.where(np.isfinite(line), se, np.nan)  # too close to the end of the range for a slope
        rows, word = _rows(data, len(values)), _word(form.quantile)
        return cls(
            index=rows if len(form.outputs) == 1 else _each(rows, form.outputs),
            predicted=values.ravel(),
            se=se.ravel(),
            dof=dof.ravel(),
            line=line.ravel(),
            line_se=line_se.ravel(),
            link=form.link,
            quantile=form.quantile,
            notes=(
                *scaled_notes(given.regression.encoder),
                f"Intervals are for the {word} at these covariates, not for a new response.",
                *footnotes_on_a_curve(se, f"this {word}", noisy=given.noisy),
            ),
            warning=given.warning,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the rows, and classes where there are several, as text."""
        return tuple(_text(label) for label in self.index)

    @takes_level
    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return intervals for the means or quantiles, symmetric on the scale of the linear predictor."""
        lower, upper = wald.interval(self.line, self.line_se, coverage(level), self.dof)
        ends = (effects.from_line(end, self.link) for end in (lower, upper))
        return pd.DataFrame(dict(zip(("lower", "upper"), ends, strict=True)), index=self.index)

    @takes_level
    def summary_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Return a frame with columns ``mean``, ``mean_se``, ``mean_ci_lower`` and ``mean_ci_upper``.

        Names are those of statsmodels, which are the same whatever is predicted: of a quantile regression
        ``mean`` is the quantile.
        """
        ends = self.conf_int(level)
        columns = {
            "mean": self.predicted.copy(),
            "mean_se": self.se.copy(),
            "mean_ci_lower": ends["lower"],
            "mean_ci_upper": ends["upper"],
        }
        return pd.DataFrame(columns, index=self.index)

    @takes_level
    def summary(self, level: float = 0.95) -> Summary:
        """Return the table, for print or notebook."""
        lower, upper = ends(coverage(level))
        word = _word(self.quantile)
        return Summary(
            title=f"Predicted {word}s" + ("" if self.quantile is None else f" ({self.quantile:g})"),
            mark=self.warning,
            header=(),
            columns=(
                Column(word, "significant"),
                Column("std err", "significant"),
                Column(lower, "significant"),
                Column(upper, "significant"),
            ),
            rows=rows_of(self.names, self.summary_frame(level)),
            footers=(*self.notes, PUBLIC),
        )


def _word(quantile: float | None) -> str:
    return "mean" if quantile is None else "quantile"


def _rows(data: object, count: int) -> pd.Index:
    """Return the labels of the rows that are predicted: a pandas frame has its own, others are counted."""
    return data.index.copy() if isinstance(data, pd.DataFrame) else pd.RangeIndex(count)


def _each(rows: pd.Index, outputs: Sequence[str]) -> pd.MultiIndex:
    """Return every row with every class below it."""
    repeated = rows.repeat(len(outputs))
    levels = [repeated.get_level_values(level) for level in range(rows.nlevels)]
    return pd.MultiIndex.from_arrays([*levels, np.tile(outputs, len(rows))], names=[*rows.names, "class"])


def _text(label: object) -> str:
    return " ".join(map(str, label)) if isinstance(label, tuple) else str(label)
