"""Names of statsmodels that results lack, and what to read in their place, or why there is nothing."""

from typing import TYPE_CHECKING, Never

_ROWS = "it is a function of the private rows that was not released"
_LIKELIHOOD = "it needs the likelihood of the private rows, which was not released"

_INSTEAD = {
    "tvalues": "it is called zvalues",
    "tvalue": "it is called zvalues",
    "pvalue": "it is called pvalues",
    "sd": "it is called bse",
    "f_test": "use wald_test, whose reference is F where degrees of freedom are finite",
    "summary2": "use summary()",
    "save": "use to_json(path), and FitResult.from_json(path) to read it",
    "df_resid": "every coefficient has degrees of freedom of its own: dof",
    "rsquared": _ROWS,
    "rsquared_adj": _ROWS,
    "prsquared": _LIKELIHOOD,
    "resid": _ROWS,
    "fittedvalues": f"{_ROWS}; predict(table) gives means at public covariates",
    "llf": _LIKELIHOOD,
    "aic": f"{_LIKELIHOOD}; compare_without(terms) compares nested models",
    "bic": f"{_LIKELIHOOD}; compare_without(terms) compares nested models",
}


class ExplainsAbsence:
    """Has `AttributeError` say what a name of statsmodels is called here, or why it cannot exist."""

    __slots__ = ()

    if not TYPE_CHECKING:  # or checkers would let every name pass

        def __getattr__(self, name: str) -> Never:
            instead = f": {_INSTEAD[name]}" if name in _INSTEAD else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{instead}", name=name, obj=self
            )
