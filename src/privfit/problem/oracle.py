"""The one door: the only object that holds rows and noise. It answers planned queries, and nothing else."""

import math
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import numpy as np

from privfit import _progress
from privfit._checks import FloatArray, in_range
from privfit.data.exposure import Exposure
from privfit.data.source import RowSource
from privfit.errors import PlanViolation
from privfit.losses.base import AbstractLoss
from privfit.privacy.mechanisms import COIN_SIDES, NoiseSource
from privfit.problem.objective import Problem
from privfit.problem.perturb import perturb_matrix, perturb_vector
from privfit.problem.plan import Plan, PlannedRelease, Release, ReleaseKind
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows
from privfit.problem.schedule import held_to
from privfit.problem.totals import HESSIAN_AND_MEAT, matrices_total, query_total

_OF_BASIS = ("basis", "norm_bound", "amplification", "steep")
"""What of a problem depends on its coordinates."""


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
    *Guarantee.* With a private noise source, all answers together cost no more than ``plan.events`` under
    the problem's relation: each answer uses up one planned release, whose noise is checked against the
    sensitivity of the query before a row is read.
    """

    __slots__ = ("_asked", "_noise", "_part", "_queues", "_released", "_sample", "_source", "plan", "problem")

    def __init__(self, problem: Problem, plan: Plan, source: RowSource, noise: NoiseSource) -> None:
        if source.norm_bound > problem.norm_bound:
            raise PlanViolation("the rows are bounded less tightly than the problem says")
        if source.unit != problem.unit:
            raise PlanViolation("the rows are not grouped by the privacy unit of the problem")
        if problem.relation != "add_remove" and source.n_units != problem.n_rows:
            raise PlanViolation("the table does not have the planned number of rows")
        if noise.private and not plan.private:
            raise PlanViolation("a plan without noise needs a source that is marked not private")
        self.problem, self.plan = problem, plan
        self._source, self._noise = source, noise
        self._part, self._sample = 1.0, (1.0, source)
        self._asked: RowSource | None = None
        self._queues: dict[ReleaseKind, deque[PlannedRelease]] = defaultdict(deque)
        for planned in plan.releases:
            self._queues[planned.kind].append(planned)
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
        """The laws of the noise, and its source."""
        label = self._noise.label
        return f"{self.plan.noise} ({label})" if self.private else label

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
            The present problem with another ``basis``, ``norm_bound``, ``amplification`` and ``steep``.
        """
        if problem.basis is None or _fixed(problem) != _fixed(self.problem):
            raise PlanViolation("a change of basis may change nothing but the coordinates")
        self.problem, self._asked = problem, None

    def change_loss(self, loss: AbstractLoss) -> None:
        """Go on with another loss of the same response and parameter, chosen from earlier releases.

        Sensitivities follow from its bounds. Where these are tighter than planned, so is the noise.

        Parameters
        ----------
        loss : AbstractLoss
        """
        present = self.problem.loss
        if type(loss) is not type(present) or loss.n_outputs != present.n_outputs:
            raise PlanViolation("a change of the loss may change nothing but its constants")
        self.problem, self._asked = replace(self.problem, loss=loss), None

    def cut_curvatures(self, most: float) -> None:
        """Cut curvatures of rows in Hessians to ``most`` from now on, a function of earlier releases.

        Sensitivities follow, and so does the noise.
        """
        self.problem = replace(self.problem, most_curved=most)

    def hold_exposures(self, exposure: Exposure) -> None:
        """Go on with exposures that are held to what a look has shown, a function of earlier releases.

        A row keeps its place, and no row's share of any answer gets larger than it could be.

        Parameters
        ----------
        exposure : Exposure
            The problem's, with what is seen of it.
        """
        before = self.problem.exposure
        if (
            before is None
            or exposure != replace(before, seen=exposure.seen)
            or self.problem.basis is not None
        ):
            raise PlanViolation("exposures are held to what is seen of them, in encoded coordinates")
        known = bool(self.problem.constant)
        center, after = before.center(constant=known), exposure.center(constant=known)
        self._source = self._source.exposed(center - after, math.log(exposure.most) - center)
        self._sample, self._asked = (1.0, self._source), None
        self.problem = replace(self.problem, exposure=exposure)

    def change_rows(self, n_rows: int) -> None:
        """Go on dividing sums by a larger number, where the number of rows is private.

        Sensitivities and noise get smaller alike, so that every sum has the noise that was planned for it.

        Parameters
        ----------
        n_rows : int
            A function of public facts and earlier releases.
        """
        if self.problem.relation != "add_remove" or n_rows < self.problem.n_rows:
            raise PlanViolation("a number of rows may only be raised, and only where it is private")
        self.problem, self._asked = replace(self.problem, n_rows=n_rows), None

    def sample(self, part: float) -> None:
        """Ask a random sample of the rows from now on, for answers that need no more; ``1`` for all rows.

        Every row is in the sample by an independent coin, which knows nothing of the rows. The last sample is
        kept, and asked again where the same part is wanted.

        Parameters
        ----------
        part : float
            In (0, 1], rounded up to what a coin can show: the chance of every row. A function of public facts
            and earlier releases.

        Notes
        -----
        *Guarantee.* Whatever the coins show, samples of two neighbours in which the rows that they share are
        chosen alike are neighbours or the same, and the sum over the sample changes by no more than that over
        all rows could. So its noise is the planned one, and answers cost what they cost of all rows, for
        the same sensitivity. They are released divided by ``part``, and so is their noise. That
        sampling hides who is in the sample is not made use of.
        """
        chances = math.ceil(in_range(0.0, 1.0, closed="right", part=part) * COIN_SIDES)
        if chances < COIN_SIDES and not self.problem.shares.plain:
            raise PlanViolation("rows that do not count alike, or not alone, are not sampled one by one")
        sampled = chances / COIN_SIDES
        if sampled not in (1.0, self._sample[0]):
            self._sample = sampled, self._source.sampled(partial(self._noise.coins, chances), sampled)
        if sampled != self._part:
            self._part, self._asked = sampled, None

    def _rows(self) -> RowSource:
        """Return the rows that are asked, bounded in the present coordinates."""
        if self._asked is None:
            rows, problem = self._source if self._part == 1.0 else self._sample[1], self.problem
            self._asked = rows
            if problem.basis is not None:
                self._asked = rows.reweighted(
                    problem.basis,
                    norm_bound=problem.norm_bound,
                    amplification=problem.amplification,
                    slopes=problem.slope_bounds,
                )
        return self._asked

    def release(self, kind: ReleaseKind, at: FloatArray) -> Release:
        """Answer the next planned query of a kind.

        Parameters
        ----------
        kind : str
            Of a mean over the rows, see `Problem.query`.
        at : array of shape (size,), or (2 * size,) for a secant
            Parameter, a function of earlier releases.

        Returns
        -------
        Release
            Its value is the noisy mean over the rows: a vector, or a symmetric matrix. A Hessian is
            multiplied by the scale. Of a sample it is an estimate of the mean over all rows.

        Raises
        ------
        PlanViolation
            If nothing of this kind is left in the plan, the planned sensitivity is too small, or the query
            cannot be asked at this point.
        """
        planned, total = self._held(kind), query_total(self.problem, kind, at)
        return self._answer([planned], at, lambda rows: [total(rows)])[0]

    def release_matrices(self, at: FloatArray) -> list[Release]:
        """Answer the next planned Hessian and the next planned meat, if it can be from one pass.

        Each is what `release` would answer, with noise of its own.

        Parameters
        ----------
        at : array of shape (size,)
            Parameter, a function of earlier releases.
        """
        planned = [self._held(kind) for kind in HESSIAN_AND_MEAT]
        return self._answer(planned, at, matrices_total(self.problem, at))

    def carry_out(self, procedure: AbstractProcedure, at: FloatArray) -> Release:
        """Carry out the next planned procedure of its kind.

        Parameters
        ----------
        procedure : AbstractProcedure
        at : array of shape (size,)
            Public point that it starts from, for the record.

        Raises
        ------
        PlanViolation
            If the plan does not hold this procedure, at the cost that follows from the present problem, or
            with a smaller sensitivity; or if a sample is asked, or slopes are held row by row.
        """
        planned = procedure.planned(self.problem)
        held = self._next(planned.kind)
        if planned.sensitivity > held.sensitivity or planned != replace(
            held, sensitivity=planned.sensitivity
        ):
            raise PlanViolation(f"the plan holds another {planned.kind} than the one asked for")
        if self._part < 1.0:
            raise PlanViolation("a procedure is carried out on all rows")
        if self.problem.steep is not None:
            raise PlanViolation("a procedure does not hold slopes row by row")
        self._queues[planned.kind].popleft()
        with np.errstate(all="ignore"):
            outcome = procedure.carry_out(self.problem, Rows(self.problem, self._rows()), self._noise)
        released = self._record(planned, at, outcome)
        _progress.step("passes")
        return released

    def _held(self, kind: ReleaseKind) -> PlannedRelease:
        """Return the next planned answer of a kind, with the noise that the present sensitivity needs."""
        planned = self._next(kind)
        sensitivity = self.problem.sensitivity(kind, pure=planned.epsilon is not None)
        if sensitivity > planned.sensitivity:
            raise PlanViolation(f"the plan understates the sensitivity of a {kind} release")
        return held_to(planned, sensitivity)

    def _answer(
        self, planned: list[PlannedRelease], at: FloatArray, totals: Callable[[RowSource], list[FloatArray]]
    ) -> list[Release]:
        """Use up planned answers, one of a kind each, and give them, from what computes their flat sums."""
        for one in planned:
            self._queues[one.kind].popleft()
        with np.errstate(all="ignore"):  # a warning would depend on rows
            sums = totals(self._rows())
            noisy = [self._noisy(one, total) for one, total in zip(planned, sums, strict=True)]
        released = [self._record(one, at, value) for one, value in zip(planned, noisy, strict=True)]
        _progress.step("passes", self._part, count=len(planned))
        return released

    def _noisy(self, planned: PlannedRelease, total: FloatArray) -> FloatArray:
        mean = self.problem.mean(planned.kind, total)
        perturb = perturb_vector if mean.ndim == 1 else perturb_matrix
        return perturb(mean, planned, self._noise) / self._part

    def _next(self, kind: ReleaseKind) -> PlannedRelease:
        if not self.remaining(kind):
            raise PlanViolation(f"the plan holds no further {kind} release")
        return self._queues[kind][0]

    def _record(self, planned: PlannedRelease, at: FloatArray, value: FloatArray) -> Release:
        release = Release(planned, at.copy(), value, self._part)
        self._released.append(release)
        return release


def _fixed(problem: Problem) -> tuple[object, ...]:
    """Return what a change of basis leaves as it is."""
    return tuple(getattr(problem, one.name) for one in fields(problem) if one.name not in _OF_BASIS)
