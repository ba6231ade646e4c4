"""What an audit found."""

import math
from dataclasses import asdict, dataclass
from typing import Any, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AuditResult:
    """Lower bounds on the privacy loss, beside the claim.

    Parameters
    ----------
    subject : str
        What was audited.
    relation : str
        Neighbouring relation of the game.
    trials : int
        Runs on each of the two tables.
    confidence : float
        Probability with which both bounds hold.
    delta : float
        δ of both epsilons.
    epsilon, mu : float
        Lower bounds. If ε (μ) were smaller, an attack as good as the one seen would have a probability
        below one minus the confidence.
    claimed_epsilon : float
    claimed_mu : float or None
        None if nothing is claimed in GDP.
    score : str
        What told the tables apart.
    private_noise : bool
        Whether the noise was the one that private fits use. Seeded noise stands in for it.
    """

    subject: str
    relation: str
    trials: int
    confidence: float
    delta: float
    epsilon: float
    mu: float
    claimed_epsilon: float
    claimed_mu: float | None
    score: str
    private_noise: bool

    @property
    def violated(self) -> bool:
        """Whether a bound exceeds its claim."""
        return self.epsilon > self.claimed_epsilon or (
            self.claimed_mu is not None and self.mu > self.claimed_mu
        )

    @property
    def tightness(self) -> float:
        """Share of the claim that the attack shows: of μ where one is claimed, else of ε."""
        if self.claimed_mu is not None:
            return self.mu / self.claimed_mu
        return self.epsilon / self.claimed_epsilon if math.isfinite(self.claimed_epsilon) else 0.0

    def summary(self) -> str:
        """Return the finding in words."""
        lines = [
            f"Audit of {self.subject}, neighbours by {self.relation}",
            f"  epsilon at delta = {self.delta:g}: at least {self.epsilon:.4g}, "
            f"claimed {self.claimed_epsilon:.4g}",
        ]
        if self.claimed_mu is not None:
            lines.append(f"  mu: at least {self.mu:.4g}, claimed {self.claimed_mu:.4g}")
        verdict = (
            "The claim is VIOLATED."
            if self.violated
            else f"The claim stands; the attack shows {100 * self.tightness:.0f}% of it."
        )
        noise = "" if self.private_noise else " Seeded noise stood in for private noise."
        lines += [
            f"  {self.trials} runs on each table, confidence {100 * self.confidence:g}%; {self.score}",
            f"  {verdict}{noise}",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready types."""
        return {**asdict(self), "violated": self.violated, "tightness": self.tightness}
