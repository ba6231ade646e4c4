"""Predicted means and marginal effects at public covariates, with standard errors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from privfit._checks import FloatArray, coverage, listed
from privfit.data.columns import as_number
from privfit.data.covariates import open_covariates
from privfit.data.declarations import CategoricalColumn, NumericColumn
from privfit.data.encode import Encoder
from privfit.data.tables import Table
from privfit.errors import Incompatible, InvalidArgument
from privfit.inference import effects, wald
from privfit.inference.contrasts import combination_errors
from privfit.inference.effects import Differentiated, Link
from privfit.results.contrasts import Estimates
from privfit.results.form import ModelForm
from privfit.results.printer import Column
from privfit.results.summary import Summary

_STEP = 1e-7
"""Half the distance over which a design is differenced, in units of a column's transformed range (or 1)."""

PUBLIC = (
    "The covariates that were given are taken to be public: an average over private rows is not protected, "
    "and may not be published."
)


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """The released coefficients, and how covariates reach them.

    Parameters
    ----------
    estimate : array of shape (q,)
    form : ModelForm
    encoder : Encoder
        Made from public facts; turns raw columns into the columns of the design.
    """

    estimate: FloatArray
    form: ModelForm
    encoder: Encoder

    def design(self, table: Table) -> FloatArray:
        """Return the rows of the design in raw units, shape (n, p)."""
        columns = self.encoder.design.columns
        widths = np.array([column.half_width for column in columns])
        centers = np.array([column.center for column in columns])
        return self.encoder.encode_predictors(table) * widths + centers

    def means(self, data: object) -> Differentiated:
        """Return the mean, or the probability of each class, at the rows of a table."""
        need_mean(self.form)
        x = self.design(open_covariates(data, self.encoder))
        return self.shown(effects.mean(x, self.estimate, self.form.link))

    def shown(self, found: Differentiated) -> Differentiated:
        """Leave out the probability of the first of two classes."""
        values, derivatives = found
        return (values[:, 1:], derivatives[:, 1:]) if len(self.form.classes) == 2 else found


@dataclass(frozen=True, slots=True, eq=False)
class Coefficients:
    """A regression and what is known of its coefficients.

    Parameters
    ----------
    regression : Regression
    covariance : array of shape (q, q)
    dof : array of shape (q,)
    warning : str or None
        Marks a result without privacy.
    """

    regression: Regression
    covariance: FloatArray
    dof: FloatArray
    warning: str | None

    def errors(self, derivatives: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return standard errors and degrees of freedom by the delta method, each of the leading shape.

        NaN where a derivative is not a number.
        """
        flat = derivatives.reshape(-1, derivatives.shape[-1])
        se, dof = combination_errors(np.where(np.isfinite(flat), flat, 0.0), self.covariance, self.dof)
        se = np.where(np.isfinite(flat).all(axis=1), se, np.nan)
        return se.reshape(derivatives.shape[:-1]), dof.reshape(derivatives.shape[:-1])


def predicted(regression: Regression, data: object) -> pd.Series | pd.DataFrame:
    """Return the mean of the response, or the probability of each class, at the rows of a public table."""
    values, _ = regression.means(data)
    outputs = regression.form.outputs
    if len(outputs) == 1:
        return pd.Series(values[:, 0], name="mean")
    return pd.DataFrame(values, columns=pd.Index(outputs))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Predictions:
    """Means of the response at given covariates, with standard errors: what `get_prediction` returns.

    Parameters
    ----------
    names : tuple of k str
        Row, and class where there are several.
    predicted, se, dof : array of shape (k,)
    line, line_se : array of shape (k,)
        The same on the scale on which intervals are symmetric: of the linear predictor.
    link : str
    warning : str or None
    """

    names: tuple[str, ...]
    predicted: FloatArray
    se: FloatArray
    dof: FloatArray
    line: FloatArray
    line_se: FloatArray
    link: Link
    warning: str | None

    @classmethod
    def at(cls, given: Coefficients, data: object) -> "Predictions":
        """Predict at the rows of a public table."""
        form = given.regression.form
        values, derivatives = given.regression.means(data)
        line, stretch = effects.to_line(values, form.link)
        with np.errstate(invalid="ignore", over="ignore"):
            line_se, _ = given.errors(stretch[:, :, None] * derivatives)
        se, dof = given.errors(derivatives)
        se = np.where(np.isfinite(line), se, np.nan)  # too close to the end of the range for a slope
        outputs = form.outputs
        tails = [""] if len(outputs) == 1 else [f" {output}" for output in outputs]
        return cls(
            names=tuple(f"{row}{tail}" for row in range(len(values)) for tail in tails),
            predicted=values.ravel(),
            se=se.ravel(),
            dof=dof.ravel(),
            line=line.ravel(),
            line_se=line_se.ravel(),
            link=form.link,
            warning=given.warning,
        )

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return intervals for the means, symmetric on the scale of the linear predictor."""
        lower, upper = wald.interval(self.line, self.line_se, coverage(level), self.dof)
        ends = (effects.from_line(end, self.link) for end in (lower, upper))
        return pd.DataFrame(dict(zip(("lower", "upper"), ends, strict=True)), index=list(self.names))

    def summary_frame(self, level: float = 0.95) -> pd.DataFrame:
        """Return a frame with columns ``mean``, ``mean_se``, ``lower`` and ``upper``."""
        means = pd.DataFrame({"mean": self.predicted, "mean_se": self.se}, index=list(self.names))
        return means.join(self.conf_int(level))

    def summary(self, level: float = 0.95) -> Summary:
        """Return the table, for print or notebook."""
        tail = (1.0 - coverage(level)) / 2.0
        frame = self.summary_frame(level)
        return Summary(
            title="Predicted means",
            mark=self.warning,
            header=(),
            columns=(
                Column("mean", "significant"),
                Column("std err", "significant"),
                Column(f"[{tail:.6g}", "significant"),
                Column(f"{1.0 - tail:.6g}]", "significant"),
            ),
            rows=tuple(
                (str(name), tuple(row))
                for name, row in zip(frame.index, frame.to_numpy().tolist(), strict=True)
            ),
            footers=("Intervals are for the mean at these covariates, not for a new response.", PUBLIC),
        )

    def __str__(self) -> str:
        return str(self.summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.summary().as_html()


@np.errstate(over="ignore", invalid="ignore")
def marginal_effects(given: Coefficients, data: object, variables: Sequence[str] | None) -> Estimates:
    """Return average marginal effects over the rows of a public table.

    Of a numeric covariate: the derivative of the mean in the raw column, whatever its transform, all terms
    that hold it taken together. Of a categorical one: the difference that each level makes against the first,
    everything else as it is.
    """
    regression = given.regression
    need_mean(regression.form)
    if data is None:
        raise InvalidArgument(
            "at is needed: a public table of covariates to average over; the private rows cannot serve"
        )
    table, outputs = open_covariates(data, regression.encoder), regression.form.outputs
    declared = dict(regression.encoder.variables)
    chosen = tuple(declared) if variables is None else listed("column names", variables=variables)
    if not chosen:
        raise InvalidArgument("variables must name at least one column of the model")
    names: list[str] = []
    values: list[FloatArray] = []
    derivatives: list[FloatArray] = []
    for name in chosen:
        if not isinstance(name, str) or name not in declared:
            raise InvalidArgument(
                f"variables names {name!r}, which the model lacks; it has {', '.join(declared)}"
            )
        column = declared[name]
        found = (
            _steps(regression, table, name, column)
            if isinstance(column, CategoricalColumn)
            else [(name, _derivative(regression, table, name, column))]
        )
        for label, one in found:
            value, derivative = regression.shown(one)
            names += [label if len(outputs) == 1 else f"{label} {output}" for output in outputs]
            values.append(value.mean(axis=0))
            derivatives.append(derivative.mean(axis=0))
    slopes = np.concatenate(derivatives)
    if regression.form.link != "identity":  # a curve so flat that its slope underflows tells nothing
        slopes[(slopes == 0.0).all(axis=1)] = np.nan
    se, dof = given.errors(slopes)
    effect = np.concatenate(values)
    title = f"Average marginal effects over {table.n_rows} given rows"
    return Estimates(
        title, tuple(names), effect, np.zeros_like(effect), se, dof, notes=(PUBLIC,), warning=given.warning
    )


def need_mean(form: ModelForm) -> None:
    """Refuse a model whose predictor is no mean."""
    if form.link == "none":
        raise Incompatible(
            "model: its linear predictor is a margin, no mean; use t_test for combinations of it"
        )


def _derivative(
    regression: Regression, table: Table, name: str, column: NumericColumn | None
) -> Differentiated:
    """Return the derivative in a numeric covariate, differenced in the design by steps of its transform.

    Cells beyond the bounds are taken for the bound, missing ones for what is declared for them. NaN where the
    transform is infinitely steep, as a root is at 0.
    """
    values = as_number(table.values(name))
    low, high, half = -np.inf, np.inf, _STEP
    if column is not None:
        low, high = column.lower, column.upper
        fill = np.nan if column.missing is None else column.missing
        values = np.clip(np.where(np.isnan(values), fill, values), low, high)
        start, end = column.limits
        half = _STEP * (end - start) / column.steepness(values)
    below, above = np.maximum(values - half, low), np.minimum(values + half, high)
    first, second = (regression.design(_changed(table, name, ends)) for ends in (below, above))
    dx = (second - first) / (above - below)[:, None]
    x = regression.design(_changed(table, name, values))
    return effects.slope(x, dx, regression.estimate, regression.form.link)


def _steps(
    regression: Regression, table: Table, name: str, column: CategoricalColumn
) -> list[tuple[str, Differentiated]]:
    """Return the difference that each level makes against the first."""

    def at(level: object) -> Differentiated:
        everywhere = np.full(table.n_rows, level, dtype=object)
        x = regression.design(_changed(table, name, everywhere))
        return effects.mean(x, regression.estimate, regression.form.link)

    base, of_base = at(column.levels[0])
    found = []
    for level in column.levels[1:]:
        value, derivative = at(level)
        found.append((f"{name}[{level} - {column.levels[0]}]", (value - base, derivative - of_base)))
    return found


def _changed(table: Table, name: str, values: np.ndarray) -> Table:
    return Table([(one, values if one == name else table.values(one)) for one in table.names])
