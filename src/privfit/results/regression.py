"""The released coefficients with the form of their model: how means follow at given covariates."""

from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.data.covariates import open_covariates
from privfit.data.encode import AbstractEncoder
from privfit.data.tables import Table
from privfit.errors import Incompatible
from privfit.inference import effects
from privfit.inference.effects import Differentiated
from privfit.inference.recoded import Known
from privfit.results.form import ModelForm

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
    encoder : AbstractEncoder
        Made from public facts; turns raw columns into the columns of the design.
    """

    estimate: FloatArray
    form: ModelForm
    encoder: AbstractEncoder

    @classmethod
    def of(
        cls, estimate: FloatArray, form: ModelForm, encoder: AbstractEncoder | None, asked: str
    ) -> "Regression":
        """Return the regression, or refuse what is ``asked`` of a result that cannot encode rows."""
        if encoder is None:
            raise Incompatible(
                f"{asked} needs the schema and formula of the fit, which a result lacks that was read from "
                "JSON of an earlier version; use the one that the fit returned"
            )
        return cls(estimate, form, encoder)

    def design(self, table: Table) -> FloatArray:
        """Return the rows of the design in raw units, shape (n, p)."""
        return self.encoder.design.raw_rows(self.encoder.encode_predictors(table))

    def opened(self, data: object) -> Table:
        """Return the predictors of the model in a public table."""
        return open_covariates(data, self.encoder, ordered=self.form.ordered)

    def means(self, data: object) -> Differentiated:
        """Return the mean, or the probability of each class, at the rows of a table."""
        x = self.design(self.opened(data))
        return self.shown(effects.mean(x, self.estimate, self.form.link))

    def decisions(self, data: object) -> FloatArray:
        """Return the linear predictor at the rows of a table, shape (n, 1).

        With more than two classes: one for every class, shape (n, K); they add up to 0.
        """
        x = self.design(self.opened(data))
        eta = effects.predictors(x, self.estimate)
        if len(self.form.classes) <= 2:
            return eta
        of_all = np.column_stack([np.zeros(len(eta)), eta])
        return of_all - of_all.mean(axis=1, keepdims=True)

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
    known : Known
    noisy : bool
        Whether the fit added noise.
    warning : str or None
        Marks a result without privacy.
    """

    regression: Regression
    known: Known
    noisy: bool
    warning: str | None

    def errors(self, derivatives: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return standard errors and degrees of freedom by the delta method, each of the leading shape.

        NaN where a derivative is not a number.
        """
        flat = derivatives.reshape(-1, derivatives.shape[-1])
        se, dof = self.known.errors(np.where(np.isfinite(flat), flat, 0.0))
        se = np.where(np.isfinite(flat).all(axis=1), se, np.nan)
        return se.reshape(derivatives.shape[:-1]), dof.reshape(derivatives.shape[:-1])


def scaled_notes(encoder: AbstractEncoder) -> tuple[str, ...]:
    """Say on which scale predictions and effects are: of a transformed response, or for which exposure."""
    raw, target = encoder.needed[-1], encoder.design.target
    notes = []
    if target.name != raw:
        notes.append(f"The schema transforms the response: all is on the scale of {target.name}.")
    if target.exposure is not None:
        exposed = target.exposure.name
        notes.append(f"All is for {exposed} of 1; over another exposure it is that many times as much.")
    return tuple(notes)


def need_mean(form: ModelForm, asked: str) -> None:
    """Refuse what is ``asked`` of a model whose predictor is no mean."""
    if form.link == "none":
        raise Incompatible(
            f"{asked} needs a model of a mean, and the linear predictor of this one is none; predict and "
            "decision_function (privfit predict without --intervals) say what it predicts, t_test gives "
            "standard errors of combinations"
        )
