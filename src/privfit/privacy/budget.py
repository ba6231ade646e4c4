"""A privacy budget in any of the four usual notions, and what it implies in the others."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, final

from privfit._checks import in_range, positive
from privfit.errors import Incompatible, InvalidArgument
from privfit.privacy.curves import (
    gdp_delta,
    gdp_epsilon,
    gdp_mu,
    pair_delta,
    smallest_epsilon,
    zcdp_delta,
)

__all__ = ["Budget", "Notion", "gdp_delta", "gdp_epsilon", "gdp_mu"]

Notion: TypeAlias = Literal["pure", "approximate", "gdp", "zcdp"]


@final
@dataclass(frozen=True, slots=True, init=False, repr=False)
class Budget:
    """What an analysis may spend.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float, default 0.0
        In [0, 1). 0 asks for pure differential privacy, which no Gaussian release can give.

    Attributes
    ----------
    notion : {"pure", "approximate", "gdp", "zcdp"}
        How the budget was declared.

    Raises
    ------
    InvalidArgument
        If an argument is outside its range.

    Notes
    -----
    *Guarantee.* ``epsilon_at`` and ``delta_at`` are upper bounds for every mechanism within the budget, and
    ``mu`` is a lower bound on the GDP cost that fits: each is rounded to the safe side.
    """

    notion: Notion
    _first: float
    _second: float

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        epsilon = positive(epsilon=epsilon)
        delta = in_range(0.0, 1.0, closed="left", delta=delta) + 0.0
        self._declare("approximate" if delta > 0 else "pure", epsilon, delta)

    def _declare(self, notion: Notion, first: float, second: float = 0.0) -> None:
        object.__setattr__(self, "notion", notion)
        object.__setattr__(self, "_first", first)
        object.__setattr__(self, "_second", second)

    @classmethod
    def gdp(cls, mu: float) -> "Budget":
        """Return a budget of μ-Gaussian differential privacy (Dong, Roth and Su 2022)."""
        return cls._make("gdp", positive(mu=mu))

    @classmethod
    def zcdp(cls, rho: float) -> "Budget":
        """Return a budget of ρ-zero-concentrated differential privacy (Bun and Steinke 2016)."""
        return cls._make("zcdp", positive(rho=rho))

    @classmethod
    def _make(cls, notion: Notion, value: float) -> "Budget":
        budget = object.__new__(cls)
        budget._declare(notion, value)
        return budget

    @property
    def epsilon(self) -> float:
        """The declared ε.

        Raises
        ------
        Incompatible
            If the budget was declared in μ or ρ: it has one ε for each δ, see `epsilon_at`.
        """
        return self._declared("epsilon", ("pure", "approximate"), self._first)

    @property
    def delta(self) -> float:
        """The declared δ, 0 for a pure budget.

        Raises
        ------
        Incompatible
            If the budget was declared in μ or ρ: it has one δ for each ε, see `delta_at`.
        """
        return self._declared("delta", ("pure", "approximate"), self._second)

    @property
    def rho(self) -> float:
        """The declared ρ.

        Raises
        ------
        Incompatible
            If the budget was not declared by `Budget.zcdp`.
        """
        return self._declared("rho", ("zcdp",), self._first)

    def _declared(self, name: str, notions: tuple[Notion, ...], value: float) -> float:
        if self.notion not in notions:
            raise Incompatible(
                f"{name} is not part of {self!r}; ask its mu, epsilon_at(delta) or delta_at(epsilon)"
            )
        return value

    @property
    def mu(self) -> float:
        """The largest μ such that every μ-GDP mechanism is within the budget, rounded down.

        0 for a pure budget: no Gaussian release fits it, however large its noise.

        Notes
        -----
        *Guarantee.* For (ε, δ), ``gdp_delta(mu, epsilon) <= delta`` literally; for ρ-zCDP, ``mu**2 <= 2 rho``
        in exact arithmetic (the Rényi divergence between N(0, 1) and N(μ, 1) is αμ²/2 at every order α).
        """
        match self.notion:
            case "pure":
                return 0.0
            case "approximate":
                return gdp_mu(self._first, self._second)
            case "gdp":
                return self._first
            case "zcdp":
                return _root_of_twice(self._first)

    def delta_at(self, epsilon: float) -> float:
        """Return a δ such that every mechanism within the budget is (``epsilon``, δ)-differentially private.

        Parameters
        ----------
        epsilon : float
            At least 0.

        Raises
        ------
        InvalidArgument
            If ``epsilon`` is not in [0, inf).

        Notes
        -----
        *Guarantee.* The smallest such δ, rounded up: `gdp_delta`, `zcdp_delta` (smallest by way of Rényi
        divergences) or `pair_delta`.
        """
        match self.notion:
            case "gdp":
                return gdp_delta(self._first, epsilon)
            case "zcdp":
                return zcdp_delta(self._first, epsilon)
            case _:
                return pair_delta(self._first, self._second, epsilon)

    def epsilon_at(self, delta: float) -> float:
        """Return an ε such that every mechanism within the budget is (ε, ``delta``)-differentially private.

        ``inf`` where no ε is implied: for a ``delta`` below the declared one, and for ``delta=0`` unless the
        budget is pure.

        Parameters
        ----------
        delta : float
            In [0, 1).

        Raises
        ------
        InvalidArgument
            If ``delta`` is not in [0, 1).

        Notes
        -----
        *Guarantee.* ``delta_at(epsilon_at(delta)) <= delta`` literally, where finite.
        """
        delta = in_range(0.0, 1.0, closed="left", delta=delta)
        if self.notion in ("pure", "approximate") and delta == self._second:
            return self._first
        return smallest_epsilon(self.delta_at, delta)

    def describe(self) -> str:
        """Return the budget in words."""
        match self.notion:
            case "pure":
                return f"{self._first:.4g}-differential privacy (pure)"
            case "approximate":
                return f"({self._first:.4g}, {self._second:.4g})-differential privacy"
            case "gdp":
                return f"{self._first:.4g}-Gaussian differential privacy"
            case "zcdp":
                return f"{self._first:.4g}-zero-concentrated differential privacy"

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as JSON-ready types."""
        match self.notion:
            case "gdp":
                return {"notion": "gdp", "mu": self._first}
            case "zcdp":
                return {"notion": "zcdp", "rho": self._first}
            case notion:
                return {"notion": notion, "epsilon": self._first, "delta": self._second}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Budget":
        """Rebuild a budget from `to_dict`'s output, as read back from JSON.

        Raises
        ------
        InvalidArgument
            If ``data`` is not such an output.
        """
        match data:
            case {"notion": "gdp", "mu": mu, **rest} if not rest:
                return cls.gdp(mu)
            case {"notion": "zcdp", "rho": rho, **rest} if not rest:
                return cls.zcdp(rho)
            case {"notion": notion, "epsilon": epsilon, "delta": delta, **rest} if not rest:
                budget = cls(epsilon, delta)
                if budget.notion == notion:
                    return budget
        raise InvalidArgument("data must be the output of Budget.to_dict")

    def __repr__(self) -> str:
        match self.notion:
            case "pure":
                return f"Budget(epsilon={self._first!r})"
            case "approximate":
                return f"Budget(epsilon={self._first!r}, delta={self._second!r})"
            case "gdp":
                return f"Budget.gdp(mu={self._first!r})"
            case "zcdp":
                return f"Budget.zcdp(rho={self._first!r})"


def _root_of_twice(rho: float) -> float:
    """Return the largest float whose square is at most ``2 * rho``, which itself may overflow."""
    square, root = 2 * Fraction(rho), math.sqrt(2.0) * math.sqrt(rho)
    while Fraction(root) ** 2 > square:
        root = math.nextafter(root, 0.0)
    while Fraction(above := math.nextafter(root, math.inf)) ** 2 <= square:
        root = above
    return root
