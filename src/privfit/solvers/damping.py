"""How long the steps of noisy Newton are: small rules that see released quantities only.

All but `Backtracking` decide from the Hessian and gradient that the step has already paid for, which is
post-processing and free.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from privfit._checks import FloatArray, in_range, optional, positive, whole
from privfit.errors import Incompatible
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers.base import floored_inverse
from privfit.solvers.requirements import need_no_scale
from privfit.solvers.self_concordance import self_concordance


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What a step knows: the released derivatives of the objective at ``theta``.

    Parameters
    ----------
    problem : Problem
    theta : array of shape (q,)
    gradient : array of shape (q,)
        Noisy, of loss and ridge.
    matrix : array of shape (q, q)
        Noisy Hessian of loss and ridge, as released.
    floor : float
        Eigenvalues of ``matrix`` are raised to this, the size of its noise.
    inverse : array of shape (q, q)
        Inverse after that.
    """

    problem: Problem
    theta: FloatArray
    gradient: FloatArray
    matrix: FloatArray
    floor: float
    inverse: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inverse", floored_inverse(self.matrix, self.floor))

    @property
    def direction(self) -> FloatArray:
        """The full Newton step, to be subtracted; shape (q,)."""
        return self.inverse @ self.gradient

    def with_ridge(self, l2: float) -> "Proposal":
        """Return the derivatives of the objective plus ``l2 / 2 norm(coefficients)**2``."""
        added = np.zeros(self.problem.size)
        added[: self.problem.n_linear] = l2
        return replace(self, gradient=self.gradient + added * self.theta, matrix=self.matrix + np.diag(added))


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """One step: ``theta - change``.

    Parameters
    ----------
    change : array of shape (q,)
    preconditioner : array of shape (q, q)
        What the noisy gradient was multiplied by.
    eta : float
        Length relative to the full Newton step.
    pure : bool
        Whether all further steps are full ones.
    """

    change: FloatArray
    preconditioner: FloatArray
    eta: float = 1.0
    pure: bool = False

    @classmethod
    def along(cls, proposal: Proposal, eta: float, *, pure: bool = False) -> "Move":
        """Return ``eta`` times the Newton step of a proposal."""
        return cls(eta * proposal.direction, eta * proposal.inverse, eta, pure)


class AbstractDamping(ABC):
    """A rule for the length of Newton steps. Subclasses are final, frozen and hold public numbers."""

    __slots__ = ()

    @property
    def tests(self) -> int:
        """Number of noisy differences of the loss that the rule may ask for, all of them planned and paid."""
        return 0

    @property
    def test_share(self) -> float:
        """Part of the solver's squared budget that these cost together."""
        return 0.0

    def require(self, problem: Problem) -> None:
        """Raise `Incompatible` for a problem that the rule cannot serve."""
        del problem

    @abstractmethod
    def move(self, proposal: Proposal, last: Move | None, *, done: float, oracle: Oracle) -> Move:
        """Return the next step.

        Parameters
        ----------
        proposal : Proposal
        last : Move or None
            The step before; None at the first.
        done : float
            Part of the planned steps that have been taken, in [0, 1).
        oracle : Oracle
            Answers the planned tests, nothing else.
        """


@final
@dataclass(frozen=True, slots=True)
class ConstantStep(AbstractDamping):
    """``eta`` at every step, to the end: the source's equation (9) as it is printed. 1 for pure Newton.

    Far from the optimum pure steps may diverge; it is here for comparison.

    Parameters
    ----------
    eta : float
        In (0, 1].
    """

    eta: float = 1.0

    def __post_init__(self) -> None:
        in_range(0.0, 1.0, closed="right", eta=self.eta)

    def move(self, proposal: Proposal, last: Move | None, *, done: float, oracle: Oracle) -> Move:
        """Return ``eta`` times the Newton step."""
        del last, done, oracle
        return Move.along(proposal, self.eta)


@final
@dataclass(frozen=True, slots=True)
class FixedDamping(AbstractDamping):
    """``eta`` until released quantities show that full steps converge (`in_basin`), and 1 from then on.

    For losses that are not self-concordant a damped step also keeps within the region of `trust`.

    Parameters
    ----------
    eta : float
        In (0, 1].
    """

    eta: float = 0.5

    def __post_init__(self) -> None:
        in_range(0.0, 1.0, closed="right", eta=self.eta)

    def move(self, proposal: Proposal, last: Move | None, *, done: float, oracle: Oracle) -> Move:
        """Return a damped or a full step."""
        del done, oracle
        if (last is not None and last.pure) or in_basin(proposal):
            return Move.along(proposal, 1.0, pure=True)
        return Move.along(proposal, self.eta * trust(proposal, self.eta * proposal.direction))


@final
@dataclass(frozen=True, slots=True)
class SelfConcordantDamping(AbstractDamping):
    """``eta = log(1 + beta) / beta``, ``beta = gamma norm(H^-1 g)``, until `in_basin`, and 1 from then on.

    For a (gamma, 2)-self-concordant objective that step decreases it from any point, without noise (Sun and
    Tran-Dinh 2019, theorem 2; Avella-Medina, Bradshaw and Loh 2023, section 4.4.2).
    """

    def require(self, problem: Problem) -> None:
        """Refuse a loss without a known gamma."""
        if self_concordance(problem) is None:
            raise Incompatible(
                f"damping: SelfConcordantDamping needs a self-concordant loss, such as Logistic, and "
                f"{problem.loss.name} is not known to be one; use damping=FixedDamping()"
            )

    def move(self, proposal: Proposal, last: Move | None, *, done: float, oracle: Oracle) -> Move:
        """Return a damped or a full step."""
        del done, oracle
        if (last is not None and last.pure) or in_basin(proposal):
            return Move.along(proposal, 1.0, pure=True)
        gamma = self_concordance(proposal.problem) or 0.0
        beta = gamma * float(np.linalg.norm(proposal.direction))
        return Move.along(proposal, math.log1p(beta) / beta if beta > 0 else 1.0)


@final
@dataclass(frozen=True, slots=True)
class RidgeTwoStep(AbstractDamping):
    """Damped steps on the objective plus ``l2 / 2 norm(theta)**2`` first, then full ones on the objective.

    The added ridge, which spares nothing but a scale, keeps the Hessian away from 0 where the loss is flat.
    For a loss that is not self-concordant the full steps keep within the region of `trust` until `in_basin`.
    The second part starts when the released derivatives of the objective itself show that full steps converge
    (`in_basin`), and after ``first`` of the steps at the latest. The result is that of the objective.

    Parameters
    ----------
    l2 : float, optional
        In units of the loss. Default: ``n**-0.25`` times the largest curvature; it tends to 0, as the source
        asks, slower than the noise.
    first : float
        Largest part of the steps that the first problem gets, in (0, 1). Below 1/2, so that the gradients of
        the second half, on which inference rests, come after the change.

    References
    ----------
    Avella-Medina, Bradshaw and Loh 2023, section 4.4.2 and equation (12).
    """

    l2: float | None = None
    first: float = 0.35

    def __post_init__(self) -> None:
        optional(positive, l2=self.l2)
        in_range(0.0, 1.0, closed="neither", first=self.first)

    def move(self, proposal: Proposal, last: Move | None, *, done: float, oracle: Oracle) -> Move:
        """Return a damped step on the first problem or a full one on the second."""
        if (last is not None and last.pure) or in_basin(proposal):
            return Move.along(proposal, 1.0, pure=True)
        if done >= self.first:
            return Move.along(proposal, trust(proposal, proposal.direction))
        problem = proposal.problem
        l2 = self.l2 or problem.smoothness * problem.n_rows**-0.25
        damped = default_damping(problem).move(proposal.with_ridge(l2), None, done=done, oracle=oracle)
        return replace(damped, pure=False)


@final
@dataclass(frozen=True, slots=True)
class Backtracking(AbstractDamping):
    """Private backtracking: shrink ``eta`` from 1 until the loss falls enough, as noisy differences show it.

    The test is Armijo's: ``F(theta - eta d) - F(theta) <= -armijo * eta * g'd``, with the released ``g`` and
    ``d = H^-1 g`` and a noisy difference. After the first full step that passes there are no further
    tests. When the planned tests are used up, the last ``eta`` stays.

    Parameters
    ----------
    max_tests : int
        Tests in all, over all steps.
    armijo : float
        In (0, 1/2). Small values accept a step more easily.
    shrink : float
        Factor in (0, 1).
    share : float
        Part of the solver's squared budget that the tests cost together, in (0, 1).

    Notes
    -----
    *Guarantee.* A test asks for the mean of ``(loss(theta - eta d) - loss(theta)) / (eta norm(d))``, whose
    sensitivity ``2 B / n`` does not depend on the points (`Problem.query`), as the loss of a row moves by at
    most ``B`` times their distance. So each has the noise that was planned, whatever ``eta`` and ``d``; in
    units of the loss its sd is ``2 B eta norm(d) sqrt(tests) / (n mu)``. Tests that are not needed cost what
    was planned.

    References
    ----------
    Avella-Medina, Bradshaw and Loh 2023, appendix G, equation (71); Boyd and Vandenberghe 2004, *Convex
    optimization*, section 9.5.2.
    """

    max_tests: int = 10
    armijo: float = 0.1
    shrink: float = 0.5
    share: float = 0.2

    def __post_init__(self) -> None:
        whole(max_tests=self.max_tests)
        in_range(0.0, 0.5, closed="neither", armijo=self.armijo)
        in_range(0.0, 1.0, closed="neither", shrink=self.shrink)
        in_range(0.0, 1.0, closed="neither", share=self.share)

    @property
    def tests(self) -> int:
        """``max_tests``."""
        return self.max_tests

    @property
    def test_share(self) -> float:
        """``share``."""
        return self.share

    def require(self, problem: Problem) -> None:
        """Refuse a loss with a scale: differences are bounded along the coefficients only."""
        need_no_scale(problem, "NoisyNewton(damping=Backtracking())")

    def move(self, proposal: Proposal, last: Move | None, *, done: float, oracle: Oracle) -> Move:
        """Return the first step that passes, asking for tests as long as there are planned ones."""
        del done
        if last is not None and last.pure:
            return Move.along(proposal, 1.0, pure=True)
        if not oracle.remaining("secant"):
            return Move.along(proposal, 1.0 if last is None else last.eta)
        eta = 1.0
        while oracle.remaining("secant"):
            if self._passes(proposal, eta, oracle):
                return Move.along(proposal, eta, pure=eta == 1.0)
            eta *= self.shrink
        return Move.along(proposal, eta)

    def _passes(self, proposal: Proposal, eta: float, oracle: Oracle) -> bool:
        start, ridge = proposal.theta, proposal.problem.ridge
        end = start - eta * proposal.direction
        length = float(np.linalg.norm(end - start))
        if length == 0.0:
            return True
        slope = float(oracle.release("secant", np.concatenate([start, end])).value[0])
        rise = length * slope + 0.5 * float(end @ ridge @ end - start @ ridge @ start)
        return rise <= -self.armijo * eta * float(proposal.gradient @ proposal.direction)


def default_damping(problem: Problem) -> AbstractDamping:
    """Return `SelfConcordantDamping` for a self-concordant loss and ``FixedDamping(0.5)`` for others."""
    return FixedDamping() if self_concordance(problem) is None else SelfConcordantDamping()


def trust(proposal: Proposal, change: FloatArray) -> float:
    """Return the factor that keeps any row's predictor from moving by more than 4 thresholds at once.

    Far from the optimum the Hessian of a Huber loss counts only the rows with small residuals, and a full
    step may lead to where it counts none. 1 for a self-concordant loss, whose Hessian cannot change so fast.
    """
    problem = proposal.problem
    if self_concordance(problem) is not None:
        return 1.0
    return _within(proposal, 4.0, change)


def in_basin(proposal: Proposal) -> bool:
    """Return whether released quantities show that pure Newton steps converge.

    For a self-concordant loss this is the source's condition ``lambda_min(H)^(-1/2) * (g' H^-1 g)^(1/2) <=
    1 / (16 gamma)``. For the others the predicted change of any row's predictor must be below an eighth of a
    threshold, so that few residuals cross a kink.
    """
    gamma = self_concordance(proposal.problem)
    if gamma is None:
        return _within(proposal, 0.125, proposal.direction) == 1.0
    decrement = math.sqrt(max(float(proposal.gradient @ proposal.direction), 0.0))
    return math.sqrt(float(np.linalg.eigvalsh(proposal.inverse)[-1])) * decrement * 16.0 * gamma <= 1.0


def _within(proposal: Proposal, thresholds: float, change: FloatArray) -> float:
    """Return the factor, at most 1, with which ``change`` moves no predictor by more than that many."""
    problem = proposal.problem
    constants = problem.loss.constants
    threshold = constants.slope / constants.curvature
    largest = thresholds * threshold * problem.split(proposal.theta)[1]
    predicted = problem.norm_bound * float(np.linalg.norm(change[: problem.n_linear]))
    return min(1.0, largest / predicted) if predicted > 0 else 1.0
