"""Average marginal effects over public covariates, with standard errors."""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from privfit._checks import FloatArray, listed
from privfit.data.declarations import CategoricalColumn
from privfit.data.schema import suggestion
from privfit.data.tables import Table
from privfit.errors import InvalidArgument
from privfit.inference import effects
from privfit.inference.effects import Differentiated
from privfit.results.contrasts import Estimates
from privfit.results.regression import PUBLIC, Coefficients, Regression, need_mean, scaled_notes
from privfit.results.unusable import footnotes_on_a_curve

_OF_PRIVATE_ROWS = ("overall", "mean", "median", "zero", "all")
"""What statsmodels takes as ``at``."""


@np.errstate(over="ignore", invalid="ignore")
def marginal_effects(given: Coefficients, data: object, variables: Sequence[str] | None) -> Estimates:
    """Return average marginal effects over the rows of a public table.

    Of a numeric covariate: the derivative of the mean in the raw column, whatever its transform, all terms
    that hold it taken together, comparisons held as they are. Of a categorical one: the difference that each
    level makes against the first, everything else as it is.
    """
    regression = given.regression
    need_mean(regression.form, "get_margeff")
    if data is None or (isinstance(data, str) and data in _OF_PRIVATE_ROWS):
        raise InvalidArgument(
            "at is needed: a public table of covariates to average over; the private rows cannot serve"
        )
    table, outputs = regression.opened(data), regression.form.outputs
    declared = dict(regression.encoder.variables)
    if not declared:
        raise InvalidArgument("get_margeff needs a covariate, and the model has an intercept alone")
    chosen = tuple(declared) if variables is None else listed("column names", variables=variables)
    if not chosen:
        raise InvalidArgument("variables must name at least one column of the model")
    names: list[str] = []
    values: list[FloatArray] = []
    derivatives: list[FloatArray] = []
    for name in chosen:
        if not isinstance(name, str) or name not in declared:
            hint = _raw_column(str(name), declared)
            raise InvalidArgument(f"variables names {name!r}, which is no raw column of the model{hint}")
        column = declared[name]
        found = (
            _steps(regression, table, name, column)
            if isinstance(column, CategoricalColumn)
            else [(name, _derivative(regression, table, name))]
        )
        for label, one in found:
            value, derivative = regression.shown(one)
            names += [label if len(outputs) == 1 else f"{label} {output}" for output in outputs]
            values.append(value.mean(axis=0))
            derivatives.append(derivative.mean(axis=0))
    slopes = np.concatenate(derivatives)
    slopes[(slopes == 0.0).all(axis=1)] = np.nan  # a curve that is flat, or so flat that this underflows
    se, dof = given.errors(slopes)
    effect = np.concatenate(values)
    title = f"Average marginal effects over {table.n_rows} given rows"
    jumps = tuple(name for name in regression.encoder.compared if name in chosen)
    scale = scaled_notes(regression.encoder)
    notes = (PUBLIC, *scale, *_held(jumps), *footnotes_on_a_curve(se, "this effect", noisy=given.noisy))
    return Estimates(
        title, tuple(names), effect, np.zeros_like(effect), se, dof, notes=notes, warning=given.warning
    )


def _held(names: Sequence[str]) -> tuple[str, ...]:
    """Say whose effects are those of slopes alone."""
    if not names:
        return ()
    return (
        f"Effects of {', '.join(names)} leave out jumps: comparisons in the formula are held as they are at "
        "each row.",
    )


def _raw_column(name: str, declared: Iterable[str]) -> str:
    """Return which raw column may be meant: the first that a term holds, or one that is near."""
    known = list(declared)
    starts = {one: found.start() for one in known if (found := re.search(_as_word(one), name))}
    if not starts:
        return suggestion(name, known)
    return f"; pass {min(starts, key=lambda one: (starts[one], -len(one)))!r}"


def _as_word(name: str) -> str:
    return rf"(?<![\w.]){re.escape(name)}(?![\w.])"


def _derivative(regression: Regression, table: Table, name: str) -> Differentiated:
    """Return the derivative in a numeric covariate; NaN where the design is infinitely steep."""
    dx = regression.encoder.derivatives(table, name)
    dx[~np.isfinite(dx)] = np.nan
    return effects.slope(regression.design(table), dx, regression.estimate, regression.form.link)


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
