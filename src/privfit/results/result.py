"""What a fit returns: released numbers and what follows from them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from privfit._checks import FloatArray, coverage
from privfit.data.design import INTERCEPT
from privfit.data.encode import AbstractEncoder
from privfit.errors import Incompatible, InvalidArgument
from privfit.inference import wald
from privfit.inference.contrasts import Adjustment
from privfit.inference.recoded import Known, Recoded
from privfit.problem.plan import Plan, Release
from privfit.results import archive, encoders, record
from privfit.results.absent import ExplainsAbsence, takes_level
from privfit.results.coefficient_plot import draw, has_matplotlib
from privfit.results.consistency import PARTS, check_design, check_names, frozen_parts
from privfit.results.constraints import describe_constraints, hypotheses
from privfit.results.contrasts import Estimates, TermTests, WaldTest, combinations
from privfit.results.effects import marginal_effects
from privfit.results.form import ModelForm
from privfit.results.predictions import Predictions, decided, predicted
from privfit.results.regression import Coefficients, Regression
from privfit.results.report import report
from privfit.results.statement import PrivacyStatement
from privfit.results.summary import Summary, Uncertainty, summarize
from privfit.results.unusable import reason_of_test

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FitResult(ExplainsAbsence):
    """Estimates, covariance and guarantee. Holds released numbers only.

    Everything below is computed from these: it can be shown and repeated at will, and costs no budget.

    Parameters
    ----------
    model : str
        E.g. ``"Logistic regression"``.
    target : str
        Name of the response.
    names : tuple of str
        Labels of the q reported coefficients, the intercept first if there is one.
    estimate : array of shape (q,)
        Coefficients in the units of the raw columns.
    cov_sampling, cov_noise : array of shape (q, q) or None
        Parts of the covariance of ``estimate``: sampling, and the privacy noise left in it.
        None without inference.
    dof : array of shape (q,) or None
        Satterthwaite degrees of freedom of each standard error's t reference (inf: normal), because the
        covariance is itself noisy, and the noise of a pure budget has heavier tails than normal noise.
    scale : float or None
        Released residual scale in units of the response, for losses that estimate one.
    statement : PrivacyStatement
    plan : Plan
    releases : tuple of Release
        Everything that left the oracle.
    form : ModelForm or None
        Terms and link of the model, for tests of terms and for predictions.
    encoder : AbstractEncoder or None
        Turns raw covariates into the design by public facts, for predictions; the JSON keeps these.
    joint_dof : array of shape (q,) or None
        Degrees of freedom of the whole covariance, for tests of several coefficients; None: ``dof``.
    recoded : Recoded or None
        What is known of differences of levels whose reference noise hides, and of predictions at them.
    """

    model: str
    target: str
    names: tuple[str, ...]
    estimate: FloatArray
    cov_sampling: FloatArray | None
    cov_noise: FloatArray | None
    dof: FloatArray | None
    scale: float | None
    statement: PrivacyStatement
    plan: Plan
    releases: tuple[Release, ...]
    form: ModelForm | None = None
    encoder: AbstractEncoder | None = field(default=None, metadata=encoders.KEPT)
    joint_dof: FloatArray | None = None
    recoded: Recoded | None = None

    def __post_init__(self) -> None:
        q = len(self.names)
        if len(set(self.names)) != q:
            raise InvalidArgument("names must be unique; rename columns so that each coefficient has its own")
        if self.statement.private and not self.plan.private:
            raise InvalidArgument("statement.private must be False for a plan without noise")
        if self.form is not None:
            check_names(self.names, self.form)
            if self.encoder is not None:
                check_design(self.encoder.design, self.target, self.form)
        if self.recoded is not None and self.recoded.matrix.shape != (q, q):
            raise InvalidArgument("recoded must be of as many coefficients as there are names")
        for name, value in frozen_parts(q, {part: getattr(self, part) for part in PARTS}).items():
            object.__setattr__(self, name, value)

    @property
    def private(self) -> bool:
        """False if the noise was seeded or absent; the result must then not be released."""
        return self.statement.private

    @property
    def privacy(self) -> PrivacyStatement:
        """The guarantee, in numbers and words."""
        return self.statement

    @property
    def nobs(self) -> int:
        """Public number of rows, or of privacy units; under ``add_remove`` the caller's public scale."""
        return self.plan.n_rows

    @property
    def params(self) -> pd.Series:
        """Coefficients in the units of the raw columns."""
        return self._labelled(self.estimate, "coef")

    @property
    def bse(self) -> pd.Series:
        """Standard errors: square roots of the variances of sampling and privacy noise together."""
        return self._labelled(self._known("bse").se, "std err")

    @property
    def zvalues(self) -> pd.Series:
        """Coefficients divided by their standard errors."""
        return self._labelled(wald.z_values(self.estimate, self._known("zvalues").se), "z")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the coefficients being 0, by Student's t where ``dof`` is finite."""
        known = self._known("pvalues")
        z = wald.z_values(self.estimate, known.se)
        return self._labelled(wald.two_sided_pvalue(z, known.dof), "P>|z|")

    @property
    def noise_share(self) -> pd.Series:
        """Share of each squared standard error that is privacy noise in the coefficient, in [0, 1]."""
        total = np.diagonal(self._known("noise_share").covariance)
        noise = np.diagonal(np.zeros_like(total) if self.cov_noise is None else self.cov_noise)
        return self._labelled(wald.noise_share(noise, total), "noise share")

    @takes_level
    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return two-sided confidence intervals that include the privacy noise.

        Parameters
        ----------
        level : float
            Coverage, from 0.5 to below 1 (statsmodels' ``alpha`` is ``1 - level``).

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, one row per coefficient.
        """
        known = self._known("conf_int")
        lower, upper = wald.interval(self.estimate, known.se, coverage(level), known.dof)
        return pd.DataFrame({"lower": lower, "upper": upper}, index=list(self.names))

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance of the coefficients, sampling and privacy noise together."""
        names = list(self.names)
        return pd.DataFrame(self._known("cov_params").covariance, index=names, columns=names)

    def wald_test(self, R: ArrayLike | str | Sequence[str], r: ArrayLike | None = None) -> WaldTest:
        """Test linear hypotheses on the coefficients jointly.

        Parameters
        ----------
        R : array, frame or series of shape (k, q) or (q,), or str, or list of str
            A hypothesis per row, by name if named, or ``"age = hours = 0, 2*hours - C(sex)[T.Male] = 40"``.
        r : array of shape (k,), number or None
            Values of ``R @ params`` under the null; None: zeros. Must be None with text.
        """
        matrix, values = hypotheses(R, r, self.names)
        outcome, unknown = self._known("wald_test").tested(matrix, values)
        why = reason_of_test(unknown=unknown, noisy=self.plan.private)
        null = describe_constraints(matrix, values, self.names)
        return WaldTest(outcome, null, why, self.statement.mark)

    def t_test(
        self,
        R: ArrayLike | str | Sequence[str] | None = None,
        r: ArrayLike | None = None,
        *,
        adjust: Adjustment | None = None,
    ) -> Estimates:
        """Estimate and test linear combinations of the coefficients one by one.

        Parameters
        ----------
        R, r
            As in `wald_test`, a combination a row; None: every coefficient.
        adjust : {"bonferroni", "holm", "fdr_bh"}, optional
            How p-values are adjusted for the number of combinations.

        Returns
        -------
        Estimates
            ``params``, ``bse``, ``pvalues``, ``conf_int()``, ``summary()``. The t reference has the smallest
            of the degrees of freedom of the coefficients that a combination touches.
        """
        known = self._known("t_test")
        matrix, values = hypotheses(np.eye(len(self.names)) if R is None else R, r, self.names)
        found = combinations(matrix, values, self.names, known, noisy=self.plan.private)
        return replace(found, adjust=adjust, warning=self.statement.mark)

    def wald_test_terms(self, *, adjust: Adjustment | None = None) -> TermTests:
        """Test each term of the model, such as all levels of a factor together.

        Parameters
        ----------
        adjust : {"bonferroni", "holm", "fdr_bh"}, optional
            How p-values are adjusted for the number of terms.
        """
        form = self._form("wald_test_terms")
        terms = tuple(term for term in dict.fromkeys(form.terms) if term != INTERCEPT)
        if not terms:
            raise InvalidArgument("wald_test_terms needs a term beside the intercept")
        return TermTests(terms, tuple(map(self.compare_without, terms)), adjust, self.statement.mark)

    def compare_without(self, *terms: str) -> WaldTest:
        """Compare the model with the nested one that lacks these terms, by a Wald test that they are 0.

        It needs no likelihood, and no second fit, which would cost budget. What noise hides is left out.

        Parameters
        ----------
        *terms : str
            Names of terms, as `wald_test_terms` shows them or the formula spells them.
        """
        whole = np.eye(len(self.names))[self._form("compare_without").positions_of(terms)]
        part = self._known("compare_without").part_of(whole)
        return replace(self.wald_test(part), left_out=len(whole) - len(part))

    def predict(self, exog: object) -> pd.Series | pd.DataFrame:
        """Return what `get_prediction` predicts without standard errors, for fits without inference, too.

        A series of means, of quantiles (called ``quantile(0.9)``), or of probabilities of the second of two
        classes; with more a frame of all. Of a support vector machine, which has none, the class of each row.
        No mean of counts without exposures is above their bound. The index is that of a pandas frame.
        """
        return predicted(self._regression("predict"), exog)

    def decision_function(self, exog: object) -> pd.Series | pd.DataFrame:
        """Return the linear predictor at given covariates, for fits without inference, too.

        Of two classes it is positive where the second is predicted; with more it is a frame of one for each,
        which add up to 0, the largest where it is predicted. ``exog`` as for `get_prediction`.
        """
        return decided(self._regression("decision_function"), exog)

    def get_prediction(self, exog: object) -> Predictions:
        """Predict the mean or quantile of the response, or the probability of each class, at covariates.

        Parameters
        ----------
        exog : frame, mapping, array or path
            Public covariates: the raw columns of the model, a row for each prediction; of an array in the
            order of the schema, and refused where the fitted table had another. Values beyond bounds are
            moved to them. Missing cells and unknown levels need ``missing`` and ``other`` in the schema.

        Returns
        -------
        Predictions
            ``summary_frame()`` has means (or quantiles, as ``mean``), standard errors by the delta method and
            intervals that are symmetric on the scale of the linear predictor; all include the privacy noise.
            Its index is that of a pandas frame, with a level of classes below where there are more than two.
        """
        return Predictions.at(self._coefficients("get_prediction"), exog)

    def get_margeff(self, at: object = None, variables: Sequence[str] | None = None) -> Estimates:
        """Return average marginal effects on the mean over the rows of a public table.

        Parameters
        ----------
        at : frame, mapping, array or path
            Covariates to average over: public profiles or a public or synthetic reference table. **Never the
            private rows**: an average over them is a function of them that nothing protects.
        variables : sequence of str, optional
            Raw columns, ``"income"`` for a term ``np.log(income)``; default all. For a number the derivative,
            polynomials and interactions taken together, and comparisons such as ``I(hours > 40)`` held as
            they are, so that jumps are left out; for a factor the difference of each level from the first.

        Returns
        -------
        Estimates
            With standard errors by the delta method that include the privacy noise.
        """
        return marginal_effects(self._coefficients("get_margeff"), at, variables)

    @takes_level
    def summary(self, level: float = 0.95) -> Summary:
        """Return the table of coefficients with its guarantee, for print, notebook or paper."""
        return summarize(
            model=self.model,
            target=self.target,
            names=self.names,
            estimate=self.estimate,
            scale=self.scale,
            statement=self.statement,
            plan=self.plan,
            form=self.form,
            level=level,
            uncertainty=None if self.cov_sampling is None else self._uncertainty(level),
        )

    def plot(self, level: float = 0.95) -> "Figure":
        """Return a Matplotlib figure of coefficients and intervals, and what of these is privacy noise.

        Characters of names that Matplotlib's ``font.family`` lacks are written as escapes.
        """
        known = None if self.cov_sampling is None else self._uncertainty(level)
        title = f"{self.model} of {self.target}"
        return draw(self.names, self.estimate, known, level=level, title=title, mark=self.statement.mark)

    def report(self, path: str | os.PathLike[str], level: float = 0.95) -> None:
        """Write one HTML page: summary, plot (with Matplotlib) and what was released."""
        figure = self.plot(level) if has_matplotlib() else None
        archive.write_atomically(path, report(self.summary(level), self.target, figure, self.releases))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the released numbers, plan and guarantee as strict JSON; write them to ``path`` if given.

        What predictions need is kept, too: schema and formula, which are public. Floats are exact; those that
        JSON lacks are the strings "inf", "-inf" and "nan". The file is replaced in one step.
        """
        guarantee = " ".join((f"{self.statement.guarantee}.", *self.statement.in_words(self.nobs)))
        text = record.written(self, warning=self.statement.mark, guarantee=guarantee)
        if path is not None:
            archive.write_atomically(path, text)
        return text

    @classmethod
    def from_json(cls, text_or_path: str | os.PathLike[str]) -> "FitResult":
        """Read what `to_json` wrote: the text itself (starting with ``{``) or the path of a file.

        Raises
        ------
        SchemaError
            The content is not JSON of this format, a field is missing, unknown or of the wrong type, or
            schema and formula do not parse or do not belong to the coefficients.
        InvalidArgument
            The argument is neither text nor a readable file, is too large, or fields contradict each other.
        """
        return archive.decode_dataclass(cls, record.read(text_or_path), "result")

    def __repr__(self) -> str:
        guarantee = self.statement.mark or self.statement.guarantee
        counted = "rows" if self.plan.unit is None else "units"
        return (
            f"<FitResult: {self.model} of {self.target}, {len(self.names)} coefficients, "
            f"{self.nobs} {counted}; {guarantee}>"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def _labelled(self, values: FloatArray, name: str) -> pd.Series:
        return pd.Series(values.copy(), index=list(self.names), name=name)

    def _known(self, asked: str) -> Known:
        if self.cov_sampling is None or self.cov_noise is None or self.dof is None:
            raise Incompatible(
                f"{asked} needs standard errors, which this fit did not buy: fit with inference=True"
            )
        with np.errstate(invalid="ignore", over="ignore"):  # inf - inf is NaN, which tests and intervals know
            covariance = self.cov_sampling + self.cov_noise
        joint = self.dof if self.joint_dof is None else self.joint_dof
        return Known(self.estimate, covariance, self.dof, joint, self.recoded)

    def _form(self, asked: str) -> ModelForm:
        if self.form is None:
            raise Incompatible(f"{asked} needs the terms of the model, which this result was made without")
        return self.form

    def _regression(self, asked: str) -> Regression:
        return Regression.of(self.estimate, self._form(asked), self.encoder, asked)

    def _coefficients(self, asked: str) -> Coefficients:
        noisy, mark = self.plan.private, self.statement.mark
        return Coefficients(self._regression(asked), self._known(asked), noisy, mark)

    def _uncertainty(self, level: float) -> Uncertainty:
        shown = {"se": self.bse, "z": self.zvalues, "pvalue": self.pvalues, "noise_share": self.noise_share}
        shown |= {str(name): end for name, end in self.conf_int(level).items()}
        dof = self._known("summary").dof
        return Uncertainty(**{name: one.to_numpy() for name, one in shown.items()}, dof=dof)
