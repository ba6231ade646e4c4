import math
from collections import Counter
from itertools import product

import pytest

from privfit.privacy.curves import gdp_delta


def divergence(mu, pairs, epsilon):
    """Divergence of a Gaussian release with failing randomised responses, summed over all outcomes."""
    success, outcomes = 1.0, Counter({0.0: 1.0})
    for e, delta in pairs:
        success *= 1 - delta
        truth = 1 / (1 + math.exp(-e))
        fresh = Counter()
        for (loss, weight), (sign, share) in product(outcomes.items(), ((1, truth), (-1, 1 - truth))):
            fresh[round(loss + sign * e, 12)] += weight * share
        outcomes = fresh

    def curve(at):
        if mu == 0:
            return max(0.0, -math.expm1(at))
        return gdp_delta(mu, at) if at >= 0 else -math.expm1(at) + math.exp(at) * gdp_delta(mu, -at)

    return 1 - success * (1 - sum(w * curve(epsilon - loss) for loss, w in outcomes.items()))


@pytest.fixture
def exact_delta():
    """δ of a Gaussian release beside (ε, δ) releases, as a function of mu, pairs and ε."""
    return divergence
