"""Lower bounds on epsilon and mu from the errors of a test that tells two tables apart."""

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy.special import betaincinv, ndtri

from privfit._checks import FloatArray

_MOST_CUTS: Final = 400


@final
@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Upper confidence bounds on both errors of a test.

    Parameters
    ----------
    false_alarm : float
        Bound on the probability of "second" when it was the first table.
    miss : float
        Bound on the probability of "first" when it was the second table.
    """

    false_alarm: float
    miss: float

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε at which these errors are possible under (ε, ``delta``), 0 if any is.

        ``P(second | 2) <= exp(ε) P(second | 1) + δ`` and the same for "first" (Kairouz, Oh and Viswanath
        2015, Theorem 2.1).
        """
        found = 0.0
        for power, error in ((1 - self.miss, self.false_alarm), (1 - self.false_alarm, self.miss)):
            if power - delta > error > 0:
                found = max(found, math.log((power - delta) / error))
        return found

    def mu(self) -> float:
        """Return the smallest μ at which these errors are possible under μ-GDP, 0 if any is.

        ``miss >= Φ(Φ⁻¹(1 − false_alarm) − μ)`` (Dong, Roth and Su 2022, Definition 2.5).
        """
        return max(0.0, -float(ndtri(self.false_alarm)) - float(ndtri(self.miss)))


def clopper_pearson(count: int, trials: int, failure: float) -> float:
    """Return an upper bound on a probability that fails with probability ``failure`` at most."""
    return 1.0 if count >= trials else float(betaincinv(count + 1.0, trials - count, 1.0 - failure))


def error_rates(first: FloatArray, second: FloatArray, cut: float, failure: float) -> ErrorRates:
    """Return bounds on the errors of the test "second if the score exceeds the cut".

    Parameters
    ----------
    first, second : array of shape (m,)
        Scores of independent runs on either table, of which neither score nor cut knows anything.
    cut : float
    failure : float
        Probability with which any of the two bounds may fail.
    """
    alarms = int(np.count_nonzero(first > cut))
    misses = int(np.count_nonzero(second <= cut))
    return ErrorRates(
        clopper_pearson(alarms, first.size, failure / 2), clopper_pearson(misses, second.size, failure / 2)
    )


def best_cut(first: FloatArray, second: FloatArray, *, delta: float, gaussian: bool, failure: float) -> float:
    """Return the cut with the largest bound on scores that are not used for the bound itself.

    Bounds that hold as surely as the final one keep away from cuts at the ends, where few scores decide and
    the largest of many uncertain bounds is one that will not hold up.

    Parameters
    ----------
    first, second : array of shape (m,)
    delta : float
    gaussian : bool
        Whether to look for a large μ, not a large ε.
    failure : float
        As in `error_rates`.
    """
    both = np.concatenate([first, second])
    cuts = np.unique(np.quantile(both, np.linspace(0.0, 1.0, _MOST_CUTS), method="lower"))
    rates = [error_rates(first, second, float(cut), failure) for cut in cuts]
    values = [rate.mu() if gaussian else rate.epsilon(delta) for rate in rates]
    return float(cuts[int(np.argmax(values))])
