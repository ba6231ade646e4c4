"""The pass: brute-force neighbours on a fixed transcript, laws of the noise, and the conversion itself."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest

from privfit.data.blocks import Block
from privfit.learners import (
    AdaGradNorm,
    OnlineMirrorDescent,
    OptimisticFTRL,
    ParameterFree,
    StronglyConvexOSD,
)
from privfit.losses import Huber, Logistic, Squared
from privfit.privacy.budget import Budget
from privfit.privacy.curves import gdp_delta
from privfit.privacy.mechanisms import make_source
from privfit.procedures.differences import Bounds, RoundRows
from privfit.procedures.online_to_batch import _batches, _Leaf, round_size
from privfit.procedures.tree import depth

from .one_pass import Linear, Plays, Recorder, Replay, Spy, Wild, one_pass, problem_of, run, table_of

EXTREMES = (
    ("far", np.array([3.0, -2.0, 4.0]), 1.0),
    ("opposite", np.array([-3.0, 2.0, -4.0]), 0.0),
    ("one column", np.array([0.0, 50.0, 0.0]), 1.0),
    ("nothing", np.array([np.nan, 0.0, 0.0]), 0.0),
)
CASES = {
    "logistic": (Logistic(), {}),
    "squared, k=2, strongly convex": (Squared(0.5), {"learner": StronglyConvexOSD(0.3), "power": 2.0}),
    "huber, k=3, betting, far ball": (
        Huber(0.5), {"learner": ParameterFree(), "power": 3.0, "radius": 100.0}),
    "linear, optimistic": (Linear(), {"learner": OptimisticFTRL()}),
    "logistic, rounds of 5": (Logistic(), {"batch": 5}),
    "logistic, source": (Logistic(), {"mode": "source"}),
    "huber, source, k=2": (Huber(0.5), {"mode": "source", "power": 2.0}),
    "wild": (Wild(), {"radius": 30.0}),
    "wild, not convex, rounds of 3": (Wild(False), {"batch": 3}),
    "logistic, pure": (Logistic(), {"pure": True}),
    "wild, pure": (Wild(), {"pure": True, "power": 2.0}),
    "wild, pure, l1": (Wild(), {"pure": True, "norm": 1.0}),
    "wild, l-infinity rows of 1": (Wild(), {"norm": math.inf, "row_bound": 0.4}),
    "wild, q=3, mirror descent": (Wild(), {"norm": 3.0, "learner": OnlineMirrorDescent(p=1.5)}),
}  # fmt: skip


def nodes_of(q, rounds):
    return [i for i in range(1, rounds + 1) if i - (i & -i) < q <= i]


def spent(recorded, replay, one):
    """Return what each node tells two neighbours apart by, in parts of the cost that it may have."""
    norm = {1.0: 1}.get(one.norm, 2) if one.pure else 2
    apart = [
        np.linalg.norm(a - b, norm) / level
        for a, b, level in zip(recorded.values, replay.values, recorded.levels, strict=True)
    ]
    return np.array(apart)


@pytest.mark.parametrize("case", CASES)
def test_replacing_any_row_by_anything_costs_no_more_than_planned(case):
    """The transcript is fixed, each row replaced, and the cost of all nodes added up."""
    loss, changes = CASES[case]
    n, rng = 33, np.random.default_rng(7)
    problem, one = problem_of(loss, n=n), one_pass(**changes)
    x, y = table_of(n, 3, rng, binary=loss.target_kind == "binary")
    recorded = Recorder()
    outcome = run(one, problem, x, y, recorded)
    rounds = one.rounds(problem)
    round_of = np.repeat(np.arange(rounds), [round_size(n, rounds, t + 1) for t in range(rounds)]) + 1
    assert len(recorded.values) == rounds
    largest = 0.0
    for q in range(n):
        for _, row, label in EXTREMES:
            other_x, other_y = x.copy(), y.copy()
            other_x[q], other_y[q] = row, label
            replay = Replay(recorded)
            np.testing.assert_array_equal(run(one, problem, other_x, other_y, replay), outcome)
            assert replay.levels == recorded.levels
            apart = spent(recorded, replay, one)
            mine = nodes_of(round_of[q], rounds)
            others = np.delete(apart, np.array(mine) - 1)
            assert np.abs(others).max(initial=0.0) == 0.0
            assert len(mine) <= depth(rounds)
            cost = apart.sum() if one.pure else math.sqrt((apart**2).sum())
            assert cost <= one.amount
            assert apart.max() <= one.node_amount(rounds) * (1 + 1e-9)
            largest = max(largest, cost)
    assert largest > 0.02 * one.amount


@pytest.mark.parametrize("p", [3, 20])
@pytest.mark.parametrize(
    ("norm", "pure"),
    [(1.0, True), (2.0, True), (2.0, False), (2.5, False), (3.0, False), (6.0, False), (math.inf, False)],
)
def test_linear_losses_use_up_the_whole_budget(norm, pure, p):
    """Equality at the first row: it is in every node of its path, and k = 1 gives all rounds one bound.

    Of rows of norm 1 those of equal entries are the longest, which Gaussian noise in other norms counts.
    """
    n = 64
    problem = problem_of(Linear(), n=n, p=p, norm_bound=math.sqrt(p))
    one = one_pass(p=p, pure=pure, norm=norm, row_bound=1.0)
    x, y = np.tile(np.full(p, p ** (-1.0 / norm)), (n, 1)), np.ones(n)
    recorded = Recorder()
    run(one, problem, x, y, recorded)
    y[0] = -1.0
    replay = Replay(recorded)
    run(one, problem, x, y, replay)
    apart = spent(recorded, replay, one)
    assert np.flatnonzero(apart).size == 7
    cost = apart.sum() if pure else math.sqrt((apart**2).sum())
    assert cost <= one.amount
    assert cost == pytest.approx(one.amount, rel=1e-4)


@pytest.mark.parametrize("row_bound", [None, 0.8])
@pytest.mark.parametrize("norm", [1.0, 1.5, 3.0, math.inf])
def test_in_other_norms_noise_follows_the_rows_norm_and_their_length(norm, row_bound):
    """G is slope times the row's norm, H curvature times norm times length, for moves measured by length."""
    n, p, length, told = 32, 3, 1.4, []
    problem = problem_of(Logistic(), n=n, p=p, norm_bound=length)
    one = one_pass(Spy(told, AdaGradNorm()), norm=norm, row_bound=row_bound, power=2.0)
    x, y = table_of(n, p, np.random.default_rng(5))
    run(one, problem, x, y, make_source(1))
    largest = row_bound or length * p ** max(0.0, 1.0 / norm - 0.5)
    g, h = largest, 0.25 * largest * length
    changes, before, last = [], 0.0, np.zeros(p)
    for feedback in told:
        beta, move = feedback.weight, np.linalg.norm(feedback.point - last)
        changes.append(2 * min((beta - before) * g + before * h * move, (beta + before) * g))
        before, last = beta, feedback.point
    sd = math.sqrt(depth(n)) / one.amount * p ** max(0.0, 0.5 - 1.0 / norm)
    for t, feedback in enumerate(told, start=1):
        nodes = [i for i in range(1, t + 1) if i == t & (-1 << (i & -i).bit_length() - 1)]
        sizes = [max(changes[i - (i & -i) : i]) for i in nodes]
        assert feedback.noise == pytest.approx(sd * sum(sizes), rel=1e-5)


@pytest.mark.parametrize("mode", ["tight", "source"])
def test_flag_a4_the_first_round_has_no_point_before(mode):
    """Its noise follows from G alone, however far the ball is from 0."""
    problem = problem_of(Linear(), n=8)
    x, y = np.tile([1.5, 0.0, 0.0], (8, 1)), np.ones(8)
    for center in ((0.0, 0.0, 0.0), (100.0, -50.0, 7.0)):
        recorded = Recorder()
        run(one_pass(center=center, mode=mode), problem, x, y, recorded)
        assert np.linalg.norm(recorded.values[0]) == pytest.approx(0.5 if mode == "tight" else 0.25)


@pytest.mark.parametrize("mode", ["tight", "source"])
@pytest.mark.parametrize(("batch", "n"), [(1, 8), (3, 24)])
@pytest.mark.statistical
def test_the_noise_of_a_sum_is_that_of_the_formula(mode, batch, n):
    """T = 8, k = 1, rho = 1, G = 1, H = 0: gamma_7 has variance 48 (source: 192), gamma_8 16 (64).

    7 standard errors of a variance, for each of 8 numbers.
    """
    told = []
    one = one_pass(Spy(told, AdaGradNorm()), amount=1.0, mode=mode, batch=batch)
    problem = problem_of(Linear(), n=n, norm_bound=1.0)
    x, y = np.zeros((n, 3)), np.zeros(n)
    source, repetitions = make_source(11), 500
    for _ in range(repetitions):
        run(one, problem, x, y, source)
    for t, nodes in ((7, 3), (8, 1)):
        node = (16.0 if mode == "tight" else 64.0) / batch**2
        sums = np.array([feedback.gradient for feedback in told[t - 1 :: 8]]) * 8
        error = math.sqrt(2.0 / sums.size)
        assert abs((sums**2).mean() / (nodes * node) - 1.0) < 7 * error
        assert told[t - 1].noise * 8 == pytest.approx(nodes * math.sqrt(node), rel=1e-5)


def test_flag_a7_the_outcome_uses_the_last_row_and_the_iterate_before_does_not():
    n, rng = 16, np.random.default_rng(0)
    x, y = table_of(n, 3, rng)
    points, outcomes = [], []
    for label in (0.0, 1.0):
        y[-1] = label
        told = []
        outcomes.append(run(one_pass(Spy(told, AdaGradNorm()), amount=math.inf), problem_of(n=n), x, y))
        points.append(np.array([feedback.point for feedback in told]))
    np.testing.assert_array_equal(points[0], points[1])
    assert np.linalg.norm(outcomes[0] - outcomes[1]) > 1e-4


def test_without_noise_the_pass_is_deterministic_and_ignores_g_and_h():
    n, rng = 40, np.random.default_rng(1)
    x, y = table_of(n, 3, rng)
    plain = run(one_pass(amount=math.inf), problem_of(n=n, norm_bound=10.0), x, y)
    np.testing.assert_array_equal(
        run(one_pass(amount=math.inf), problem_of(n=n, norm_bound=10.0), x, y), plain
    )
    np.testing.assert_allclose(
        run(one_pass(amount=math.inf), problem_of(n=n, norm_bound=40.0), x, y), plain, atol=1e-12
    )


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5), Squared(2.0)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("k", [1.0, 2.5])
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("norm", [1.0, 1.5, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("row", [(1.0, -1.5, 0.5), (1.15, -1.15, 1.15), (0.0, 1.99, 0.0)])
def test_equal_rows_make_the_sum_the_gradient_itself(loss, k, batch, norm, row):
    """g_t telescopes: beta_t grad(x_t). So the balls cut nothing off a loss that keeps its bounds."""
    n, told, row = 32, [], np.array(row)
    problem = problem_of(loss, n=n, norm_bound=2.0)
    x, y = np.tile(row, (n, 1)), np.ones(n)
    one = one_pass(Spy(told, AdaGradNorm()), amount=math.inf, power=k, batch=batch, norm=norm)
    run(one, problem, x, y)
    for t, feedback in enumerate(told, start=1):
        assert feedback.weight == pytest.approx((t * batch / n) ** k)
        slope = loss.functions.slope(1.0, float(row @ feedback.point), 1.0, *loss.parameters)
        np.testing.assert_allclose(feedback.gradient, feedback.weight * slope * row, atol=1e-9)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=lambda loss: loss.name)
def test_balls_hold_the_differences_of_losses_that_keep_their_bounds(loss):
    rng = np.random.default_rng(3)
    bound, tight = 2.0, 0.0
    g, h = loss.constants.slope * bound, loss.constants.curvature * bound**2
    convex, smooth = Bounds(g, h, centred=True), Bounds(g, h, centred=False)
    for _ in range(3000):
        x = rng.normal(size=3)
        x *= bound / np.linalg.norm(x) * rng.choice([1.0, 0.5])
        point = rng.normal(size=3)
        move = rng.normal(size=3) * 10 ** rng.uniform(-3, 1.5)
        t = int(rng.integers(2, 50))
        y = float(rng.integers(0, 2))

        def gradient(theta, x=x, y=y):
            return loss.functions.slope(y, float(x @ theta), 1.0, *loss.parameters) * x

        difference = t * gradient(point) - (t - 1) * gradient(point - move)
        for bounds in (convex, smooth):
            center, radius = bounds.ball(move, t, t - 1)
            assert np.linalg.norm(difference - center) <= radius * (1 + 1e-9)
            tight = max(tight, np.linalg.norm(difference - center) / radius)
            assert np.linalg.norm(center) <= radius
        assert convex.ball(move, t, t - 1)[1] <= smooth.ball(move, t, t - 1)[1]
        source = (1 + 1) * (g + h * np.linalg.norm(move) * (t + 1) / 2)
        assert smooth.ball(move, t, t - 1)[1] <= source
    assert tight > 0.95


def test_weights_are_as_stable_as_the_source_says():
    """Proposition 14: sums of weights, and the two bounds behind the source's noise."""
    for k in (1, 2, 3, 5):
        t = np.arange(1.0, 400.0)
        sums = np.cumsum(t**k)
        assert (t**k - (t - 1) ** k <= k * t ** (k - 1) * (1 + 1e-12)).all()
        assert (sums >= t ** (k + 1) / (k + 1)).all()
        assert ((t**k) ** 2 / sums <= (k + 1) * t ** (k - 1)).all()


def test_the_conversion_holds_for_any_vectors():
    """Theorem 1: beta_1:T (L(x_T) - L(u)) <= regret + sum of <beta grad L(x_t) - g_t, w_t - u>."""
    rng = np.random.default_rng(5)
    for _ in range(200):
        k, rounds = rng.uniform(0, 3), 12
        a = rng.normal(size=(3, 3))
        hessian, u = a @ a.T, rng.normal(size=3)
        w, g = rng.normal(size=(rounds, 3)), rng.normal(size=(rounds, 3)) * 5
        beta = np.arange(1.0, rounds + 1) ** k
        x = np.cumsum(beta[:, None] * w, axis=0) / np.cumsum(beta)[:, None]
        regret = np.sum(g * (w - u))
        correction = np.sum((beta[:, None] * (x @ hessian) - g) * (w - u))
        gap = 0.5 * (x[-1] @ hessian @ x[-1] - u @ hessian @ u)
        assert beta.sum() * gap <= regret + correction + 1e-9


def test_iterates_are_the_weighted_means_of_the_plays():
    n, told = 20, []
    spy = Spy(told, OptimisticFTRL())
    x, y = table_of(n, 3, np.random.default_rng(2))
    outcome = run(one_pass(spy, power=2.0), problem_of(n=n), x, y, make_source(1))
    player = OptimisticFTRL().start(one_pass(power=2.0).game(problem_of(n=n)))
    plays = []
    for feedback in told:
        plays.append(player.predict())
        player.update(feedback)
    plays.append(player.predict())
    beta = np.arange(1.0, n + 2) ** 2
    means = np.cumsum(beta[:, None] * np.array(plays), axis=0) / np.cumsum(beta)[:, None]
    np.testing.assert_allclose([feedback.point for feedback in told], means[:-1], atol=1e-12)
    np.testing.assert_allclose(outcome, means[-1], atol=1e-12)


def test_the_ridge_is_public_and_costs_nothing():
    n = 16
    x, y = np.zeros((n, 3)), np.zeros(n)
    told = []
    heavy = problem_of(Linear(), n=n, l2=3.0)
    one = one_pass(Spy(told, AdaGradNorm()), amount=math.inf, center=(0.5, -0.4, 0.3))
    run(one, heavy, x, y)
    for feedback in told:
        np.testing.assert_allclose(feedback.gradient, feedback.weight * 3.0 * feedback.point * [0, 1, 1])
    assert one_pass().planned(heavy) == one_pass().planned(problem_of(Linear(), n=n))


def test_tight_noise_is_smaller_than_that_of_the_source():
    n = 64
    x, y = table_of(n, 3, np.random.default_rng(9))
    spreads = []
    for mode in ("tight", "source"):
        told = []
        run(one_pass(Spy(told, AdaGradNorm()), mode=mode, power=2.0), problem_of(n=n), x, y, make_source(2))
        spreads.append(np.array([feedback.noise for feedback in told]))
    assert (spreads[0] < 0.8 * spreads[1]).all()


def test_blocks_do_not_matter_and_a_basis_is_a_change_of_coordinates():
    n = 30
    x, y = table_of(n, 3, np.random.default_rng(4))
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for batch in (1, 4, 7, 30):
        plain = run(one_pass(amount=math.inf, batch=batch), problem_of(n=n), x, y)
        turned = run(one_pass(amount=math.inf, batch=batch), problem_of(n=n, basis=basis), x, y)
        np.testing.assert_allclose(basis @ turned, plain, atol=1e-9)


@pytest.mark.parametrize(
    ("rho", "delta", "claimed", "true"), [(5.0, 0.01, 21.46, 0.0250), (10.0, 1e-5, 67.86, 0.0302)]
)
def test_flag_a1_the_printed_conversion_fails_and_ours_holds(rho, delta, claimed, true):
    """The source says (2 rho sqrt(log(1/delta)), delta) for delta >= exp(-rho**2): the wrong way round."""
    epsilon = 2 * rho * math.sqrt(math.log(1 / delta))
    assert delta >= math.exp(-(rho**2))
    assert epsilon == pytest.approx(claimed, abs=0.005)
    assert gdp_delta(rho, epsilon) == pytest.approx(true, abs=5e-5)
    assert gdp_delta(rho, epsilon) > delta
    assert gdp_delta(rho, rho**2 / 2 + rho * math.sqrt(2 * math.log(1 / delta))) <= delta
    small = math.exp(-0.7287 * rho**2)
    assert gdp_delta(rho, 2 * rho * math.sqrt(math.log(1 / small))) <= small


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho"),
    [(1, 1e-5, 0.2681), (1, 1e-6, 0.2367), (2, 1e-5, 0.5016), (0.5, 1e-5, 0.1422)],
)
def test_budgets_buy_the_exact_rho(epsilon, delta, rho):
    assert Budget(epsilon, delta).mu == pytest.approx(rho, abs=1e-4)
    assert epsilon / (2 * math.sqrt(math.log(1 / delta))) < 0.6 * rho


def test_a_finite_budget_never_leaves_out_the_noise():
    n = 8
    x, y = table_of(n, 3, np.random.default_rng(0))
    exact = run(one_pass(amount=math.inf), problem_of(n=n), x, y)
    for pure in (False, True):
        outcome = run(one_pass(amount=2.0, pure=pure), problem_of(n=n), x, y, make_source(None))
        assert np.linalg.norm(outcome - exact) > 1e-6


PLAYS = np.array([[0.5, 0.0, 0.0], [0.0, 0.4, 0.0], [-0.6, 0.0, 0.3], [0.2, 0.2, 0.2], [0.0, 0.0, -0.8]])


@pytest.mark.parametrize("power", [1.0, 2.5])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("convex", [True, False])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"row_bound": 0.4, "pure": True},
        {"norm": 1.0, "pure": True},
        {"norm": 1.0},
        {"norm": 6.0},
        {"norm": 6.0, "row_bound": 0.4},
        {"mode": "source"},
    ],
    ids=str,
)
def test_the_noise_of_every_sum_by_hand(changes, convex, batch, power):
    """Four rounds of plays that are made by hand: iterates, balls, nodes and what the learner is told."""
    told = []
    problem = problem_of(Wild(convex), n=4 * batch, norm_bound=1.5)
    one = one_pass(Spy(told, Plays(PLAYS)), power=power, batch=batch, amount=0.6, **changes)
    mode, norm, row_bound, pure = one.mode, one.norm, one.row_bound, one.pure
    x, y = np.zeros((4 * batch, 3)), np.zeros(4 * batch)
    outcome = run(one, problem, x, y, Recorder())
    beta = [(t / 4.0) ** power for t in range(6)]
    points = [PLAYS[0]]
    for t in range(1, 6):
        points.append(points[-1] + beta[t] / sum(beta[1 : t + 1]) * (PLAYS[t - 1] - points[-1]))
    np.testing.assert_allclose([feedback.point for feedback in told], points[1:5], atol=1e-14)
    np.testing.assert_allclose(outcome, points[5], atol=1e-14)
    longest = row_bound or 1.5 * 3.0 ** max(0.0, 1.0 / norm - 0.5)
    g, h = 0.7 * longest, 0.3 * 1.5 * longest
    bounds = Bounds(g, h, centred=convex and norm == 2.0 and row_bound is None)
    radii, farthest = [], 0.0
    for t in range(1, 5):
        radius = bounds.ball(points[t] - points[t - 1], beta[t], beta[t - 1])[1]
        farthest = max(farthest, np.linalg.norm(PLAYS[t - 1] - points[t - 1]))
        if mode == "source":
            growth = (power + 1.0) * t ** (power - 1.0) / 4.0**power
            radius = max(radius, growth * (1.5 * 0.7 + 1.5**2 * 0.3 * farthest))
        radii.append(radius)
    nodes = 3.0 if mode == "tight" else math.log2(8.0)
    node = one.amount / (nodes if pure else math.sqrt(nodes))
    assert one.node_amount(4) == pytest.approx(node, rel=1e-11)
    assert one.node_amount(4) <= node * (1.0 - 1e-13)
    game = one.game(problem)
    unit = game.deviation * 2.0 / batch
    spreads = [radii[0], max(radii[:2]), max(radii[:2]) + radii[2], max(radii)]
    assert [feedback.noise for feedback in told] == pytest.approx(unit * np.array(spreads), rel=1e-9)
    longer = 1.0 if pure or norm <= 2.0 else 3.0 ** (0.5 - 1.0 / norm)
    if pure:
        assert game.deviation * node == pytest.approx(2.0 if norm == 2.0 else math.sqrt(2.0), rel=1e-5)
    else:
        assert game.deviation * node == pytest.approx(longer, rel=1e-5)


def test_public_facts_of_a_game_and_of_a_plan():
    problem = problem_of(Logistic(), n=10, norm_bound=1.5, l2=0.3)
    one = one_pass(batch=3, power=2.0, amount=0.6)
    game = one.game(problem)
    assert (game.rounds, game.batch, game.power, game.radius, game.strength) == (4, 2, 2.0, 2.0, 0.0)
    assert one.rounds(problem_of(n=9)) == 3
    assert (game.lipschitz, game.smoothness) == (problem.gradient_bound, problem.smoothness)
    for l2, strength in ((0.3, 0.3), (0.0, 0.0)):
        ridged = dataclasses.replace(problem, l2=l2, penalised=(True,) * 3)
        assert one.game(ridged).strength == pytest.approx(strength)
    for pure in (False, True):
        planned = one_pass(batch=3, power=2.0, amount=0.6, pure=pure).planned(problem)
        assert planned.sensitivity == pytest.approx(2.0 * game.increment / 2.0)
        assert (planned.mu, planned.epsilon) == ((math.inf, 0.6) if pure else (0.6, None))
        assert (planned.kind, planned.size, planned.sd) == ("stream", 3, 0.0)
    cube = one_pass(norm=math.inf, pure=True, amount=0.6)
    deviation = cube.game(problem_of(n=3)).deviation * cube.node_amount(3)
    assert deviation == pytest.approx(math.sqrt(20.0 / 3.0), rel=1e-5)
    source = one_pass(mode="source", amount=0.6)
    assert source.node_amount(5) == pytest.approx(0.6 / math.sqrt(math.log2(10.0)), rel=1e-11)
    assert one_pass(amount=0.6).node_amount(5) == pytest.approx(0.6 / math.sqrt(3.0), rel=1e-11)


@pytest.mark.parametrize(("norm", "power"), [(3.0, 6), (4.0, 4), (6.0, 3), (math.inf, 2)])
def test_a_euclidean_norm_by_hand_is_no_larger_than_said(norm, power):
    """In exact arithmetic, and hardly less: the norm of ones over that which rows are held to."""
    for p in range(2, 60):
        found = one_pass(p=p, norm=norm)._inflation(problem_of(p=p))
        assert p <= Fraction(found) ** power <= p * (1 + Fraction(1, 10**14))
        assert one_pass(p=p, norm=math.inf, pure=True)._inflation(problem_of(p=p)) == 1.0


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_rounding_of_a_mean_is_in_the_sensitivity_of_a_round(count):
    problem = problem_of(Linear(), n=4 * count, norm_bound=1.0)
    one = one_pass(batch=count)
    leaf = _Leaf(problem, one.game(problem), Bounds(1.0, 0.0, centred=True), mode="tight", norm=2.0)
    rows = RoundRows(Block(np.zeros((count + 2, 3)), np.zeros(count + 2), np.ones(count + 2)), 2, count + 2)
    point = np.zeros(3)
    _, sensitivity = leaf.difference(rows, (point, point), (0.25, 0.0), point)
    assert sensitivity == 0.5 / count * (1.0 + count**2 / 2.0**50)


@pytest.mark.parametrize("n", [21, 39, 40])
@pytest.mark.parametrize("k", [1.0, 3.0])
def test_a_row_more_than_rounds_hold_leaves_the_noise_as_it_is(n, k):
    """A last round of one row in ``batch`` would have ``batch`` times the noise of others."""
    told = []
    one = one_pass(Spy(told, Plays(np.zeros((n + 1, 3)))), batch=20, power=k)
    problem = problem_of(Linear(), n=n)
    run(one, problem, np.zeros((n, 3)), np.zeros(n), Recorder())
    game, planned = one.game(problem), one.planned(problem)
    largest = max(feedback.noise for feedback in told) / game.deviation
    assert largest <= 2.0 * planned.sensitivity * (1 + 1e-6)
    even = max(0.5**k / (n // 2), (1.0 - 0.5**k) / ((n + 1) // 2))
    assert told[-1].noise == pytest.approx(game.deviation * 2.0 * game.lipschitz * even, rel=1e-6)


class Blocks:
    """Rows in blocks of these numbers."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def blocks(self):
        first = 0
        for size in self.sizes:
            numbers = np.arange(float(first), float(first + size))
            yield Block(np.column_stack([numbers, -numbers]), 10.0 * numbers, 0.01 * numbers)
            first += size


@pytest.mark.parametrize("sizes", [(7,), (0, 6), (1, 1, 1), (2, 5, 0, 3), (4, 4, 4), (1, 9, 2)])
@pytest.mark.parametrize("basis", [None, np.array([[1.0, 2.0], [0.0, 1.0]])])
def test_rounds_are_even_whatever_blocks_they_come_in(sizes, basis):
    n, seen, counts = sum(sizes), [], []
    rounds = -(-n // 3)
    for one in _batches(Blocks(*sizes), n, rounds, basis):
        rows = slice(one.first, one.last)
        counts.append(one.last - one.first)
        seen.append(np.column_stack([one.block.x[rows], one.block.y[rows], one.block.weight[rows]]))
        assert one.block.x.flags.c_contiguous
    assert len(counts) == rounds
    assert set(counts) <= {n // rounds, -(-n // rounds)}
    assert max(counts) <= 3
    numbers = np.arange(float(n))
    x = np.column_stack([numbers, -numbers])
    expected = np.column_stack([x if basis is None else x @ basis, 10.0 * numbers, 0.01 * numbers])
    np.testing.assert_array_equal(np.concatenate([np.zeros((0, 4)), *seen]), expected)
