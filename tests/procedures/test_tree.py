"""The tree: which rounds a node holds, what is kept, and how much noise a sum has."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from privfit.errors import PlanViolation
from privfit.privacy.composition import GaussianEvent, PureEvent, compose
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.repeated import ExactRepeated, RepeatedGaussian
from privfit.procedures.tree import NoisyTree, depth


class Marked:
    """Adds a vector of its own to every node, and remembers what it was asked."""

    deviation = 1.0

    def __init__(self, size):
        self.size, self.marks, self.asked = size, [], []

    def release(self, value, sensitivity):
        mark = np.zeros(self.size)
        mark[len(self.marks)] = 1.0
        self.marks.append(mark)
        self.asked.append((value.copy(), sensitivity))
        return value + mark


def members(t):
    """Return I_t by its definition: cumulative sums of the binary digits, highest first."""
    found, total = [], 0
    for bit in reversed(range(t.bit_length())):
        if t >> bit & 1:
            total += 1 << bit
            found.append(total)
    return found


def leaves(i):
    return range(i - (i & -i) + 1, i + 1)


def test_flag_a3_the_sums_are_those_of_the_binary_digits():
    """The recursion in the source's proof says "divides" where it needs "at most", which gives {1, 3, 7}."""
    assert members(7) == [4, 6, 7]
    assert members(6) == [4, 6]
    assert members(8) == [8]
    for t in range(1, 300):
        held = [q for i in members(t) for q in leaves(i)]
        assert sorted(held) == list(range(1, t + 1))


def test_a_sum_has_the_noise_of_its_nodes_each_drawn_once():
    size = 200
    noise = Marked(size)
    tree = NoisyTree(size, size, noise)
    for t in range(1, size + 1):
        total, spread = tree.step(np.zeros(size), 1.0)
        assert sorted(np.flatnonzero(total) + 1) == members(t)
        assert set(total) <= {0.0, 1.0}
        assert len(members(t)) <= np.floor(np.log2(t + 1))
        assert spread == pytest.approx(len(members(t)))


@pytest.mark.parametrize("size", [1, 3, 40])
def test_without_noise_a_sum_is_that_of_all_vectors_whatever_their_size(size):
    vectors = np.random.default_rng(1).normal(size=(40, size))
    tree = NoisyTree(size, 40, ExactRepeated(size, make_source(0)))
    for t, vector in enumerate(vectors, start=1):
        np.testing.assert_allclose(tree.step(vector, 1.0)[0], vectors[:t].sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("ratio", [{}, {"ratio": 3.0}])
def test_the_sensitivity_has_the_stated_rounding_of_both_neighbours_in_it(ratio):
    """(j + 1) (j + 2) additions of 2**-53 in 2**j rounds, times how long vectors are, and a division."""
    noise = Marked(64)
    tree = NoisyTree(64, 64, noise, **ratio)
    for _ in range(64):
        tree.step(np.zeros(64), 1.0)
    for i, (_, bound) in enumerate(noise.asked, start=1):
        j = (i & -i).bit_length() - 1
        stated = Fraction(2) ** (j - 53) * (j + 1) * (j + 2) * Fraction(ratio.get("ratio", 1.0))
        assert stated <= Fraction(bound) - 1 <= 4 * stated + Fraction(2) ** -52


def test_nodes_hold_their_rounds_and_the_largest_sensitivity():
    rng = np.random.default_rng(0)
    vectors, sensitivities = rng.normal(size=(64, 64)), rng.uniform(0.1, 5.0, size=64)
    noise = Marked(64)
    tree = NoisyTree(64, 64, noise)
    for vector, sensitivity in zip(vectors, sensitivities, strict=True):
        tree.step(vector, sensitivity)
    for i, (value, bound) in enumerate(noise.asked, start=1):
        rounds = np.array(leaves(i)) - 1
        np.testing.assert_allclose(value, vectors[rounds].sum(axis=0), atol=1e-12)
        assert bound >= sensitivities[rounds].max()
        assert bound == pytest.approx(sensitivities[rounds].max(), rel=1e-9)


def test_what_rounding_adds_to_a_difference_of_neighbours_is_in_the_sensitivity():
    """Vectors as long as stated, one of which changes sign; the computed sums are compared exactly."""
    rounds, size, beyond = 64, 64, 0
    vectors = np.random.default_rng(2).uniform(-1.0, 1.0, size=(rounds, size))
    for changed in range(0, rounds, 7):
        vectors[changed] = 1.0
        other = vectors.copy()
        other[changed] = -1.0
        sums = []
        for table in (vectors, other):
            noise = Marked(size)
            tree = NoisyTree(size, rounds, noise, ratio=0.5)
            for vector in table:
                tree.step(vector, 2.0)
            sums.append(noise.asked)
        for (one, bound), (two, _) in zip(*sums, strict=True):
            apart = [abs(Fraction(a) - Fraction(b)) for a, b in zip(one.tolist(), two.tolist(), strict=True)]
            assert max(apart) <= Fraction(bound)
            beyond += max(apart) > 2
    assert beyond > 20


@pytest.mark.parametrize("rounds", [1, 2, 3, 7, 8, 100, 599])
def test_a_round_is_in_at_most_depth_nodes(rounds):
    counts = np.zeros(rounds + 1, int)
    for i in range(1, rounds + 1):
        counts[list(leaves(i))] += 1
    assert counts.max() == counts[1] == depth(rounds) == int(np.floor(np.log2(rounds))) + 1
    assert depth(rounds) <= np.log2(2 * rounds)


def test_two_trees_of_changes_share_all_but_two_nodes_on_average():
    changed = sum(len(set(members(t)) ^ set(members(t - 1))) for t in range(1, 1025))
    assert changed <= 2 * 1024


@pytest.mark.statistical
@pytest.mark.parametrize("private", [False, True])
def test_the_variance_of_a_sum_is_that_of_its_nodes(private):
    """sum over I_7 of (s sqrt(3) / rho)**2, both ways. False alarms: 1e-8 for each of the two sources."""
    rho, size, repetitions = 0.8, 4, 60 if private else 2000
    source = make_source(None if private else 0)
    nodes = RepeatedGaussian(size, rho / np.sqrt(3), source)
    found = []
    for _ in range(repetitions):
        tree = NoisyTree(size, 7, nodes)
        for t in range(1, 8):
            total, spread = tree.step(np.full(size, 2.0), float(t))
        found.append(total - 14.0)
    variances = [(i * np.sqrt(3) / rho) ** 2 for i in members(7)]
    statistic = float(np.sum(np.square(found))) / sum(variances)
    low, high = chi2.ppf([0.5e-8, 1 - 0.5e-8], size * repetitions)
    assert low < statistic < high
    assert spread == pytest.approx(np.sqrt(variances).sum(), rel=1e-5)


def test_the_nodes_of_a_round_cost_what_was_planned():
    for rounds in (1, 3, 8, 1000, 10**6):
        for amount in (1e-2, 0.3, 7.0):
            count = depth(rounds)
            gaussian = [GaussianEvent(amount / np.sqrt(count) * (1 - 1e-12))] * count
            assert compose(gaussian).gaussian <= amount
            pure = [PureEvent(amount / count * (1 - 1e-12))] * count
            assert sum(event.epsilon for event in pure) <= amount


def test_a_tree_is_private_and_finite():
    tree = NoisyTree(2, 3, ExactRepeated(2, NoNoise()))
    for _ in range(3):
        tree.step(np.ones(2), 1.0)
    with pytest.raises(PlanViolation, match="no more rounds"):
        tree.step(np.ones(2), 1.0)
    assert "1" not in repr(tree)
    with pytest.raises(TypeError):
        tree.__reduce__()
    with pytest.raises(PlanViolation):
        ExactRepeated(2, make_source(None))
