"""The guarantee behind a result, in numbers and words."""

import math
from dataclasses import dataclass

from privfit._checks import RelationName
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose, round_up
from privfit.problem.plan import Plan
from privfit.results.numbers import significant

ROW = "row"


def unit_in_words(column: str | None) -> str:
    """Return what neighbours differ in, to follow "one", from the column that identifies the privacy unit."""
    return ROW if column is None else f"value of {column}"


@dataclass(frozen=True, slots=True)
class PrivacyStatement:
    """What is promised to the people in the table.

    Parameters
    ----------
    private : bool
        False if the noise was seeded or absent; nothing is then promised.
    relation : {"replace", "add_remove"}
        Neighbouring relation.
    unit : str
        What neighbours differ in: ``"row"``, or ``"value of patient_id"``.
    notion : str
        Notion in which what is spent was declared: "pure", "approximate", "gdp" or "zcdp".
    epsilon, delta : float
        The (epsilon, delta) pair that the whole set of releases satisfies, at the declared delta, or at 0
        where they need none; at 1e-6 for what was declared in mu or rho.
    mu : float
        mu-GDP cost of the whole set of releases; ``inf`` where it is not stated in mu.
    noise : str
        Laws and source of the noise, as ``"discrete Gaussian noise (OpenDP, operating system's entropy)"``
        or ``"seeded: not private"``.
    """

    private: bool
    relation: RelationName
    unit: str
    notion: str
    epsilon: float
    delta: float
    mu: float
    noise: str

    @classmethod
    def of(cls, budget: Budget, plan: Plan, *, private: bool, noise: str) -> "PrivacyStatement":
        """Return what a plan promises, with the noise of this name."""
        pair = budget.notion in ("pure", "approximate")
        delta = _delta(budget, plan) if pair else 1e-6
        if not plan.private:
            epsilon = math.inf
        else:
            epsilon = budget.epsilon if pair else compose(plan.events).epsilon_at(delta)
        return cls(
            private=private,
            relation=plan.relation,
            unit=unit_in_words(plan.unit),
            notion=budget.notion,
            epsilon=epsilon,
            delta=delta,
            mu=plan.mu,
            noise=noise,
        )

    @property
    def _noisy(self) -> bool:
        return math.isfinite(self.epsilon)

    @property
    def mark(self) -> str | None:
        """The line that every rendering of a result without privacy carries; None for a private one."""
        if self.private:
            return None
        reason = "seeded noise" if self._noisy else "no noise"
        return f"NOT PRIVATE ({reason}) — do not release"

    @property
    def guarantee(self) -> str:
        """The guarantee in one line of notation; numbers are rounded up, never down."""
        pair = f"(ε = {round_up(self.epsilon)}, δ = {round_up(self.delta)})-DP"
        change = "replace" if self.relation == "replace" else "add or remove"
        gaussian = f"; μ = {round_up(self.mu)}" if math.isfinite(self.mu) else ""
        promise = f"{pair}, {change} one {self.unit}"
        if self.private:
            return promise + gaussian
        return f"none; secure noise would give {promise}" if self._noisy else "none"

    @property
    def sentence(self) -> str:
        """The guarantee in plain words."""
        if not self.private:
            return _no_promise(seeded=self._noisy)
        verb = "Replacing" if self.relation == "replace" else "Adding or removing"
        who = "any one row" if self.unit == ROW else f"all rows of any one {self.unit}"
        limit = "" if self.delta == 0 else f", except with probability δ = {round_up(self.delta)}"
        return (
            f"{verb} {who} of the table changes the probability of any published result by a factor of at "
            f"most e^ε{_factor(self.epsilon)}{limit}. "
            "This holds for everything released here taken together."
        )

    def caution(self, n_rows: int) -> str | None:
        """Say so if delta is 1/n or larger; None otherwise.

        Parameters
        ----------
        n_rows : int
            Public number n of rows, or of privacy units.

        Notes
        -----
        Publishing one row, drawn at random, satisfies epsilon = 0 and delta = 1/n. Budgets in mu or rho
        declare no delta: they hold at all of them.
        """
        declared = self._noisy and self.notion == "approximate" and self.delta > 0.0
        if not declared or n_rows < max(1.0, 1.0 / self.delta):
            return None
        one = "row" if self.unit == ROW else "privacy unit"
        usual = math.exp(-1.1 * math.log(n_rows))
        return (
            f"δ = {round_up(self.delta)} is 1/n or larger: with n = {n_rows} {one}s, a guarantee with "
            f"such a δ allows publishing a {one} in full. Usual is a δ below 1/n, such as n^-1.1 = "
            f"{significant(usual, 2)}."
        )

    def in_words(self, n_rows: int) -> tuple[str, ...]:
        """Return the guarantee in plain words, with the `caution` if there is one."""
        caution = self.caution(n_rows)
        return (self.sentence,) if caution is None else (self.sentence, caution)


def _delta(budget: Budget, plan: Plan) -> float:
    """Return the declared delta, or 0 where the plan needs none."""
    needed = not plan.private or not compose(plan.events).within(Budget(budget.epsilon))
    return budget.delta if needed else 0.0


def _no_promise(*, seeded: bool) -> str:
    reason = (
        "The noise came from a seed, so that anyone who knows or guesses it can subtract the noise"
        if seeded
        else "No noise was added"
    )
    return f"{reason}: nothing is promised to the people in the table. For tests and teaching only."


def _factor(epsilon: float) -> str:
    """Return what follows "e^ε": its value or, beyond the numbers of a computer, a power of ten."""
    if epsilon < 700:
        return f" ≈ {significant(math.exp(epsilon))}"
    if epsilon < 1e6:
        return f" < 10^{math.ceil(epsilon / math.log(10))}, which is as good as no limit"
    return ", which is no limit"
