"""Whether an analysis may follow others by whose outcomes it was chosen, its cost included.

The exact δ of several costs is an average over outcomes, for costs that are fixed. Who goes on as suits what
came out before has nearly the largest of several averages everywhere: a first release of μ = 0.05 and then,
as its outcome suits, a pure ε or another μ, each of which alone would bring δ(1) to 1e-6, bring it to 2e-6
together. So of analyses that are chosen one after the other there has to be a number that adds up whatever is
chosen, with a limit that is fixed before the first outcome.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias, final

from privfit.privacy.budget import Budget
from privfit.privacy.composition import ApproximateEvent, Event, compose

Analysis: TypeAlias = tuple[Event, ...]
"""What one analysis costs, all of it planned before the first of its outcomes."""

_PARTS: Final = 8
"""Analyses that may count with a δ that is not their own: each has this part of the grant's."""

_LEAST: Final = 1e-300
"""What stands for an ε of 0."""


@final
@dataclass(frozen=True)
class Account:
    """What was spent of a grant, and what may follow.

    Parameters
    ----------
    budget : Budget
        The grant.
    spent : sequence of tuple of Event
        Earlier analyses, in their order.

    Notes
    -----
    *Guarantee.* All analyses together are within the grant, though each may have been chosen by the outcomes
    of earlier ones. The first is planned before there is any, so that its exact cost counts. With others
    these add up: ε under a pure grant (Rogers, Roth, Ullman and Vadhan 2016, *Privacy odometers and
    filters*), ρ (Feldman and Zrnic 2021, *Individual privacy accounting via a Rényi filter*) and squared μ
    (Smith and Thakurta 2022, *Fully adaptive composition for Gaussian differential privacy*; Koskela,
    Tobaben and Honkela 2023). For an (ε, δ) grant it depends on the first analysis what adds up. If that has
    Gaussian and pure costs alone it is squared μ, those of pure events included, up to the μ that implies
    the grant; or ε while all are pure, which never reach beyond it, so that to have that choice adds nothing
    to δ. Others do not follow it. If not it is ε and δ, each up to the grant's (Rogers et al. 2016): of an
    analysis its own if it has pairs alone, else what it costs at an eighth of the grant's δ.
    """

    budget: Budget
    spent: Sequence[Analysis]

    @property
    def events(self) -> tuple[Event, ...]:
        """All that was spent."""
        return tuple(event for analysis in self.spent for event in analysis)

    def followed_by(self, analysis: Analysis) -> "Account":
        """Return the account after an analysis; itself if that costs nothing."""
        return Account(self.budget, (*self.spent, analysis)) if analysis else self

    def admits(self, new: Analysis) -> bool:
        """Return whether an analysis may follow."""
        whole = compose((*self.events, *new))
        if not self.spent or self.budget.notion != "approximate":
            return whole.within(self.budget)
        if compose(self.spent[0]).has_mu:
            pure = whole.has_mu and whole.gaussian == 0
            return whole.within_mu(self.budget) or (pure and whole.basic[0] <= self.budget.epsilon)
        pairs = (*self._pairs, self._pair(new))
        if None in pairs:
            return False
        epsilon, delta = compose(pair for pair in pairs if pair is not None).basic
        return epsilon <= self.budget.epsilon and delta <= self.budget.delta

    @cached_property
    def _pairs(self) -> tuple[ApproximateEvent | None, ...]:
        return tuple(map(self._pair, self.spent))

    def _pair(self, analysis: Analysis) -> ApproximateEvent | None:
        """Return what an analysis counts as; None if that is not finite."""
        cost = compose(analysis)
        if cost.gaussian == 0 and not cost.sampled:
            epsilon, delta = cost.basic
        else:
            delta = self.budget.delta / _PARTS
            epsilon = max(cost.epsilon_at(delta), _LEAST)
        return ApproximateEvent(epsilon, delta) if math.isfinite(epsilon) and delta < 1.0 else None
