"""Names of statsmodels that results lack, and what to read in their place, or why there is nothing."""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, ClassVar, Never, ParamSpec, TypeVar

from privfit.errors import InvalidArgument

P = ParamSpec("P")
Returned = TypeVar("Returned")

_ROWS = "it is a function of the private rows that was not released"
_LIKELIHOOD = "it needs the likelihood of the private rows, which was not released"

_INSTEAD = {
    "tvalues": "it is called zvalues",
    "tvalue": "it is called zvalues",
    "pvalue": "it is called pvalues",
    "margeff": "it is called params",
    "margeff_se": "it is called bse",
    "sd": "it is called bse",
    "f_test": "use wald_test, whose reference is F where degrees of freedom are finite",
    "fit": "it is fitted already: formula functions return the result",
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
    "compare_lr_test": f"{_LIKELIHOOD}; compare_without(terms) compares nested models",
    "compare_f_test": f"{_ROWS}; compare_without(terms) compares nested models",
    "t_test_pairwise": "use t_test with the differences, adjust= included",
    "pred_table": _ROWS,
    "converged": f"{_ROWS}; standard errors are inf where a method has not arrived",
    "mle_retvals": f"{_ROWS}; standard errors are inf where a method has not arrived",
    "get_robustcov_results": "standard errors are those of the sandwich already",
    "cov_type": "standard errors are those of the sandwich",
}


OF_PREDICTIONS = {
    "predicted_mean": "it is called predicted",
    "se_mean": "it is called se",
    "var_pred_mean": "it is the square of se",
    "var_pred": "it is the square of se",
    "se_obs": "intervals are for the mean, not for a new response",
}
"""What `ExplainsAbsence` says of predictions, which have no coefficients."""


def takes_level(method: Callable[P, Returned]) -> Callable[P, Returned]:
    """Have a method that takes ``level`` say so where it is given statsmodels' ``alpha``."""

    @wraps(method)
    def explaining(*args: P.args, **kwargs: P.kwargs) -> Returned:
        if "alpha" in kwargs:
            raise InvalidArgument(
                "alpha: level is the coverage of the intervals; statsmodels' alpha=0.05 is level=0.95"
            )
        return method(*args, **kwargs)

    return explaining


class ExplainsAbsence:
    """Has `AttributeError` say what a name of statsmodels is called here, or why it cannot exist."""

    __slots__ = ()

    _instead: ClassVar[Mapping[str, str]] = _INSTEAD

    if not TYPE_CHECKING:  # or checkers would let every name pass

        def __getattr__(self, name: str) -> Never:
            instead = f": {self._instead[name]}" if name in self._instead else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{instead}", name=name, obj=self
            )
