"""What is said below a table where a standard error supports no conclusion."""

from collections.abc import Sequence

import numpy as np

from privfit._checks import FloatArray

_NO_REFERENCE = "no finite, positive definite covariance with degrees of freedom for so many hypotheses"

_SHOWN = 8
"""Terms that a note lists."""

_SMALLER = (
    "Closer bounds, where they are known, would help; for amounts of which few are large, their logarithm "
    "(transform in a schema). A column of 0 and 1 hides nothing else if its type is bool, or a schema "
    "declares its levels. With a schema, privfit check shows who holds the table whether cells are missing, "
    "all alike or beyond the bounds."
)
"""What lets noise hide less of a term."""


def reason(about: str, *, noisy: bool, lost: str = "standard error") -> str:
    """Return why nothing can be concluded about something, and what would help.

    Parameters
    ----------
    about : str
        E.g. ``"this coefficient"``.
    noisy : bool
        Whether the fit added noise.
    lost : str
        What is not usable.
    """
    if not noisy:
        return (
            f"the rows do not determine {about}. Columns may be collinear or constant, or separate the "
            "classes, or no row may have the reference level: then name another one."
        )
    return (
        f"the privacy noise left no usable {lost}, or the method has not come near the optimum, so nothing "
        f"can be concluded about {about}. More rows or a larger budget would help, or joining levels that "
        "few rows have, or another reference level if few rows have that one (t_test may tell the others "
        "from each other all the same), or leaving out a column that others add up to, as one of the dummies "
        "of all levels; for columns, or a response, that are not on a unit scale, or whose bounds are far "
        "wider than their values (such columns hide other coefficients too), closer bounds, from a schema or "
        "by scale='private'; and solver='auto' where another was named."
    )


def reason_of_test(*, unknown: bool, noisy: bool) -> str:
    """Return why a joint test cannot be made, if it cannot; ``unknown``: of something that is not known."""
    return reason("these coefficients", noisy=noisy, lost="covariance") if unknown else _NO_REFERENCE


def hidden_by(terms: Sequence[str], n_classes: int) -> tuple[str, ...]:
    """Return which terms other coefficients are given up for, and what would help; nothing without any.

    With more than two classes that may be so in the predictors of some of them alone.
    """
    if not terms:
        return ()
    shown = f"{', '.join(terms[:_SHOWN])}{', ...' if len(terms) > _SHOWN else ''}"
    if n_classes > 2:
        return (
            f"The noise hides {shown} as a whole for one class or more, and so what goes with it: other "
            f"coefficients of the class are given up, too. More rows of it would help. {_SMALLER}",
        )
    return (
        f"The noise hides {shown} as a whole, and so what goes with it: other coefficients are given up, too."
        f" {_SMALLER}",
    )


def of_grids(se: FloatArray | None, quantile: float | None) -> tuple[str, ...]:
    """Return what else may be the cause, and help, where a quantile's standard errors are not finite."""
    if quantile is None or se is None or np.isfinite(se).all():
        return ()
    return (
        "Responses on a coarse grid (counts of a few, rounded numbers) have no density at their quantiles: "
        "there a smoothing width of half the grid's spacing would help, and more rows would not.",
    )


def footnotes(se: FloatArray, about: str, *, noisy: bool) -> tuple[str, ...]:
    """Return what explains standard errors that are not finite; nothing if all are."""
    return () if np.isfinite(se).all() else (f"std err inf or nan: {reason(about, noisy=noisy)}",)


def footnotes_on_a_curve(se: FloatArray, about: str, *, noisy: bool) -> tuple[str, ...]:
    """Return the same for the delta method, whose errors are NaN where a curve has no slope to go by."""
    notes = (f"std err inf: {reason(about, noisy=noisy)}",) if np.isinf(se).any() else ()
    if not np.isnan(se).any():
        return notes
    negative = ", or the privacy noise left a negative variance" if noisy else ""
    return (
        *notes,
        f"std err nan: the curve is too flat or too steep there to go by its slope{negative}, so nothing can "
        f"be concluded about {about}.",
    )
