"""What a method may demand of a loss, a relation and a budget; each refusal says what would work."""

from privfit.errors import Incompatible
from privfit.losses import Squared
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.solvers.base import AbstractSolver


def need_smooth(problem: Problem, method: str) -> None:
    """Refuse a loss with a kink."""
    if not problem.loss.constants.smooth:
        raise Incompatible(
            f"solver: {method} needs a loss without kinks, and {problem.loss.name} has one; take "
            f"{problem.loss.smoothed}, or solver=ProjectedNoisyGradientDescent() with inference=False, which "
            "takes any convex loss"
        )


def need_convex(problem: Problem, method: str) -> None:
    """Refuse a loss that is not convex."""
    if not problem.loss.convex:
        raise Incompatible(
            f"solver: {method} needs a convex loss, and {problem.loss.name} is not; "
            "use solver=RandomRoundSGD() or NoisyGradientDescent() with inference=False"
        )


def need_standard_errors(problem: Problem) -> None:
    """Refuse standard errors where there is no positive definite Hessian that they could rest on."""
    name = problem.loss.name
    if not problem.loss.constants.smooth:
        raise Incompatible(
            f"inference: standard errors need the Hessian of the loss, and {name} has a kink; "
            f"take {problem.loss.smoothed}, or fit with inference=False and "
            "solver=ProjectedNoisyGradientDescent(), which takes any convex loss"
        )
    if not problem.loss.convex:
        raise Incompatible(
            f"inference: standard errors need a convex loss, whose optimum is one point, and {name} is not; "
            "fit with inference=False and solver=RandomRoundSGD() or NoisyGradientDescent()"
        )


def need_unpenalised(problem: Problem, method: str) -> None:
    """Refuse intervals of a penalised fit where rows are weighted down whatever the budget is.

    The penalty weighs more against fewer rows: the fit is not the one that was asked for.
    """
    if problem.l2 > 0.0:
        raise Incompatible(
            f"l2: {method} with inference weights rows down at any budget, so that its intervals would not "
            "be those of the penalised fit; use solver='auto', or inference=False"
        )


def need_sums(problem: Problem, solver: AbstractSolver) -> None:
    """Refuse what goes with sums over rows alone, where a method is more than that.

    These are a privacy unit of several rows, where its guarantee is one for single rows, and exposures, of
    which its own ways to look at rows know nothing.
    """
    if problem.exposure is not None and not solver.sums_rows:
        raise Incompatible(
            f"exposure={problem.exposure.name!r}: {solver.name} knows of none; use solver='auto', "
            "NoisyGradientDescent(), NoisyNewton() or another method of noisy sums"
        )
    if problem.unit is not None and not solver.sums_rows:
        raise Incompatible(
            f"solver: {solver.name} protects single rows, and unit={problem.unit!r} asks for more; "
            "use solver='auto', NoisyGradientDescent(), NoisyNewton() or another method of noisy sums"
        )


def need_proven(problem: Problem, method: str) -> None:
    """Refuse a loss from outside where privacy would rest on its declared curvature or convexity."""
    if not problem.loss.proven:
        raise Incompatible(
            f"solver: the guarantee of {method} rests on the curvature of the loss, which cannot be enforced "
            "row by row for functions from outside; use solver='auto', NoisyGradientDescent() or another "
            "method that clamps gradients"
        )


def need_compiled(problem: Problem, method: str) -> None:
    """Refuse functions of arrays where rows are visited one by one in compiled code."""
    if not problem.loss.compiled:
        raise Incompatible(
            f"solver: {method} needs a compiled loss, and the functions of {problem.loss.name} take arrays; "
            "write them for numbers, without vectorized=True, or use solver='auto' or NoisySGD()"
        )


def need_one_predictor(problem: Problem, method: str) -> None:
    """Refuse a loss of several linear predictors."""
    if problem.loss.target_kind == "class":
        raise Incompatible(
            f"solver: {method} needs a loss of one linear predictor, and {problem.loss.name} has one for "
            "every class but the first; use solver='auto', NoisyGradientDescent(), NoisyNewton() or "
            "ProjectedNoisyGradientDescent()"
        )


def need_squared(problem: Problem, method: str) -> None:
    """Refuse every loss but the squared one."""
    if not isinstance(problem.loss, Squared):
        raise Incompatible(
            f"solver: {method} solves least squares only, and the loss is {problem.loss.name}; "
            "use LinearRegression() with it, or solver='auto', which takes this loss"
        )


def need_no_scale(problem: Problem, method: str) -> None:
    """Refuse a loss that estimates a residual scale along."""
    if problem.loss.has_scale:
        raise Incompatible(
            f"solver: {method} cannot estimate a residual scale along, as {problem.loss.name} does; "
            "give HuberRegressor a public scale=, or use solver='auto', NoisyGradientDescent() or "
            "NoisyNewton()"
        )


def need_replace(problem: Problem, method: str) -> None:
    """Refuse the relation that keeps the number of rows private."""
    if problem.relation is not Relation.REPLACE:
        raise Incompatible(
            f"solver: {method} has a guarantee under relation='replace' only; "
            "use that, or solver='auto' with relation='add_remove'"
        )


def need_minimiser(problem: Problem, method: str) -> None:
    """Refuse all in which the minimiser of an objective cannot be released with a proof."""
    need_no_scale(problem, method)
    need_smooth(problem, method)
    need_convex(problem, method)
    need_proven(problem, method)


def need_gaussian(allowance: Allowance, method: str) -> None:
    """Refuse a pure budget."""
    if allowance.pure:
        raise Incompatible(
            f"budget: {method} has no pure-epsilon guarantee (delta = 0); set delta > 0, or use "
            "solver='auto', OutputPerturbation(), ObjectivePerturbation() or ExponentialMechanism()"
        )


def need_pair(allowance: Allowance, method: str) -> Budget:
    """Return the (epsilon, delta) budget, or refuse one that was declared otherwise."""
    need_gaussian(allowance, method)
    if allowance.budget is None:
        raise Incompatible(f"solver: {method} draws rows at random and has no version without noise")
    if allowance.budget.notion != "approximate":
        raise Incompatible(
            f"budget: the cost of {method} is neither a mu nor a rho; give epsilon and delta, "
            "or use solver='auto'"
        )
    return allowance.budget
