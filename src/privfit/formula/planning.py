"""Plans without data: `plan`, `sample_size` and `shortest_split`."""

from collections.abc import Mapping

from privfit._checks import RelationName, coverage
from privfit.data.schema import SchemaLike
from privfit.data.shares import ShareRule
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.budget import choose_budget
from privfit.estimators.options import FitOptions
from privfit.estimators.planned import PlannedFit, described, planned_rows
from privfit.estimators.sample_size import (
    AccuracyPlan,
    SampleSize,
    Wanted,
    accuracy_plan,
    epsilon_needed,
    rows_needed,
)
from privfit.estimators.scales import outlined, scales_of
from privfit.estimators.split import shortest
from privfit.formula.planned_regression import PlannedRegression
from privfit.inference.infer import BudgetSplit
from privfit.losses import AbstractLoss
from privfit.privacy.budget import Budget


def plan(
    formula: str | None = None,
    *,
    n: int,
    schema: SchemaLike,
    model: str | AbstractLoss,
    quantile: float | None = None,
    residual_bound: float | None = None,
    threshold: float | None = None,
    smoothing_width: float | None = None,
    predictor_bound: float | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    budget: Budget | None = None,
    target: str | None = None,
    solver: object = "auto",
    relation: RelationName = "replace",
    l2: float = 0.0,
    inference: bool | BudgetSplit = True,
    scale: float | str | None = None,
    scale_share: float = 0.1,
    unit: str | None = None,
    rows_per_unit: int = 1,
    weights: str | None = None,
    exposure: str | None = None,
    assumptions: Assumptions | None = None,
    level: float = 0.95,
) -> PlannedFit:
    """Say what a fit would ask, spend and buy, without data.

    Parameters
    ----------
    formula : str, optional
        Such as ``"y ~ a + C(b)"``. Default: all columns of the schema.
    n : int
        Number of rows that the table has, or will have; of values of its privacy unit, where there is one.
    schema : Schema, mapping or path
        Public bounds and levels of the columns; see `privfit.Schema`.
    model : {"logit", "ols", "huber", "svm", "quantile", "poisson"} or loss
        The regression, or the loss of an M-estimator.
    quantile : float, optional
        With ``model="quantile"``: which one, in (0, 1). Default: 0.5, the median.
    residual_bound, threshold, smoothing_width, predictor_bound : float, optional
        Public constants of the loss: ``residual_bound`` of `privfit.ols`, ``threshold`` of `privfit.huber`,
        ``width`` of `privfit.quantile` and `privfit.svm`, ``predictor_bound`` of `privfit.poisson`.
    epsilon, delta, budget
        The budget, as in `privfit.logit`.
    target : str, optional
        Response without a formula, if the schema marks none.
    solver, relation, l2 : optional
        As in `privfit.logit`.
    inference : bool or BudgetSplit
        As in `privfit.logit`.
    scale, scale_share : optional
        As in `privfit.logit` and `privfit.huber`, a public scale of residuals included. With
        ``scale="private"`` a fit learns the bounds that the schema leaves open.
        What it will find there is assumed: ``sd`` of a predictor, ``residual_sd`` of a numeric response,
        ``mean`` of counts, or a reference table. Without ``center`` of a predictor, or ``mean`` of a numeric
        response, numbers are taken to start at a bound that is declared, or to be about 0.
    unit, rows_per_unit, weights : optional
        As in `privfit.logit`: the column that identifies the privacy unit, the rows of one up to which all
        count alike, and the column of survey weights.
    exposure : str, optional
        As in `privfit.poisson`. All rows are taken to have the middle of its bounds, unless the assumptions
        have a ``center`` or ``sd`` of the column.
    assumptions : Assumptions, optional
        Public guesses about the table: base rate, coefficients, spreads, shares of levels, or a public
        reference table. The better they are, the better the forecast.
    level : float
        Coverage of the intervals.

    Returns
    -------
    PlannedFit
        ``summary()``, ``table()`` and ``plot()`` show the median width of each coefficient's interval and
        its parts from sampling and from privacy noise; ``plan`` every release; ``budget_split`` the parts of
        the budget; ``power(effect)`` the chance to find a coefficient.

    Raises
    ------
    PrivfitError
        A named subclass, as the fit would raise it, or if an assumption contradicts the schema.

    Notes
    -----
    *Guarantee.* No data are read and nothing is spent. The plan is the one that the fit will follow; where
    the bound of counts is learned, its sensitivities and noise are those of the bound that is expected.

    The forecast is the median of fits of simulated rows with the planned noise, so it follows whatever the
    solver does; see docs/planning.md. It is repeatable: its noise has fixed seeds.

    Examples
    --------
    >>> schema = Schema({
    ...     "high": {"type": "categorical", "levels": ["no", "yes"]},
    ...     "age": {"type": "numeric", "lower": 17, "upper": 90},
    ... })
    >>> planned = plan("high ~ age", n=20_000, schema=schema, model="logit")
    >>> planned.names
    ('Intercept', 'age')
    >>> bool(planned.width["age"] < 0.05)
    True
    """
    n_rows = planned_rows(n=n)
    guesses = Assumptions.of(assumptions)
    residual, share = scales_of(scale, scale_share)
    regression = PlannedRegression.of(
        formula,
        model,
        target,
        exposure,
        quantile=quantile,
        residual_bound=residual_bound,
        threshold=threshold,
        scale=residual,
        smoothing_width=smoothing_width,
        predictor_bound=predictor_bound,
    )
    declared, bounds = outlined(schema, share, unit=unit, weights=weights, exposure=regression.exposure)
    options = FitOptions(
        budget=choose_budget(epsilon, delta, budget),
        shares=ShareRule.of(declared, rows_per_unit),
        solver=solver,
        relation=relation,
        l2=l2,
        inference=inference,
    )
    rehearsal = regression.rehearsal(declared, guesses, bounds)
    return described(rehearsal, options, n_rows=n_rows, level=level)


def sample_size(
    formula: str | None = None,
    *,
    schema: SchemaLike,
    model: str | AbstractLoss,
    quantile: float | None = None,
    residual_bound: float | None = None,
    threshold: float | None = None,
    smoothing_width: float | None = None,
    predictor_bound: float | None = None,
    width: float | Mapping[str, float] | None = None,
    power: float | None = None,
    effect: float | Mapping[str, float] | None = None,
    accuracy: float | None = None,
    coefficient: str | None = None,
    n: int | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    budget: Budget | None = None,
    target: str | None = None,
    solver: object = "auto",
    relation: RelationName = "replace",
    l2: float = 0.0,
    inference: bool | BudgetSplit = True,
    scale: float | str | None = None,
    scale_share: float = 0.1,
    radius: float | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    weights: str | None = None,
    exposure: str | None = None,
    assumptions: Assumptions | None = None,
    level: float = 0.95,
) -> SampleSize | AccuracyPlan:
    """Return the rows, or for given rows the epsilon, that a wanted precision needs.

    Parameters
    ----------
    formula, schema, model, quantile, residual_bound, threshold, smoothing_width, predictor_bound, target, \
solver, relation, l2, inference, scale, scale_share, unit, rows_per_unit, weights, exposure, assumptions, \
level
        As in `plan`.
    width : float or mapping, optional
        Largest median width of an interval, in reported units: of ``coefficient``, or by name.
    power, effect : float, optional
        Probability with which a test of size ``1 - level`` should find a coefficient of size ``effect``; it
        must exceed ``1 - level``. ``effect`` may be a mapping by name.
    accuracy : float, optional
        In place of both: a bound on the expected excess risk of projected noisy gradient descent over a ball.
    coefficient : str, optional
        Which coefficient is meant; may be left out where there is one slope.
    n : int, optional
        Number of rows: then the smallest epsilon at ``delta`` is looked for.
    epsilon, delta, budget
        The budget, where rows are looked for.
    radius : float, optional
        Of the ball, with ``accuracy``; default 4 in encoded coordinates.

    Returns
    -------
    SampleSize or AccuracyPlan
        ``n_rows``, ``budget`` and the ``planned`` fit; with ``accuracy`` ``n_steps`` and ``n_rows``.

    Raises
    ------
    Incompatible
        If no number of rows, or no budget, suffices.
    PrivfitError
        Another named subclass, as in `plan`.

    Examples
    --------
    >>> schema = Schema({
    ...     "high": {"type": "categorical", "levels": ["no", "yes"]},
    ...     "age": {"type": "numeric", "lower": 17, "upper": 90},
    ... })
    >>> needed = sample_size("high ~ age", schema=schema, model="logit", width=0.02)
    >>> bool(1_000 < needed.n_rows < 100_000)
    True
    """
    guesses = Assumptions.of(assumptions)
    coverage(level)
    residual, share = scales_of(scale, scale_share)
    regression = PlannedRegression.of(
        formula,
        model,
        target,
        exposure,
        quantile=quantile,
        residual_bound=residual_bound,
        threshold=threshold,
        scale=residual,
        smoothing_width=smoothing_width,
        predictor_bound=predictor_bound,
    )
    declared, bounds = outlined(schema, share, unit=unit, weights=weights, exposure=regression.exposure)
    options = FitOptions(
        budget=choose_budget(epsilon, delta, budget),
        shares=ShareRule.of(declared, rows_per_unit),
        solver=solver,
        relation=relation,
        l2=l2,
        inference=inference,
    )
    if accuracy is not None:
        if width is not None or power is not None or effect is not None or n is not None:
            raise InvalidArgument(
                "accuracy asks for steps and rows of its own; leave width, power, effect and n out"
            )
        if bounds is not None:
            raise InvalidArgument("accuracy is of coordinates within declared bounds; leave scale out")
        return accuracy_plan(
            regression.model, regression.encoder(declared), options, accuracy=accuracy, radius=radius
        )
    if radius is not None:
        raise InvalidArgument("radius goes with accuracy")
    if not inference:
        raise InvalidArgument("inference must not be False: without it there is no interval and no test")
    wanted = Wanted(width=width, power=power, effect=effect, coefficient=coefficient, level=level)
    rehearsal = regression.rehearsal(declared, guesses, bounds)
    if n is None:
        return rows_needed(rehearsal, options, wanted)
    if budget is not None or epsilon != 1.0:
        raise InvalidArgument("n asks for the epsilon that is needed; leave epsilon and budget out, or n")
    return epsilon_needed(rehearsal, options, wanted, n_rows=planned_rows(n=n))


def shortest_split(
    formula: str | None = None,
    *,
    n: int,
    schema: SchemaLike,
    model: str | AbstractLoss,
    quantile: float | None = None,
    residual_bound: float | None = None,
    threshold: float | None = None,
    smoothing_width: float | None = None,
    predictor_bound: float | None = None,
    epsilon: float = 1.0,
    delta: float = 1e-6,
    budget: Budget | None = None,
    target: str | None = None,
    solver: object = "auto",
    relation: RelationName = "replace",
    l2: float = 0.0,
    scale: float | str | None = None,
    scale_share: float = 0.1,
    unit: str | None = None,
    rows_per_unit: int = 1,
    weights: str | None = None,
    exposure: str | None = None,
    assumptions: Assumptions | None = None,
    level: float = 0.95,
) -> BudgetSplit:
    """Return the split of the budget between estimate, bread and meat that makes intervals shortest.

    Parameters
    ----------
    formula, n, schema, model, quantile, residual_bound, threshold, smoothing_width, predictor_bound, target
        As in `plan`.
    epsilon, delta, budget, solver, relation, l2, scale, scale_share, unit, rows_per_unit, weights, \
exposure, assumptions, level
        As in `plan`.

    Returns
    -------
    BudgetSplit
        Give it as ``inference=`` to a fit. The default one, unless another is forecast to be better by a
        hundredth of the width.

    Raises
    ------
    PrivfitError
        A named subclass, as in `plan`.

    Notes
    -----
    *Guarantee.* No data are read and nothing is spent. The split rests on what is public, so a fit with it
    has the guarantee of any other. Assumptions must not be taken from the table.

    For predictions give ``inference=False``: then bread and meat cost nothing.

    Examples
    --------
    >>> schema = Schema({
    ...     "high": {"type": "categorical", "levels": ["no", "yes"]},
    ...     "age": {"type": "numeric", "lower": 17, "upper": 90},
    ... })
    >>> split = shortest_split("high ~ age", n=20_000, schema=schema, model="logit")
    >>> planned = plan("high ~ age", n=20_000, schema=schema, model="logit", inference=split)
    """
    coverage(level)
    n_rows = planned_rows(n=n)
    residual, share = scales_of(scale, scale_share)
    regression = PlannedRegression.of(
        formula,
        model,
        target,
        exposure,
        quantile=quantile,
        residual_bound=residual_bound,
        threshold=threshold,
        scale=residual,
        smoothing_width=smoothing_width,
        predictor_bound=predictor_bound,
    )
    declared, bounds = outlined(schema, share, unit=unit, weights=weights, exposure=regression.exposure)
    guesses = Assumptions.of(assumptions)
    options = FitOptions(
        budget=choose_budget(epsilon, delta, budget),
        shares=ShareRule.of(declared, rows_per_unit),
        solver=solver,
        relation=relation,
        l2=l2,
    )
    rehearsal = regression.rehearsal(declared, guesses, bounds)
    return shortest(rehearsal, options, n_rows=n_rows, level=level)
