"""Tails that released shares of rows by size allow, worked out one by one."""

import math
from itertools import pairwise

import numpy as np
from scipy.optimize import brentq

SLOPES = [1.0 + k / 3.0 for k in range(34)]
BENDS = [-2.0 + 0.5 * k for k in range(11)] + [3.5 * (24.0 / 3.5) ** (k / 8.0) for k in range(9)]


def beginning(shares, noise, total=None):
    """Return the number of the first class of the tail; None if noise hides it."""
    n, found = len(shares), None
    for k in range(n):
        beyond, left = sum(shares[k:]), n - k
        error = noise * math.sqrt(left)
        if total is not None:
            beyond += (total - sum(shares)) * left / n
            error *= math.sqrt(1.0 - left / n)
        if beyond > 6.0 * error:
            found = k
    return found


def places(low, high, *, whole):
    """Return eight places that stand for a class, and their widths."""
    edges = [low + (high - low) * k / 8.0 for k in range(9)]
    if not whole:
        return [(0.5 * (a + b), b - a) for a, b in pairwise(edges)]
    numbers = [math.ceil(edge * (1.0 - 1e-12)) for edge in edges]
    return [(a + 0.5 * (b - a - 1), b - a) for a, b in pairwise(numbers) if b > a]


class TailsByHand:
    """What `privfit.solvers.hidden_tail` is to find."""

    def __init__(self, shares, noise, edges, *, total=None, whole=False, explained=None):
        first = beginning(shares, noise, total)
        if explained is not None:
            n = len(shares)
            left = [sum(explained[k:]) > 2.0 * noise * math.sqrt(n - k) for k in range(n)]
            first = max(first, sum(left))
            shares = np.asarray(shares) - explained
        self.first, seen = first, np.asarray(shares, dtype=float)[first:]
        self.begin = edges[first]
        classes = [
            places(a, b, whole=whole) for a, b in zip(edges[first:-1], edges[first + 1 :], strict=True)
        ]
        one = self.begin if self.begin > 0.0 else classes[0][0][0]
        self.places = np.array([place for each in classes for place, _ in each])
        likelihoods, self.rows = [], []
        for slope in SLOPES:
            for bend in BENDS:

                def density(place, slope=slope, bend=bend):
                    log = math.log(place / one)
                    straight = max(slope - 2.0, 0.0) / -bend if bend < 0.0 else math.inf
                    if log <= straight:
                        return math.exp(-slope * log - 0.5 * bend * log**2)
                    until = math.exp(-slope * straight - 0.5 * bend * straight**2)
                    return until * math.exp(-(slope + bend * straight) * (log - straight))

                shape = np.array([sum(density(place) * width for place, width in each) for each in classes])
                height = max(float(shape @ seen), 0.0) / float(shape @ shape)
                likelihoods.append(-0.5 * float(np.sum((seen - height * shape) ** 2)) / noise**2)
                self.rows.append(
                    [height * density(place) * width for each in classes for place, width in each]
                )
        chances = np.exp(np.array(likelihoods) - max(likelihoods))
        self.evidence = max(likelihoods) + math.log(chances.mean())
        self.chances = chances / chances.sum()
        self.expected = self.chances @ np.array(self.rows)

    def excess(self, bound):
        """Return the mean of what sizes are expected to be beyond a bound by."""
        return float(self.expected @ np.maximum(self.places - bound, 0.0))

    def bound(self, allowed):
        """Return where this is what is allowed, the beginning at least."""

        def more(bound):
            return self.excess(bound) - allowed(bound)

        return brentq(more, self.begin, self.places[-1], xtol=1e-15) if more(self.begin) > 0.0 else self.begin
