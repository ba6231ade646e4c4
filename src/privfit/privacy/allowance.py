"""The part of a budget that a set of releases may use, and how it is split among them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from privfit.errors import Incompatible
from privfit.privacy.budget import Budget
from privfit.privacy.composition import Event, GaussianEvent, PureEvent

_SMALLEST = 1e-25
"""Far below what noise is calibrated to, and large enough for its powers to be numbers."""

_SLACK = 1.0 - 1e-12
"""Keeps the sum of the parts at or below the whole in floating point."""


@final
@dataclass(frozen=True, slots=True)
class Allowance:
    """What releases may cost together: ``amount`` in mu of Gaussian, or in epsilon of pure, privacy.

    Parameters
    ----------
    amount : float
        ``mu``, or ``epsilon`` if ``pure``; ``inf`` for no limit.
    pure : bool
        Whether the cost is counted in pure differential privacy (delta = 0).
    budget : Budget or None
        The whole budget that this is a part of. Methods whose cost is neither Gaussian nor pure are
        calibrated against it.
    beside : tuple of Event
        What else the budget has to pay for.
    """

    amount: float
    pure: bool = False
    budget: Budget | None = None
    beside: tuple[Event, ...] = ()

    @classmethod
    def of(cls, budget: Budget) -> "Allowance":
        """Return all of a budget; Gaussian unless the budget is pure.

        Raises
        ------
        Incompatible
            If nothing could be calibrated to any part of it.
        """
        pure = budget.notion == "pure"
        amount = budget.epsilon if pure else budget.mu
        if amount < _SMALLEST:
            unit = "epsilon" if pure else "mu"
            raise Incompatible(f"budget: {unit}={amount:.4g} is too small to calibrate any noise; raise it")
        return cls(amount, pure=pure, budget=budget)

    @classmethod
    def gaussian(cls, mu: float) -> "Allowance":
        """Return an allowance of ``mu``, for which no budget has been declared."""
        return cls(mu, budget=Budget.gdp(mu) if math.isfinite(mu) else None)

    @classmethod
    def unlimited(cls) -> "Allowance":
        """Return an allowance without limit, for a fit without noise."""
        return cls(math.inf)

    @property
    def event(self) -> Event | None:
        """What a release costs that uses all of it; None without limit."""
        if math.isinf(self.amount):
            return None
        return PureEvent(self.amount) if self.pure else GaussianEvent(self.amount)

    def split(self, shares: Sequence[float]) -> list["Allowance"]:
        """Split in parts: part k costs ``shares[k] / sum(shares)`` of ``mu**2``.

        A pure allowance is split in proportion to the square roots of the shares, so that two releases
        have the ratio of noise levels that they would have under a Gaussian allowance.
        """
        if math.isinf(self.amount):
            return [self] * len(shares)
        roots = [math.sqrt(share) for share in shares]
        total = math.fsum(roots) if self.pure else math.sqrt(math.fsum(shares))
        return [replace(self, amount=self.amount * root / total * _SLACK) for root in roots]

    def next_to(self, events: Sequence[Event]) -> "Allowance":
        """Return the same part of a budget that also has to pay for ``events``."""
        return replace(self, beside=(*self.beside, *events))

    def after(self, amounts: Sequence[float], events: Sequence[Event]) -> "Allowance":
        """Return what is left once ``events``, of these amounts, are paid for."""
        if math.isinf(self.amount):
            return self
        if self.pure:
            left = self.amount - math.fsum(amounts)
        else:
            left = math.sqrt(max(self.amount**2 - math.fsum(one**2 for one in amounts), 0.0))
        return replace(self.next_to(events), amount=left * _SLACK)

    def signal(self, size: int) -> float:
        """Return ``mu``, or for a pure allowance the ``mu`` that has the noise of one release.

        A pure release of ``size`` numbers has ``sqrt(size + 1)`` times the noise per number of a Gaussian
        one with ``mu = epsilon``; see `privfit.privacy.pure_mechanisms.radial_vector`.
        """
        return self.amount / math.sqrt(size + 1.0) if self.pure else self.amount
