"""From outcomes of two neighbouring tables to lower bounds."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray, in_range
from privfit.auditing.bounds import best_cut, error_rates
from privfit.auditing.result import AuditResult
from privfit.auditing.scores import AbstractOutcomeScore, LinearScore, RepeatScore
from privfit.errors import InvalidArgument

FEWEST_RUNS = 100
"""Runs on each table below which nothing can be said."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is claimed about a mechanism.

    Parameters
    ----------
    subject : str
        Its name.
    relation : str
    epsilon, delta : float
    mu : float or None
    private_noise : bool
    """

    subject: str
    relation: str
    epsilon: float
    delta: float
    mu: float | None = None
    private_noise: bool = True


def compare_outcomes(
    first: FloatArray, second: FloatArray, claim: Claim, *, confidence: float = 0.99
) -> AuditResult:
    """Return lower bounds on epsilon and mu from outcomes of independent runs.

    Parameters
    ----------
    first, second : array of shape (m, k)
        Outcomes with either table; non-finite entries count as 0.
    claim : Claim
    confidence : float
        Probability with which all bounds hold.

    Raises
    ------
    InvalidArgument
        If there are fewer than 100 runs, or the arrays differ in shape.

    Notes
    -----
    *Guarantee.* With probability ``confidence`` the mechanism is neither (ε, δ)-differentially private for an
    ε below ``epsilon``, nor μ-GDP for a μ below ``mu``, whatever it does. One half of the runs teaches two
    attacks and their cuts; the errors on the other half are bounded after Clopper and Pearson (1934), with
    the failure probability split among both errors, both attacks and both measures.
    """
    in_range(0.0, 1.0, closed="neither", confidence=confidence)
    if first.ndim != 2 or first.shape != second.shape or len(first) < FEWEST_RUNS:
        raise InvalidArgument(f"first and second must be (m, k) arrays alike, with m at least {FEWEST_RUNS}")
    first, second = (np.nan_to_num(part, nan=0.0, posinf=0.0, neginf=0.0) for part in (first, second))
    half = len(first) // 2
    known = first[:half], second[:half]
    fresh = first[half:], second[half:]
    scores: tuple[AbstractOutcomeScore, ...] = (LinearScore.learn(*known), RepeatScore.learn(*known))
    failure = (1.0 - confidence) / (2 * len(scores))
    best = {True: (0.0, scores[0].name), False: (0.0, scores[0].name)}
    for score in scores:
        learnt, tried = score.of_learnt(*known), tuple(score.of(part) for part in fresh)
        for gaussian in (False, True):
            cut = best_cut(*learnt, delta=claim.delta, gaussian=gaussian, failure=failure)
            rates = error_rates(tried[0], tried[1], cut, failure)
            found = rates.mu() if gaussian else rates.epsilon(claim.delta)
            if found > best[gaussian][0]:
                best[gaussian] = (found, score.name)
    return AuditResult(
        subject=claim.subject,
        relation=claim.relation,
        trials=len(first),
        confidence=confidence,
        delta=claim.delta,
        epsilon=best[False][0],
        mu=best[True][0],
        claimed_epsilon=claim.epsilon,
        claimed_mu=claim.mu,
        score=best[claim.mu is not None][1],
        private_noise=claim.private_noise,
    )
