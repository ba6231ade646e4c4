"""Predicted means at public covariates, with standard errors."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from privfit._checks import FloatArray, coverage
from privfit.inference import effects, wald
from privfit.inference.effects import Link
from privfit.results.printer import Column
from privfit.results.regression import PUBLIC, Coefficients, Regression
from privfit.results.summary import Summary


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
