"""What a fit returns: released numbers and what follows from them."""

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from privfit._checks import FloatArray
from privfit.errors import Incompatible, InvalidArgument, SchemaError
from privfit.inference import wald
from privfit.inference.wald import WaldTest
from privfit.problem.plan import Plan, Release
from privfit.results import archive
from privfit.results.constraints import describe_constraints, parse_constraints
from privfit.results.statement import PrivacyStatement
from privfit.results.summary import Summary, Uncertainty, summarize

_FORMAT = "privfit.FitResult"
_FORMAT_VERSION = 1
_RECORD_KEYS = {"format", "format_version", "warning", "guarantee", "versions", "result"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FitResult:
    """Estimates, covariance and guarantee. Holds released numbers only.

    Everything below is computed from released numbers, so that it can be shown and repeated at will: it costs
    no budget.

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
        covariance is itself noisy.
    scale : float or None
        Released residual scale in units of the response, for losses that estimate one.
    statement : PrivacyStatement
    plan : Plan
    releases : tuple of Release
        Everything that left the oracle.
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

    def __post_init__(self) -> None:
        q = len(self.names)
        if len(set(self.names)) != q:
            raise InvalidArgument("names must be unique; rename columns so that each coefficient has its own")
        if self.statement.private and not self.plan.private:
            raise InvalidArgument("statement.private must be False for a plan without noise")
        parts = (self.cov_sampling, self.cov_noise, self.dof)
        if any(part is None for part in parts) and any(part is not None for part in parts):
            raise InvalidArgument("cov_sampling, cov_noise and dof must all be given, or all be None")
        for name, shape in (
            ("estimate", (q,)),
            ("cov_sampling", (q, q)),
            ("cov_noise", (q, q)),
            ("dof", (q,)),
        ):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _frozen_array(name, value, shape))

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
        return self._labelled(self._se("bse"), "std err")

    @property
    def zvalues(self) -> pd.Series:
        """Coefficients divided by their standard errors."""
        return self._labelled(wald.z_values(self.estimate, self._se("zvalues")), "z")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of the coefficients being 0, by Student's t where ``dof`` is finite."""
        z = wald.z_values(self.estimate, self._se("pvalues"))
        return self._labelled(wald.two_sided_pvalue(z, self._dof()), "P>|z|")

    @property
    def noise_share(self) -> pd.Series:
        """Share of each squared standard error that is privacy noise, between 0 and 1."""
        return self._labelled(self._noise_share(), "noise share")

    def conf_int(self, level: float = 0.95) -> pd.DataFrame:
        """Return two-sided confidence intervals that include the privacy noise.

        Parameters
        ----------
        level : float
            Coverage, strictly between 0 and 1 (statsmodels' ``alpha`` is ``1 - level``).

        Returns
        -------
        DataFrame
            Columns ``lower`` and ``upper``, one row per coefficient.
        """
        lower, upper = wald.interval(self.estimate, self._se("conf_int"), level, self._dof())
        return pd.DataFrame({"lower": lower, "upper": upper}, index=list(self.names))

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance of the coefficients, sampling and privacy noise together."""
        names = list(self.names)
        return pd.DataFrame(self._covariance("cov_params"), index=names, columns=names)

    def wald_test(self, R: ArrayLike | str, r: ArrayLike | None = None) -> WaldTest:
        """Test linear hypotheses on the coefficients jointly.

        Parameters
        ----------
        R : array of shape (k, q) or (q,), or str
            One hypothesis per row, or text such as ``"age = 0, 2*hours - C(sex)[T.Male] = 40"``.
        r : array of shape (k,), number or None
            Values of ``R @ params`` under the null; None: zeros. Must be None with text.
        """
        covariance = self._covariance("wald_test")
        if isinstance(R, str):
            if r is not None:
                raise InvalidArgument('r must be None where R is a text; write the values in it: "age = 40"')
            R, r = parse_constraints(R, self.names)
        matrix = wald.hypothesis_matrix(R, len(self.names))
        values = wald.hypothesis_values(r, len(matrix))
        null = describe_constraints(matrix, values, self.names)
        test = wald.wald_test(self.estimate, covariance, matrix, values, self._dof(), null=null)
        return replace(test, warning=self.statement.mark)

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
            level=level,
            uncertainty=None if self.cov_sampling is None else self._uncertainty(level),
        )

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the released numbers, plan and guarantee as strict JSON; write them to ``path`` if given.

        Floats are kept exactly; those that JSON lacks are the strings "inf", "-inf" and "nan". The file is
        replaced in one step.
        """
        record = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "warning": self.statement.mark,
            "guarantee": f"{self.statement.guarantee}. {self.statement.sentence}",
            "versions": archive.package_versions(),
            "result": archive.encode(self),
        }
        text = archive.dumps(record)
        if path is not None:
            archive.write_atomically(path, text)
        return text

    @classmethod
    def from_json(cls, text_or_path: str | os.PathLike[str]) -> "FitResult":
        """Read what `to_json` wrote: the text itself (starting with ``{``) or the path of a file.

        Raises
        ------
        SchemaError
            The content is not JSON of this format, or a field is missing, unknown or of the wrong type.
        InvalidArgument
            The argument is neither text nor a readable file, is too large, or fields contradict each other.
        """
        record = archive.loads(archive.read_text(text_or_path))
        _check_record(record)
        return archive.decode_dataclass(cls, record["result"], "result")

    def __repr__(self) -> str:
        guarantee = self.statement.mark or self.statement.guarantee
        counted = "rows" if self.plan.unit is None else "units"
        return (
            f"<FitResult: {self.model} of {self.target}, {len(self.names)} coefficients, "
            f"{self.nobs} {counted}; "
            f"{guarantee}>"
        )

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def _labelled(self, values: FloatArray, name: str) -> pd.Series:
        return pd.Series(values.copy(), index=list(self.names), name=name)

    def _covariance(self, asked: str) -> FloatArray:
        if self.cov_sampling is None or self.cov_noise is None:
            raise _no_inference(asked)
        with np.errstate(invalid="ignore", over="ignore"):  # inf - inf is NaN, which tests and intervals know
            return self.cov_sampling + self.cov_noise

    def _se(self, asked: str) -> FloatArray:
        return wald.standard_errors(self._covariance(asked))

    def _dof(self) -> FloatArray:
        if self.dof is None:
            raise _no_inference("dof")
        return self.dof

    def _noise_share(self) -> FloatArray:
        total = np.diagonal(self._covariance("noise_share"))
        noise = np.diagonal(np.zeros_like(total) if self.cov_noise is None else self.cov_noise)
        return _share(noise, total)

    def _uncertainty(self, level: float) -> Uncertainty:
        se, dof = self._se("summary"), self._dof()
        z = wald.z_values(self.estimate, se)
        lower, upper = wald.interval(self.estimate, se, level, dof)
        pvalue = wald.two_sided_pvalue(z, dof)
        return Uncertainty(
            se=se, z=z, pvalue=pvalue, lower=lower, upper=upper, noise_share=self._noise_share(), dof=dof
        )


def _no_inference(asked: str) -> Incompatible:
    return Incompatible(f"{asked} needs standard errors, which this fit did not buy: fit with inference=True")


def _frozen_array(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    array = np.array(value, dtype=float)
    if array.shape != shape:
        raise InvalidArgument(f"{name} must have shape {shape}, one entry per name; got {array.shape}")
    array.setflags(write=False)
    return array


def _share(noise: FloatArray, total: FloatArray) -> FloatArray:
    """Return ``noise / total`` in [0, 1], shape (q,): 1 where the noise alone is infinite, NaN if unknown.

    A noisy sampling variance may be negative, so that the quotient alone could exceed 1.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(np.isinf(noise) & np.isinf(total), 1.0, noise / total)
    return np.where(total > 0, np.clip(share, 0.0, 1.0), np.nan)


def _check_record(record: dict[str, Any]) -> None:
    """Raise `SchemaError` unless the outer object is of this format and version."""
    if record.get("format") != _FORMAT:
        raise SchemaError(f'format must be "{_FORMAT}": the JSON was not written by FitResult.to_json')
    version = record.get("format_version")
    if type(version) is not int or version < 1:
        raise SchemaError("format_version must be a whole number from 1")
    if version > _FORMAT_VERSION:
        raise SchemaError("format_version is newer than this privfit can read; upgrade privfit")
    archive.check_keys(record, _RECORD_KEYS, _RECORD_KEYS, "the JSON")
    if not isinstance(record["warning"], str | None) or not isinstance(record["guarantee"], str):
        raise SchemaError("warning and guarantee must be texts")
    versions = record["versions"]
    if not isinstance(versions, dict) or not all(isinstance(item, str) for item in versions.values()):
        raise SchemaError("versions must be an object of texts")
