"""Regret of every learner against its stated constant, on easy, alternating and adversarial sequences."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from privfit.errors import Incompatible, InvalidArgument
from privfit.learners import (
    AbstractLearner,
    AdaGradNorm,
    ConcentrationPenalty,
    Feedback,
    FollowTheRegularizedLeader,
    Game,
    NoPenalty,
    OnlineMirrorDescent,
    OnlineSubgradientDescent,
    OptimisticFTRL,
    ParameterFree,
    SourcePenalty,
    StronglyConvexOSD,
)
from privfit.learners.base import p_norm

ROUNDS = 200
LEARNERS = [
    OnlineSubgradientDescent(),
    OnlineSubgradientDescent(step_size=0.05),
    AdaGradNorm(),
    FollowTheRegularizedLeader(),
    OptimisticFTRL(),
    OnlineMirrorDescent(),
    OnlineMirrorDescent(p=1.2),
    OnlineMirrorDescent(p=2.0),
    ParameterFree(),
    ParameterFree(stake=0.01),
]


def game_of(k, seed, **changes):
    rng = np.random.default_rng(seed)
    facts = {"center": rng.normal(size=4), "radius": 1.5, "rounds": ROUNDS, "power": float(k), **changes}
    return Game(**facts)


def vectors(kind, game, rng, wrong=1.0):
    """Yield functions from the play to the vector of the round, which grows like ``t**k``."""
    d = game.dimension
    fixed = rng.normal(size=d)
    for t in range(1, game.rounds + 1):
        size = (t / game.rounds) ** game.power
        if kind == "random":
            v = rng.normal(size=d)
            yield lambda _, v=v, size=size: size * v / np.linalg.norm(v)
        elif kind == "drift":
            v = fixed / np.linalg.norm(fixed) + 0.3 * rng.normal(size=d) / math.sqrt(d)
            yield lambda _, v=v, size=size: size * v / 1.5
        elif kind == "reversal":
            v = np.eye(d)[0] * (-1.0 if t < 0.9 * game.rounds else 1.0)
            yield lambda _, v=v, size=size: size * v
        elif kind == "alternating":
            v = np.eye(d)[0] * (-1) ** t
            yield lambda _, v=v, size=size: size * v
        else:

            def against(w, size=size):
                away = w - game.center
                norm = np.linalg.norm(away)
                return size * (away / norm if norm > 0 else fixed / np.linalg.norm(fixed))

            yield against


def play(learner, game, kind, seed=0):
    """Return plays and vectors, both (T, d)."""
    player = learner.start(game)
    plays, seen = [], []
    for vector_at in vectors(kind, game, np.random.default_rng(seed)):
        w = player.predict()
        v = vector_at(w)
        plays.append(w)
        seen.append(v)
        player.update(Feedback(v, w))
    return np.array(plays), np.array(seen)


def bound_of(learner, game, v, radius):
    """Return the stated bound on the regret against the best point within ``radius`` of the start."""
    squares = float((v**2).sum())
    d = game.diameter
    if isinstance(learner, OnlineSubgradientDescent):
        eta = learner.step(game)
        return game.radius**2 / (2 * eta) + eta / 2 * squares
    if isinstance(learner, AdaGradNorm):
        return math.sqrt(2.0) * d * math.sqrt(squares)
    if isinstance(learner, FollowTheRegularizedLeader):
        return 3 / math.sqrt(2.0) * d * math.sqrt(squares)
    if isinstance(learner, OptimisticFTRL):
        changes = np.diff(v, axis=0, prepend=0.0)
        return 3 / math.sqrt(2.0) * d * math.sqrt(float((changes**2).sum()))
    if isinstance(learner, OnlineMirrorDescent):
        p = learner.exponent(game.dimension)
        q = p / (p - 1)
        return d * math.sqrt(2 / (p - 1)) * math.sqrt(sum(p_norm(one, q) ** 2 for one in v))
    inner = math.log1p(24.0 * (len(v) * radius / learner.stake) ** 2)
    return game.largest * (radius * math.sqrt(len(v) * inner) + learner.stake)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("kind", ["random", "drift", "alternating", "adversarial"])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_regret_is_within_the_stated_constant(learner, kind, k):
    ratios = []
    for seed in range(5):
        game = game_of(k, seed)
        plays, v = play(learner, game, kind, seed)
        p = learner.exponent(4) if isinstance(learner, OnlineMirrorDescent) else 2.0
        q = math.inf if p == 1 else p / (p - 1)
        paid = float((v * (plays - game.center)).sum())
        for radius in (game.radius, 0.1 * game.radius, 0.0):
            regret = paid + radius * p_norm(v.sum(axis=0), q)
            ratios.append(regret / bound_of(learner, game, v, radius))
        assert max(p_norm(w - game.center, p) for w in plays) <= game.radius * (1 + 1e-12)
    assert max(ratios) <= 1.0


@pytest.mark.parametrize("radius", [1.5, 0.1])
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_regret_stays_within_the_constant_when_the_vectors_turn_round(learner, radius):
    """A bettor that went on to win while its plays were cut to the ball would be too rich to turn."""
    game = game_of(0, 0, rounds=1000, radius=radius)
    plays, v = play(learner, game, "reversal")
    paid = float((v * (plays - game.center)).sum())
    for distance in (radius, 0.1 * radius, 0.0):  # one coordinate, so that all norms are the same
        regret = paid + distance * np.linalg.norm(v.sum(axis=0))
        assert regret <= bound_of(learner, game, v, distance)


@pytest.mark.parametrize("learner", [AdaGradNorm(), OptimisticFTRL(), FollowTheRegularizedLeader()], ids=repr)
def test_the_constants_are_not_vacuous(learner):
    """Some sequence comes within a factor 8 of the bound."""
    game = game_of(0, 0)
    worst = 0.0
    for kind in ("alternating", "adversarial", "random", "drift"):
        plays, v = play(learner, game, kind)
        regret = float((v * (plays - game.center)).sum()) + game.radius * np.linalg.norm(v.sum(axis=0))
        worst = max(worst, regret / bound_of(learner, game, v, game.radius))
    assert worst > 1 / 8


def test_the_optimist_pays_for_changes_only():
    game = game_of(0, 0)
    v = np.array([0.6, -0.8, 0.0, 0.0])
    player = OptimisticFTRL().start(game)
    paid = 0.0
    for _ in range(ROUNDS):
        paid += float(v @ (player.predict() - game.center))
        player.update(Feedback(v, game.center))
    assert paid + ROUNDS * game.radius <= 3 / math.sqrt(2) * game.diameter * 1.0


@pytest.mark.parametrize("kind", ["random", "drift", "alternating", "adversarial"])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_strongly_convex_regret(kind, k):
    mu = 0.4
    for seed in range(5):
        game = game_of(k, seed)
        rng = np.random.default_rng(seed)
        player = StronglyConvexOSD(strength=mu).start(game)
        losses, bound, total = [], 0.0, 0.0
        for t, vector_at in enumerate(vectors(kind, game, rng), start=1):
            beta = (t / game.rounds) ** k
            w = player.predict()
            v, x = vector_at(w), game.center + rng.uniform(-0.5, 0.5, size=4)
            losses.append((w, v, x, beta))
            total += beta * mu / 2
            bound += np.linalg.norm(v + beta * mu / 2 * (w - x)) ** 2 / (2 * total)
            player.update(Feedback(v, x, beta))
        pull = sum(beta * mu / 2 * x - v for _, v, x, beta in losses) / total
        away = pull - game.center
        best = game.center + away * min(1.0, game.radius / np.linalg.norm(away))

        def paid(point, losses=losses):
            return sum(
                v @ (w - point) + beta * mu / 4 * (np.sum((w - x) ** 2) - np.sum((point - x) ** 2))
                for w, v, x, beta in losses
            )

        assert paid(best) <= bound
        assert paid(game.center) <= bound


def test_flag_a2_the_sum_of_the_source_needs_k_of_2():
    """Theorem 8 of the source uses sum t**(k-2) <= T**(k-1), which fails for k = 1."""
    t = np.arange(1.0, 1001.0)
    assert (1 / t).sum() == pytest.approx(7.49, abs=0.01)
    assert (1 / t).sum() > 1000.0**0
    for k in (2, 3, 4):
        assert (t ** (k - 2)).sum() <= 1000.0 ** (k - 1)
    assert StronglyConvexOSD().power == 2.0


def test_strong_convexity_has_to_come_from_somewhere():
    with pytest.raises(Incompatible, match="strength="):
        StronglyConvexOSD().start(game_of(2, 0))
    StronglyConvexOSD().start(game_of(2, 0, strength=0.1))


def test_flag_a6_the_source_penalty_has_free_multipliers_and_is_vacuous_at_moderate_size():
    """With the open constant at 1 and D H = G, 2 D nu_T is 27.7 times the largest gradient at T = 1e4."""
    game = Game(np.zeros(5), 0.5, 10_000, power=3.0, lipschitz=1.0, smoothness=1.0, deviation=math.sqrt(14.0))
    feedback = Feedback(np.zeros(5), np.zeros(5))

    def last(penalty):
        rule = penalty.start(game)
        for _ in range(game.rounds):
            xi, nu = rule(feedback)
        return xi, nu

    xi, nu = last(SourcePenalty(c_xi=1.0, c_nu=1.0))
    assert 2 * game.diameter * nu == pytest.approx(27.7, rel=0.01)
    phi = math.sqrt(math.log(20 * 5 * 1e4 * math.log(2 * 2 * 1e4) / 0.05))
    plain = 8 * math.sqrt(2) * phi * 1e4**-0.5
    assert xi == pytest.approx(plain + 8 * math.sqrt(5) * 2 * phi * math.log2(2e4) / 1e4, rel=1e-9)
    assert nu == pytest.approx(28 * plain, rel=1e-9)
    half, none = last(SourcePenalty(c_xi=0.5))
    assert half == pytest.approx(0.5 * xi)
    assert none == 0.0
    assert last(NoPenalty()) == (0.0, 0.0)


@pytest.mark.parametrize("rounds", [1, 7, 1000])
@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize("rho", [math.inf, 0.3])
def test_the_source_penalty_is_that_of_theorem_11_at_the_size_of_a_round(rounds, batch, rho):
    """Its sensitivity, and with it the noise, is that of a row in the mean of ``batch``."""
    g, h, d, radius = 2.0, 3.0, 4, 0.7
    nodes = math.floor(math.log2(rounds)) + 1
    game = Game(
        np.zeros(d), radius, rounds, 3.0, lipschitz=g, smoothness=h, batch=batch,
        deviation=math.sqrt(nodes) / rho,
    )  # fmt: skip
    penalty = SourcePenalty(c_xi=0.5, c_nu=0.25, failure=0.1)
    kappa = 1 + 2 * radius * h / g
    phi = math.sqrt(math.log(20 * d * rounds * math.log(2 * kappa * rounds) / 0.1))
    rule, a, a_noise = penalty.start(game), 8 * math.sqrt(2), 8 * math.sqrt(d)
    for t in range(1, rounds + 1):
        xi, nu = rule(Feedback(np.zeros(d), np.zeros(d)))
        noise = a_noise * kappa * g * phi * math.log2(2 * rounds) * t**2 / (rho * batch)
        assert xi * rounds**3 == pytest.approx(0.5 * (a * g * phi * t**2.5 + noise))
        assert nu * rounds**3 == pytest.approx(0.25 * 28 * a * h * phi * t**2.5)
    assert penalty.largest(game) == pytest.approx(xi + 2 * nu * radius)


def test_the_source_penalty_plays_the_weights_that_it_is_proved_for():
    assert ParameterFree(penalty=SourcePenalty()).power == 3.0
    assert ParameterFree().power == ParameterFree(penalty=ConcentrationPenalty()).power == 1.0
    for k in (1, 2, 4):
        with pytest.raises(Incompatible, match="power="):
            ParameterFree(penalty=SourcePenalty()).start(game_of(k, 0))


@pytest.mark.parametrize("penalty", [NoPenalty(), SourcePenalty(c_nu=0.5), ConcentrationPenalty()], ids=repr)
def test_vectors_are_cut_to_a_size_that_leaves_room_for_the_penalty(penalty):
    """Cut to less, a penalty would not reach the bettor: V shows in its first bet, ``stake v / (2 V)``."""
    game = Game(np.zeros(3), 5.0, 64, penalty.power, 2.0, 3.0, batch=4, deviation=1.5)
    player = ParameterFree(penalty=penalty).start(game)
    player.update(Feedback(np.array([0.2, 0.0, 0.0]), game.center))
    size = 0.5 * 0.2 / np.linalg.norm(player.predict())
    rule, steepest = penalty.start(game), 0.0
    node = game.deviation * 2 * game.increment / game.batch
    for t in range(1, game.rounds + 1):
        weight, noise = (t / game.rounds) ** game.power, t.bit_count() * node
        xi, nu = rule(Feedback(np.zeros(3), np.zeros(3), weight, noise))
        steepest = max(steepest, xi + 2 * nu * game.radius)
    assert size == pytest.approx(game.largest + penalty.largest(game))
    assert steepest <= penalty.largest(game) <= 8 * steepest


def test_the_concentration_penalty_has_explicit_constants():
    game = Game(np.zeros(3), 0.5, 4, power=1.0, lipschitz=2.0, smoothness=3.0)
    rule = ConcentrationPenalty(failure=0.1).start(game)
    b1, b2 = 2 * 0.25 * 2, 2 * (0.25 * 2 + 0.5**2 / 0.75 * 3 * 1)
    spread = math.sqrt(2 * math.log(16 / 0.1))
    tail = math.sqrt(3) + math.sqrt(2 * math.log(8 / 0.1))
    assert rule(Feedback(np.zeros(3), np.zeros(3), 0.25, 0.7)) == (
        pytest.approx(spread * b1 + tail * 0.7),
        0.0,
    )
    xi, _ = rule(Feedback(np.zeros(3), np.zeros(3), 0.5, 0.0))
    assert xi == pytest.approx(spread * math.hypot(b1, b2))


def test_flag_a8_sub_gaussian_tails_hold_direction_by_direction():
    """With the supremum over directions inside the probability, N(0, I) would not be 1-sub-Gaussian."""
    assert chi2.sf(2.0**2, 10) > 2 * math.exp(-(2.0**2) / 2)
    assert chi2.sf(2.0**2, 1) <= 2 * math.exp(-(2.0**2) / 2)
    for d in (1, 5, 50):
        for failure in (0.5, 0.05, 1e-6):
            radius = math.sqrt(d) + math.sqrt(2 * math.log(1 / failure))
            assert chi2.sf(radius**2, d) <= failure


def test_a_penalty_keeps_the_bettor_near_its_start():
    game = game_of(3, 0)
    far, near = (
        np.linalg.norm(play(learner, game, "drift")[0][-1] - game.center)
        for learner in (ParameterFree(largest=1.0), ParameterFree(largest=1.0, penalty=SourcePenalty()))
    )
    assert near < 0.1 * far


def test_the_theory_step_size():
    """That of a distance of a radius, vectors that are off by what a mean of gradients is, and noise."""
    game = game_of(2, 0, lipschitz=3.0)
    best = game.radius * math.sqrt(5) / math.sqrt(3 * ROUNDS)
    assert OnlineSubgradientDescent().step(game) == pytest.approx(best / 3.0)
    noisy = replace(game, batch=4, deviation=50.0)
    assert noisy.noise > 0.5
    assert OnlineSubgradientDescent().step(noisy) == pytest.approx(best / math.hypot(1.5, noisy.noise))


def test_no_step_is_so_long_that_gradient_descent_would_go_too_far():
    game = replace(game_of(2, 0, lipschitz=3.0), batch=10**6, smoothness=0.7)
    assert OnlineSubgradientDescent().step(game) == pytest.approx(2.0 / 0.7)


def test_norms_do_not_overflow():
    assert p_norm(np.array([3e200, -4e200]), 2.0) == pytest.approx(5e200)
    assert p_norm(np.array([1.0, -7.0]), math.inf) == 7.0
    assert p_norm(np.array([1.0, -7.0]), 1.0) == pytest.approx(8.0)
    assert p_norm(np.zeros(2), 3.0) == 0.0


@pytest.mark.parametrize(
    "make",
    [
        lambda: OnlineSubgradientDescent(step_size=0.0),
        lambda: OnlineMirrorDescent(p=1.0),
        lambda: OnlineMirrorDescent(p=3.0),
        lambda: StronglyConvexOSD(strength=-1.0),
        lambda: ParameterFree(stake=0.0),
        lambda: ParameterFree(penalty="none"),
        lambda: SourcePenalty(c_xi=-1.0),
        lambda: ConcentrationPenalty(failure=0.0),
    ],
)
def test_arguments_are_checked(make):
    with pytest.raises(InvalidArgument):
        make()


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learners_are_configuration_and_players_are_not_shared(learner):
    assert isinstance(learner, AbstractLearner)
    assert learner.name
    game = game_of(1, 0)
    first, second = learner.start(game), learner.start(game)
    for _ in range(3):
        first.update(Feedback(np.array([1.0, 0.0, 0.0, 0.0]), game.center))
    np.testing.assert_array_equal(second.predict(), game.center)
    assert np.linalg.norm(first.predict() - game.center) > 0
