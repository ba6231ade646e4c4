"""One fit, from raw columns to a result: encode, plan, reserve, release, infer, report."""

import math

import numpy as np

from privfit._checks import FloatArray
from privfit._progress import running
from privfit._sealed import sealed, withholding
from privfit._threads import small_matrices
from privfit.data.encode import AbstractEncoder
from privfit.estimators.models import Model
from privfit.estimators.objective import plan_fit, reporting_map
from privfit.estimators.opened import OpenedRows, RawRows
from privfit.estimators.options import FitOptions
from privfit.estimators.reserved import reserved
from privfit.inference.infer import Inference, estimate_only, infer
from privfit.planning import preceded
from privfit.problem.oracle import Oracle
from privfit.results import FitResult, PrivacyStatement
from privfit.results.form import ModelForm


@sealed
@withholding
@running("fitting")
def fit(
    model: Model, encoder: AbstractEncoder, raw: RawRows, options: FitOptions
) -> tuple[FitResult, FloatArray]:
    """Fit a model to a table.

    Parameters
    ----------
    model : Model
    encoder : AbstractEncoder
        Built from public facts.
    raw : Table, RowStream or AbstractRowStore
        The rows.
    options : FitOptions

    Returns
    -------
    result : FitResult
    theta : array of shape (n_linear,)
        Released coefficients of the encoded columns, p for each linear predictor of the loss, for
        prediction.

    Raises
    ------
    PrivfitError
        A named subclass: before any budget is spent, if the table's form, the plan or the ledger do not
        allow the fit; after it, if cells do not, as a label that was not declared. Errors of other packages
        come as an `UnexpectedError` without their message, and none keeps a frame in which rows are.

    Notes
    -----
    *Guarantee.* The result is ``options.budget``-private under ``options.relation``, for one row, or for all
    rows of one value of ``options.shares.unit``.
    """
    opened = OpenedRows.of(model, encoder, raw, options)
    problem, noise = opened.problem, options.noise()
    plan = plan_fit(problem, options)
    encoded = opened.ready()
    del opened  # workers let go of rows that are not bounded
    oracle, spend = reserved(problem, plan, encoded, options, noise)
    outcome = carry_out(model, encoder, options, oracle)
    spend.commit()
    return outcome


def carry_out(
    model: Model, encoder: AbstractEncoder, options: FitOptions, oracle: Oracle
) -> tuple[FitResult, FloatArray]:
    """Ask an oracle all that is planned and return what `fit` does."""
    problem = oracle.problem
    options = options.settled(problem)
    matrix, shift = reporting_map(problem, encoder.design)
    with small_matrices(problem.size):
        solution = options.method.run(problem, oracle)
        inference = (
            infer(solution, oracle, directions=matrix) if options.inference else estimate_only(solution)
        )
    theta, exposure = inference.theta, oracle.problem.exposure
    if exposure is not None:
        theta = theta.copy()
        theta[list(problem.constant)] -= exposure.center(constant=True)
    estimate = matrix @ theta + shift
    return _result(
        model=model,
        encoder=encoder,
        options=options,
        oracle=oracle,
        inference=inference,
        estimate=estimate,
        full=solution.full if options.inference else math.inf,
    ), theta


def _penalty(l2: float) -> str:
    """Return what follows the title of a fit whose estimate, and intervals, are of a penalised objective."""
    return f", ridge penalty l2 = {l2:g}" if l2 > 0.0 else ""


def _result(
    *,
    model: Model,
    encoder: AbstractEncoder,
    options: FitOptions,
    oracle: Oracle,
    inference: Inference,
    estimate: FloatArray,
    full: float,
) -> FitResult:
    design = encoder.design
    looks, learned = ((), ()) if options.bought is None else (options.bought.releases, options.bought.ranges)
    plan = preceded(oracle.plan, options.before)
    scale = None if inference.scale is None else inference.scale * design.target.half_width
    loss = oracle.problem.loss if plan.of_loss else None
    return FitResult(
        model=model.fitted_title(loss, design) + _penalty(options.l2),
        target=design.target.name,
        names=design.reported_names,
        estimate=np.asarray(estimate),
        cov_sampling=inference.cov_sampling,
        cov_noise=inference.cov_noise,
        dof=inference.dof,
        joint_dof=inference.joint_dof,
        recoded=inference.recoded,
        scale=scale,
        statement=PrivacyStatement.of(options.budget, plan, private=oracle.private, noise=oracle.noise_label),
        plan=plan,
        releases=(*looks, *oracle.released) if plan.private else (),
        form=ModelForm(
            columns=design.names,
            terms=design.terms,
            link=model.link,
            classes=() if design.target.labels is None else tuple(map(str, design.target.labels)),
            centers=tuple(column.center for column in design.columns),
            half_widths=tuple(column.half_width for column in design.columns),
            quantile=model.quantile,
            learned=learned,
            ordered=options.ordered,
            hiding=tuple(dict.fromkeys(design.terms[place] for place in inference.hiding)),
            held=model.held_to(loss, design),
            full=full if math.isfinite(full) else None,
        ),
        encoder=encoder,
    )
