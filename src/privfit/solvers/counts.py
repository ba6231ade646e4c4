"""How large counts are: a bound that none comes near is lowered to what a look at them shows."""

import math
from collections.abc import Sequence

import numpy as np

from privfit.losses import Poisson
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Release, ReleaseKind
from privfit.solvers.base import with_loss
from privfit.solvers.exposures import held_to_exposures
from privfit.solvers.histogram import largest_seen

_RARER = 100.0
"""How many times rarer than those that noise shows counts beyond the bound are to be."""

_MOST_HIDDEN = 0.25
"""Share of counts that noise may hide: where it is more, the look says nothing."""

_LEAST = 2.0
"""Least bound on counts."""

_LOOK, _LOOKS = 0.9, (0.01, 0.05)
"""Part of the squared budget for the look, times the root of the signal ``n mu``, and its limits."""

_EXPOSURES = 0.5
"""Part of the squared budget for a look at exposures, relative to that for the look at counts."""

_TO_SEE, _MOST = 80.0, 0.3
"""Signal ``n mu`` of a look from which on it shows nearly all counts, and the most that is paid for it."""

_MOMENT, _MOMENT_OF_COUNTS = 0.10, 0.07
"""Part of a solver's squared budget that a second moment is worth before inference."""


def has_counts(problem: Problem) -> bool:
    """Return whether `held_to_counts` asks for `count_looks`, which have to be planned."""
    return isinstance(problem.loss, Poisson)


def look_share(problem: Problem, signal: float) -> float:
    """Return the part of a solver's squared budget that a look at counts is worth.

    With little budget noise hides most counts, and a look decides how large all other noise is; with much a
    small part shows all but the rarest.
    """
    return float(np.clip(_LOOK / math.sqrt(problem.n_rows * signal), *_LOOKS))


def share_to_see(problem: Problem, signal: float) -> float:
    """Return the part of a solver's squared budget that it takes to see counts, if it can be paid.

    For fits without inference: a bound that none comes near makes all other noise larger, and with few rows
    predictions are worth more or less than a constant's by that. At least `look_share`.
    """
    seen = (_TO_SEE / (problem.n_rows * signal)) ** 2
    return float(np.clip(seen, look_share(problem, signal), _MOST))


def moment_share(problem: Problem) -> float:
    """Return the part of a solver's squared budget that the second moment is worth before inference.

    Slopes of counts are bounded generously beside usual ones. So the noise of gradients, which is bought down
    by what is left, is larger in their intervals.
    """
    return _MOMENT_OF_COUNTS if has_counts(problem) else _MOMENT


def count_looks(problem: Problem, share: float) -> dict[ReleaseKind, float]:
    """Return the looks that `held_to_counts` takes, by the part of a solver's budget of the first."""
    if not isinstance(problem.loss, Poisson):
        return {}
    looks: dict[ReleaseKind, float] = {"counts": share}
    if problem.exposure is not None:
        looks["exposures"] = _EXPOSURES * share
    return looks


def held_to_counts(problem: Problem, oracle: Oracle) -> Problem:
    """Look at how large counts are, and return the problem with a bound on them to suit.

    The oracle goes on with it, and with the less noise that it asks for. Where noise hides all but zeros the
    bound stays: what is special about the other rows would be cut. Other responses are left alone. Where
    counts have exposures they are looked at after that.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    """
    if not isinstance(problem.loss, Poisson):
        return problem
    look = oracle.release("counts", np.array(problem.start))
    loss = _held(problem.loss, look)
    if loss != problem.loss:
        problem = with_loss(problem, oracle, loss)
    return problem if problem.exposure is None else held_to_exposures(problem, oracle, look)


def look_at_counts(releases: Sequence[Release]) -> Release | None:
    """Return the last of these that says how large counts are, None without one."""
    looks = [release for release in releases if release.planned.kind == "counts"]
    return looks[-1] if looks else None


def _held(loss: Poisson, look: Release) -> Poisson:
    """Return the loss with the bound on counts that a look at them shows."""
    seen = largest_seen(look)
    if seen is None or seen.hidden > _MOST_HIDDEN or seen.number == 1:
        return loss
    largest = seen.below(loss.count_bound)
    if largest < 1.0:
        return loss
    room = 1.0 if seen.hidden == 0.0 else 1.0 - math.log(_RARER) / math.log(seen.hidden)
    return loss.up_to(max(room * largest, _LEAST))
