"""The distinguishing game: run a solver on two worst-case neighbours, many times, and tell them apart."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from privfit import _progress
from privfit._checks import FloatArray, in_range, positive, sized, true_or_false, whole
from privfit.auditing.compare import FEWEST_RUNS, Claim, compare_outcomes
from privfit.auditing.result import AuditResult
from privfit.data.clamp import influence_weights, schweppe_weights
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument
from privfit.inference.infer import ask_planned
from privfit.losses import AbstractLoss, Squared
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import NoiseSource, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import LARGEST_RIDGE, Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan
from privfit.solvers import AbstractSolver, settle

DELTA: Final = 1e-6
"""Where the epsilon of a budget in GDP or zCDP is compared."""

_FAR: Final = 1e6
"""A response that saturates every bounded slope."""


@final
@dataclass(frozen=True, slots=True)
class _Game:
    """Everything about the runs."""

    problem: Problem
    solver: AbstractSolver
    plan: Plan
    tables: tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]
    noise: NoiseSource

    def play(self, second: bool, trials: int) -> FloatArray:
        """Return what each of so many runs releases, shape (trials, k), padded with 0."""
        source = self._source(*self.tables[second])
        outcomes = [self._run(source) for _ in range(trials)]
        width = max(len(outcome) for outcome in outcomes)
        padded = np.zeros((trials, width))
        for row, outcome in zip(padded, outcomes, strict=True):
            row[: len(outcome)] = outcome
        return padded

    def _source(self, x: FloatArray, y: FloatArray) -> ArraySource:
        weighting = schweppe_weights if self.problem.loss.scales_rows else influence_weights
        return ArraySource(x, y, norm_bound=self.problem.norm_bound, weighting=weighting)

    def _run(self, source: ArraySource) -> FloatArray:
        oracle = Oracle(self.problem, self.plan, source, self.noise)
        solution = self.solver.run(self.problem, oracle)
        _progress.step("runs")
        if self.plan.inference_releases:
            ask_planned(solution, oracle)
        return np.concatenate([np.ravel(release.value) for release in oracle.released])


def audit(
    solver: object = "auto",
    loss: AbstractLoss | None = None,
    *,
    budget: Budget | None = None,
    relation: str = "replace",
    trials: int = 10_000,
    confidence: float = 0.99,
    n_rows: int = 10,
    norm_bound: float = 1.0,
    reach: float = 1.0,
    l2: float = 0.0,
    inference: bool = False,
    random_state: object = None,
) -> AuditResult:
    """Attack a solver and return lower bounds on its privacy loss, to hold against its claim.

    The attacker knows both tables, sees every release of a run, and says which table it was. In the game all
    rows are 0 but one, which has the largest influence that the bounds allow and pulls the coefficient up in
    one table and down in the other (``add_remove``: is missing there).

    Parameters
    ----------
    solver : str or AbstractSolver
        As in estimators.
    loss : AbstractLoss, optional
        Default: `Squared`, whose slope reaches its bound in both directions.
    budget : Budget, optional
        What the solver may spend, and so claims. Default: μ-GDP with μ = 1.
    relation : {"replace", "add_remove"}
    trials : int
        Runs on each table, at least 100. With 10,000 the bound on a μ of 1 is about 0.05 below the best
        attack.
    confidence : float
        Probability with which the bounds hold.
    n_rows : int
        Rows of the tables. Noise scales along, so few will do.
    norm_bound : float
        Public bound on the norm of a row.
    reach : float
        Norm of the extreme row in units of the bound. Above 1 it tests that rows are held to it.
    l2 : float
        Ridge weight, which some solvers need.
    inference : bool
        Whether the releases for standard errors are bought and attacked, too.
    random_state : None, int, RandomState or Generator
        None for the noise of private fits; a seed makes the audit repeatable, with noise of the same law.

    Returns
    -------
    AuditResult

    Raises
    ------
    Incompatible
        If the solver cannot serve this loss or budget, or claims nothing.
    InvalidArgument
        If an argument is out of range or of the wrong type.

    Notes
    -----
    *Guarantee.* As for `compare_outcomes`. An attack that fails proves nothing: a bound below the claim means
    that this attack on these tables found no more. Steps on sampled rows, and draws, show only a small
    part of their cost in any one pair of tables.

    Examples
    --------
    >>> result = audit("gradient-descent", trials=400, random_state=0)
    >>> result.violated
    False
    """
    loss = Squared(1.0) if loss is None else loss
    if not isinstance(loss, AbstractLoss):
        raise InvalidArgument("loss must be one of privfit.losses, such as Logistic()")
    budget = Budget.gdp(1.0) if budget is None else budget
    if not isinstance(budget, Budget):
        raise InvalidArgument(f"budget must be a privfit.Budget, got {type(budget).__name__}")
    inference = true_or_false(inference=inference)
    trials = whole(FEWEST_RUNS, trials=trials)
    in_range(0.0, 1.0, closed="neither", confidence=confidence)
    problem = _problem(loss, whole(2, n_rows=n_rows), Relation(relation), sized(norm_bound=norm_bound), l2)
    chosen, spent = settle(solver, problem, budget, inference=inference)
    plan = make_plan(problem, chosen, Allowance.of(spent), inference=inference)
    if not plan.private:
        raise Incompatible("solver: it claims no privacy that could be audited; take a private one")
    noise = make_source(random_state)
    game = _Game(problem, chosen, plan, _tables(problem, positive(reach=reach)), noise)
    with _progress.running("auditing"):
        _progress.expect("runs", 2 * trials)
        outcomes = game.play(False, trials), game.play(True, trials)
    width = max(part.shape[1] for part in outcomes)
    first, second = (np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in outcomes)
    return compare_outcomes(first, second, _claim(game, spent), confidence=confidence)


def _claim(game: _Game, budget: Budget) -> Claim:
    delta = budget.delta if budget.notion in ("pure", "approximate") else DELTA
    cost = compose(game.plan.events)
    return Claim(
        subject=f"{game.plan.solver} on {game.plan.model}, {budget.describe()}",
        relation=game.problem.relation.value,
        epsilon=budget.epsilon_at(delta),
        delta=delta,
        mu=cost.mu,
        private_noise=game.noise.private,
    )


def _problem(loss: AbstractLoss, n_rows: int, relation: Relation, norm_bound: float, l2: float) -> Problem:
    start = (0.0,) * loss.n_outputs + ((0.5,) if loss.has_scale else ())
    return Problem(
        loss=loss,
        columns=("x",),
        norm_bound=norm_bound,
        n_rows=n_rows,
        relation=relation,
        l2=in_range(0.0, LARGEST_RIDGE, l2=l2),
        start=start,
        penalised=(True,),
        bounded=True,
        response_bound=1.0,
    )


def _tables(
    problem: Problem, reach: float
) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    last_class = float(problem.loss.n_outputs)
    ends = {"binary": (0.0, 1.0), "class": (0.0, last_class), "count": (0.0, _FAR)}
    low, high = ends.get(problem.loss.target_kind, (-_FAR, _FAR))
    x, y = np.zeros((problem.n_rows, 1)), np.zeros(problem.n_rows)
    x[0] = reach * problem.norm_bound
    if problem.relation is Relation.ADD_REMOVE:
        return (x[1:].copy(), y[1:].copy()), (x, np.concatenate([[high], y[1:]]))
    return (x, np.concatenate([[low], y[1:]])), (x.copy(), np.concatenate([[high], y[1:]]))
