"""The one door: the only object that holds rows and noise. It answers planned queries, and nothing else."""

from collections import deque

from privfit._checks import FloatArray
from privfit.data.source import RowSource
from privfit.errors import PlanViolation
from privfit.privacy.mechanisms import NoiseSource, gaussian_symmetric, gaussian_vector
from privfit.problem.objective import Problem
from privfit.problem.plan import Plan, PlannedRelease, Release, ReleaseKind


class Oracle:
    """Answers the queries of a plan, each once, with its planned noise.

    Parameters
    ----------
    problem : Problem
        The objective; its bounds give every sensitivity.
    plan : Plan
        What may be asked.
    source : RowSource
        The rows. Not reachable from outside.
    noise : NoiseSource
        The noise.

    Notes
    -----
    *Guarantee.* With a private noise source, all answers together are ``plan.mu``-GDP under the problem's
    relation: each answer uses up one planned release, whose noise is checked against the sensitivity of
    the query before a row is read.
    """

    __slots__ = ("_current", "_noise", "_queues", "_released", "_source", "plan", "problem")

    def __init__(self, problem: Problem, plan: Plan, source: RowSource, noise: NoiseSource) -> None:
        if source.norm_bound > problem.norm_bound:
            raise PlanViolation("the rows are bounded less tightly than the problem says")
        if problem.relation != "add_remove" and source.n_rows != problem.n_rows:
            raise PlanViolation("the table does not have the planned number of rows")
        if noise.private and not plan.private:
            raise PlanViolation("a plan without noise needs a source that is marked not private")
        self.problem, self.plan = problem, plan
        self._source, self._noise = source, noise
        self._current = source
        self._queues: dict[ReleaseKind, deque[PlannedRelease]] = {}
        for planned in plan.releases:
            self._queues.setdefault(planned.kind, deque()).append(planned)
        self._released: list[Release] = []

    def __repr__(self) -> str:
        return f"Oracle({self.plan.model}, {len(self._released)} of {len(self.plan.releases)} releases)"

    def __reduce__(self) -> str:
        raise TypeError("an oracle holds private rows and cannot be pickled")

    @property
    def private(self) -> bool:
        """False if the noise is seeded or absent."""
        return self._noise.private

    @property
    def noise_label(self) -> str:
        """Name of the noise source."""
        return self._noise.label

    @property
    def released(self) -> tuple[Release, ...]:
        """All answers so far."""
        return tuple(self._released)

    def remaining(self, kind: ReleaseKind) -> int:
        """Return how many planned answers of a kind are left."""
        return len(self._queues.get(kind, ()))

    def change_basis(self, problem: Problem) -> None:
        """Go on in other coordinates of the parameter, chosen from earlier releases.

        Rows get the Mallows weight ``min(1, norm_bound**2 / norm(P'x)**2)`` of the new coordinates.
        Sensitivities follow from the new bounds, and are checked against the plan at every release.

        Parameters
        ----------
        problem : Problem
            The present problem with another ``basis``, ``norm_bound`` and ``amplification``.
        """
        if problem.basis is None or (problem.loss, problem.n_rows, problem.relation) != (
            self.problem.loss,
            self.problem.n_rows,
            self.problem.relation,
        ):
            raise PlanViolation("a change of basis may change nothing but the coordinates")
        self._current = self._source.reweighted(
            problem.basis, norm_bound=problem.norm_bound, amplification=problem.amplification
        )
        self.problem = problem

    def release(self, kind: ReleaseKind, at: FloatArray) -> Release:
        """Answer the next planned query of a kind.

        Parameters
        ----------
        kind : {"gradient", "hessian", "second_moment", "meat"}
        at : array of shape (size,)
            Parameter, a function of earlier releases.

        Returns
        -------
        Release
            Its value is the noisy mean over the rows: a vector, or a symmetric matrix. A Hessian is
            multiplied by the scale.

        Raises
        ------
        PlanViolation
            If nothing of this kind is left in the plan, or the planned sensitivity is too small.
        """
        if not self.remaining(kind):
            raise PlanViolation(f"the plan holds no further {kind} release")
        planned = self._queues[kind][0]
        if self.problem.sensitivity(kind) > planned.sensitivity:
            raise PlanViolation(f"the plan understates the sensitivity of a {kind} release")
        kernel = self.problem.kernel(kind, at)
        self._queues[kind].popleft()
        total = self._current.sum(kernel, self.problem.sum_length(kind))
        mean = self.problem.mean(kind, total)
        release = Release(planned, at.copy(), self._perturb(kind, mean, planned))
        self._released.append(release)
        return release

    def _perturb(self, kind: ReleaseKind, mean: FloatArray, planned: PlannedRelease) -> FloatArray:
        if kind == "gradient":
            return gaussian_vector(
                mean, sensitivity=planned.sensitivity, mu=planned.mu, sd=planned.sd, source=self._noise
            )
        return gaussian_symmetric(
            mean,
            sensitivity=planned.sensitivity,
            mu=planned.mu,
            sd=planned.sd,
            source=self._noise,
        )
