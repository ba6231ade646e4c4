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
        Outcomes with either table. NaN and infinities are outcomes like others.
    claim : Claim
    confidence : float
        Probability with which all bounds hold.

    Raises
    ------
    InvalidArgument
        If there are fewer than 100 runs, or the arrays differ in shape or do not hold real numbers.

    Notes
    -----
    *Guarantee.* With probability ``confidence`` the mechanism is neither (ε, δ)-differentially private for an
    ε below ``epsilon``, nor μ-GDP for a μ below ``mu``, whatever it does. One half of the runs teaches two
    attacks and their cuts; the errors on the other half are bounded after Clopper and Pearson (1934), with
    the failure probability split among both errors, both attacks and both measures.
    """
    in_range(0.0, 1.0, closed="neither", confidence=confidence)
    if not isinstance(claim, Claim):
        raise InvalidArgument(f"claim must be a privfit.auditing.Claim, got {type(claim).__name__}")
    first, second = (_real(part) for part in (first, second))
    if first.ndim != 2 or first.shape != second.shape or len(first) < FEWEST_RUNS:
        raise InvalidArgument(f"first and second must be (m, k) arrays alike, with m at least {FEWEST_RUNS}")
    first, second = _finite(first, second)
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


def _real(outcomes: object) -> FloatArray:
    try:
        found = np.asarray(outcomes)
        return found.astype(np.float64, casting="unsafe" if found.dtype == object else "same_kind")
    except (TypeError, ValueError):
        raise InvalidArgument("first and second must be (m, k) arrays of real numbers") from None


def _finite(first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the outcomes with 0 for what is not finite, and columns that say where that was, if it was."""
    found = [[np.nan_to_num(part, nan=0.0, posinf=0.0, neginf=0.0)] for part in (first, second)]
    for mark in (np.isnan, np.isposinf, np.isneginf):
        marks = mark(first), mark(second)
        if any(one.any() for one in marks):
            for columns, one in zip(found, marks, strict=True):
                columns.append(one.astype(np.float64))
    one, other = (np.hstack(columns) for columns in found)
    return one, other
