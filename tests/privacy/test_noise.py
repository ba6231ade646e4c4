import copy
import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binom, chi2, kstest

from privfit.errors import Incompatible, InvalidArgument
from privfit.privacy import noise
from privfit.privacy.noise import COIN_SIDES, NoNoise, SecureNoise, SeededNoise
from privfit.privacy.samplers import LARGEST_SD, LATTICE_BITS, MARGIN, SMALLEST_SD, gaussian_mu

FALSE_ALARM = 1e-8
"""Of each single check below; SecureNoise cannot be seeded."""

SOURCES = [SecureNoise(), SeededNoise(5)]


def scale_is(draws, sd):
    """Two-sided chi-square test of the scale."""
    statistic = float(np.sum((draws / sd) ** 2))
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], draws.size)
    return low < statistic < high


def shape_is(draws, sd):
    """Kolmogorov-Smirnov test of the whole distribution."""
    return kstest(draws.ravel() / sd, "norm").pvalue > FALSE_ALARM


def coordinates_independent(draws):
    """Correlations of neighbouring coordinates and of successive draws, each within 6 standard errors."""
    pairs = [(draws[:, 1:], draws[:, :-1]), (draws[1:], draws[:-1]), (draws[:, 1:] ** 2, draws[:, :-1] ** 2)]
    return all(abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 6 / math.sqrt(a.size) for a, b in pairs)


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES, ids=repr)
@pytest.mark.parametrize("sd", [1e-19, 0.37, 1.0, 4.2e9])
def test_noise_has_the_stated_scale_and_shape(source, sd):
    value = sd * np.linspace(-3, 3, 20)
    draws = np.array([source.gaussian(value, sd) for _ in range(300)]) - value
    assert scale_is(draws, sd)
    assert shape_is(draws, sd)
    assert coordinates_independent(draws)
    assert abs(draws.mean()) < 6 * sd / math.sqrt(draws.size)


@pytest.mark.statistical
@pytest.mark.parametrize("threads", ["1", "3"])
@pytest.mark.parametrize("size", [256, 257, 1400])
def test_noise_of_many_numbers_is_drawn_in_parts_and_is_the_same_law(monkeypatch, threads, size):
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    value = 1e3 * np.arange(size)
    draws = np.array([SecureNoise().gaussian(value, 0.7) for _ in range(4)]) - value
    assert scale_is(draws, 0.7)
    assert shape_is(draws, 0.7)
    assert coordinates_independent(draws)
    assert np.unique(draws).size == draws.size
    assert scale_is(draws[:, -1], 0.7)


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES, ids=repr)
@pytest.mark.parametrize("kind", ["gaussian", "radial", "laplace"])
def test_a_single_number_gets_noise_and_none_is_no_error(source, kind):
    add = getattr(source, kind)
    draws = np.array([add(np.ones(1), 0.5) for _ in range(400)])[:, 0] - 1.0
    law = "norm" if kind == "gaussian" else "laplace"  # radial noise of one number is Laplace noise
    assert kstest(draws / 0.5, law).pvalue > FALSE_ALARM
    assert add(np.empty(0), 0.5).shape == (0,)


@pytest.mark.parametrize("factor", [2 / 3, 3 / 2])
def test_the_tests_of_noise_reject_too_little_and_too_much(factor):
    draws = factor * np.random.default_rng(6).normal(size=(300, 20))
    assert not scale_is(draws, 1.0)
    assert not shape_is(draws, 1.0)


def test_the_tests_of_noise_reject_other_shapes_and_dependence():
    rng = np.random.default_rng(7)
    assert not shape_is(rng.laplace(scale=math.sqrt(0.5), size=(300, 20)), 1.0)
    assert not coordinates_independent(np.repeat(rng.normal(size=(300, 10)), 2, axis=1))
    assert not coordinates_independent(np.repeat(rng.normal(size=(150, 20)), 2, axis=0))
    assert coordinates_independent(rng.normal(size=(300, 20)))


@pytest.mark.parametrize("sd", [1e-190, 1e-12, 0.75, 1.0, 1.999, 2.0, 3e8, 1e190])
def test_secure_output_lies_on_the_lattice_and_on_no_coarser_one(sd):
    spacing = 2.0 ** (math.floor(math.log2(sd)) - LATTICE_BITS)
    value = sd * np.random.default_rng(8).normal(size=200)
    steps = SecureNoise().gaussian(value, sd) / spacing
    assert np.all(steps == np.rint(steps))
    assert 50 < np.sum(steps % 2) < 150


def test_secure_noise_never_repeats_and_seeded_noise_does():
    value = np.zeros(50)
    assert not np.any(SecureNoise().gaussian(value, 1.0) == SecureNoise().gaussian(value, 1.0))
    source = SeededNoise(1)
    first = source.gaussian(value, 1.0)
    assert not np.any(first == source.gaussian(value, 1.0))
    assert np.array_equal(first, SeededNoise(1).gaussian(value, 1.0))
    assert not np.any(first == SeededNoise(2).gaussian(value, 1.0))


def test_seeds_of_every_kind():
    value = np.zeros(5)
    generator = np.random.default_rng(3)
    assert np.array_equal(SeededNoise(generator).gaussian(value, 1.0), SeededNoise(3).gaussian(value, 1.0))
    state = np.random.RandomState(3)
    first, second = SeededNoise(state), SeededNoise(state)
    again = SeededNoise(np.random.RandomState(3))
    draw = first.gaussian(value, 1.0)
    assert np.array_equal(draw, again.gaussian(value, 1.0))
    assert not np.any(draw == second.gaussian(value, 1.0))


@pytest.mark.parametrize("bad", [-1, 1.5, "1", True, (1, 2)])
def test_bad_seeds_are_refused(bad):
    with pytest.raises(InvalidArgument, match="random_state must"):
        SeededNoise(bad)


def test_only_secure_noise_calls_itself_private():
    assert SecureNoise().private
    for source in (SeededNoise(0), NoNoise()):
        assert not source.private
        assert "not private" in source.label
    assert "not private" not in SecureNoise().label


def test_seeded_source_hides_its_state_and_cannot_be_doubled():
    source = SeededNoise(123456789)
    assert "123456789" not in repr(source)
    for double in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(Incompatible, match="repeat"):
            double(source)
    assert pickle.loads(pickle.dumps(SecureNoise())) == SecureNoise()  # noqa: S301


def test_no_noise_returns_a_copy():
    value = np.arange(3.0)
    answer = NoNoise().gaussian(value, 1.0)
    assert np.array_equal(answer, value)
    assert answer is not value


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(0), NoNoise()], ids=repr)
def test_sources_leave_the_value_alone(source):
    value = np.arange(4.0)
    answer = source.gaussian(value, 1.0)
    assert answer.dtype == np.float64
    assert answer.shape == (4,)
    assert np.array_equal(value, np.arange(4.0))
    assert source.gaussian(np.empty(0), 1.0).shape == (0,)


def test_gaussian_mu_counts_margin_and_rounding():
    for size in (1, 100, 200_000):
        for sensitivity, sd in ((1.0, 1.0), (1e-9, 1e-5), (3.0, 1e-3), (1e-4, 1.0)):
            spacing = 2.0 ** (math.floor(math.log2(sd)) - LATTICE_BITS)
            mu = gaussian_mu(size, sensitivity, sd)
            exact = (sensitivity + spacing * math.sqrt(size)) / sd * (1 + MARGIN)
            assert mu >= sensitivity / sd * (1 + MARGIN) * (1 - 1e-15)
            assert mu == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("sd", [0.0, -1.0, math.nan, math.inf, SMALLEST_SD / 10, LARGEST_SD * 10, "1", True])
def test_sd_outside_the_limits_is_refused(sd):
    with pytest.raises(InvalidArgument, match="sd must"):
        gaussian_mu(3, 1.0, sd)
    with pytest.raises(InvalidArgument, match="sd must"):
        SecureNoise().gaussian(np.zeros(3), sd)


def test_sensitivity_beyond_the_map_is_refused():
    with pytest.raises(InvalidArgument, match="sensitivity must be smaller"):
        gaussian_mu(3, 1e200, 1.0)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InvalidArgument, match="sensitivity must"):
            gaussian_mu(3, bad, 1.0)


def test_limits_of_sd_work():
    for sd in (SMALLEST_SD, LARGEST_SD):
        assert np.all(np.isfinite(SecureNoise().gaussian(np.zeros(10), sd)))
        assert gaussian_mu(10, sd, sd) == pytest.approx(1.0, rel=1e-5)


TOSSES = {1: 2**24, 6554: 2**20, 32768: 2**20, 65535: 2**24}
"""How many coins show the chances, for each number of these."""

LAGS = (1, 2, 50)


def count_is(count, size, chance):
    """Two-sided test of how many of independent coins are true."""
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], size, chance)
    return low <= count <= high


def pairs_independent(coins, chance):
    """Test of how many disjoint pairs, each ``lag`` apart, are true together."""
    pairs = {lag: coins[: coins.size // (2 * lag) * 2 * lag].reshape(-1, 2, lag) for lag in LAGS}
    return all(
        count_is(np.sum(pair[:, 0] & pair[:, 1]), pair[:, 0].size, chance**2) for pair in pairs.values()
    )


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES, ids=repr)
@pytest.mark.parametrize("chances", TOSSES)
def test_coins_are_true_with_the_stated_chance_and_independent(source, chances):
    coins = source.coins(chances, TOSSES[chances])
    assert coins.dtype == np.bool_
    assert coins.shape == (TOSSES[chances],)
    assert count_is(coins.sum(), coins.size, chances / COIN_SIDES)
    assert pairs_independent(coins, chances / COIN_SIDES)


@pytest.mark.parametrize(
    ("chances", "others"),
    [(1, (0, 0.5, 2)), (6554, (6350, 6760)), (32768, (32500, 33036)), (65535, (65534, 65535.5, 65536))],
)
def test_the_test_of_coins_rejects_other_chances(chances, others):
    size = TOSSES[chances]
    for other in others:
        assert not count_is(round(size * other / COIN_SIDES), size, chances / COIN_SIDES)


def test_the_test_of_pairs_rejects_dependence():
    drawn = np.random.default_rng(9).random(2**20) < 0.1
    assert pairs_independent(drawn, 0.1)
    assert not pairs_independent(np.repeat(drawn, 2), 0.1)
    assert not pairs_independent(np.tile(drawn[:50], 2000), 0.1)
    assert not pairs_independent(np.arange(2**20) % 10 == 0, 0.1)


@pytest.mark.parametrize("source", SOURCES, ids=repr)
def test_coins_without_another_side_and_no_coins(source):
    assert source.coins(COIN_SIDES, 10**5).all()
    assert not source.coins(0, 10**5).any()
    assert source.coins(1, 0).shape == (0,)


def test_secure_coins_never_repeat_and_seeded_ones_do():
    """Two tosses of 500 coins agree with probability 2**-500."""
    half, source = COIN_SIDES // 2, SeededNoise(1)
    tosses = [one.coins(half, 500) for one in (SecureNoise(), SecureNoise(), SeededNoise(2), source, source)]
    for k, one in enumerate(tosses):
        assert not any(np.array_equal(one, other) for other in tosses[:k])
    assert np.array_equal(tosses[3], SeededNoise(1).coins(half, 500))
    parts = [part.tobytes() for part in np.split(SecureNoise().coins(half, 2**20), 64)]
    assert len(set(parts)) == 64  # threads throw theirs by themselves


def test_coins_are_refused_where_nothing_is_random():
    with pytest.raises(Incompatible, match="draws at random"):
        NoNoise().coins(1, 5)


@pytest.mark.parametrize("chances", [0, 1, 255, 256, 257, 6554, 32768, 65280, 65535, COIN_SIDES])
def test_of_all_pairs_of_octets_as_many_are_true_as_there_are_chances(monkeypatch, chances):
    """Every first octet with every second one, where the second is asked for."""
    asked = iter([np.repeat(np.arange(256, dtype=np.uint8), 256), np.arange(256, dtype=np.uint8)])

    def octets(size):
        found = next(asked)
        assert size in (0, found.size)
        return found[:size]

    monkeypatch.setattr(noise, "random_octets", octets)
    assert SecureNoise().coins(chances, COIN_SIDES).sum() == chances


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_of_the_process_throws_other_coins():
    """Two tosses of 256 coins agree with probability ``2**-256``; the generator has been used before."""
    script = """
import os
from privfit.privacy.noise import COIN_SIDES, SecureNoise
toss = lambda: SecureNoise().coins(COIN_SIDES // 2, 256).tobytes().hex()
toss()
child = os.fork()
coins = toss()
if child:
    os.waitpid(child, 0)  # two at a time would write into each other's line
print(coins, flush=True)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603 -- own script
    tosses = run.stdout.split()
    assert [len(toss) for toss in tosses] == [512, 512]
    assert tosses[0] != tosses[1]
