"""The one door: planned queries only, each once, with its noise, and nothing else gets out."""

import copy
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privfit.data.declarations import NumericColumn
from privfit.data.shares import RowShares, ShareRule
from privfit.data.source import ArraySource
from privfit.errors import InvalidArgument, PlanViolation
from privfit.losses import Multinomial, Poisson
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import COIN_SIDES, NoNoise, gaussian_mu, make_source, svec
from privfit.privacy.relation import Relation
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan
from privfit.problem.query_kernels import query_kernel
from privfit.problem.schedule import growing_shares, held_to, planned_release
from privfit.problem.steep import SteepRows
from privfit.problem.totals import query_total

from .conftest import LOSSES, make_problem
from .test_neighbours import answers_of_single_rows, bases, one_by_one
from .test_procedure import NoisyGradientAtZero

N = 50

POISSON = Poisson(1.2, 4.0)


def plan_of(problem, kinds, mu=1.0):
    releases = tuple(
        planned_release(problem, kind, part)
        for kind, part in zip(kinds, Allowance.gaussian(mu).split([1.0] * len(kinds)), strict=True)
    )
    return Plan("m", "s", problem.n_rows, problem.columns, problem.relation.value, mu, releases, ())


def source_of(rng, n=N):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    return ArraySource(x, (x[:, 1] > 0).astype(float), norm_bound=1.5)


def oracle_of(rng, kinds, *, seed=0, problem=None):
    problem = make_problem(LOSSES[0], n_rows=N) if problem is None else problem
    return Oracle(problem, plan_of(problem, kinds), source_of(rng), make_source(seed))


def test_answers_each_planned_release_once(rng):
    oracle = oracle_of(rng, ["gradient", "hessian", "gradient"])
    oracle.release("gradient", np.zeros(3))
    oracle.release("hessian", np.zeros(3))
    oracle.release("gradient", np.ones(3))
    assert [release.planned.kind for release in oracle.released] == ["gradient", "hessian", "gradient"]
    for kind in ("gradient", "hessian", "meat"):
        with pytest.raises(PlanViolation, match="no further"):
            oracle.release(kind, np.zeros(3))


def test_the_record_keeps_the_point_that_was_asked_for(rng):
    oracle, at = oracle_of(rng, ["gradient"]), np.ones(3)
    oracle.release("gradient", at)
    at[:] = 7.0
    np.testing.assert_array_equal(oracle.released[0].at, np.ones(3))


@pytest.mark.parametrize("kind", ["gradient", "hessian", "second_moment", "meat"])
def test_what_numpy_says_of_a_sum_depends_on_no_row(kind):
    """An entry too small for a normal number made the scaling of a matrix warn, if warnings were wanted."""
    for cell in (0.0, 1e-307, 1e-160):
        x = np.column_stack([np.ones(N), np.zeros((N, 2))])
        x[7, 1] = cell
        problem = make_problem(LOSSES[0], n_rows=N)
        source = ArraySource(x, np.arange(N) % 2.0, norm_bound=1.5)
        oracle = Oracle(problem, plan_of(problem, [kind]), source, make_source(0))
        with np.errstate(all="raise"):
            oracle.release(kind, np.zeros(3))


def test_refuses_a_plan_that_understates_a_sensitivity(rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    plan = plan_of(problem, ["gradient"])
    (planned,) = plan.solver_releases
    short = replace(plan, solver_releases=(replace(planned, sensitivity=0.999 * planned.sensitivity),))
    with pytest.raises(PlanViolation, match="understates"):
        Oracle(problem, short, source_of(rng), make_source(0)).release("gradient", np.zeros(3))


@pytest.mark.parametrize("kind", ["norms", "sizes"])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "pure"])
def test_shares_of_rows_have_the_noise_that_their_law_needs(pure, relation, kind, rng):
    """Two shares change together under replacement: by twice as much in L1, by the root of two in L2."""
    problem = make_problem(LOSSES[0], n_rows=N, relation=relation)
    one = planned_release(problem, kind, Allowance(0.7, pure=pure))
    replaced = 2.0 if pure else math.sqrt(2.0)
    factor = replaced if relation is Relation.REPLACE else 1.0
    assert one.sensitivity == pytest.approx(factor / N, rel=1e-9)
    plan = replace(plan_of(problem, []), mu=math.inf if pure else 0.7, solver_releases=(one,))
    release = Oracle(problem, plan, source_of(rng), make_source(0)).release(kind, np.zeros(3))
    assert release.planned == one
    short = replace(one, sensitivity=0.999 * one.sensitivity)
    with pytest.raises(PlanViolation, match="understates"):
        Oracle(problem, replace(plan, solver_releases=(short,)), source_of(rng), make_source(0)).release(
            kind, np.zeros(3)
        )


def test_refuses_a_plan_with_too_little_noise(rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    plan = plan_of(problem, ["gradient"])
    (planned,) = plan.solver_releases
    quiet = replace(plan, solver_releases=(replace(planned, sd=0.99 * planned.sd),))
    for source in (make_source(0), make_source(None)):
        with pytest.raises(PlanViolation, match="noise of sd"):
            Oracle(problem, quiet, source_of(rng), source).release("gradient", np.zeros(3))


def test_refuses_tables_that_do_not_fit_the_problem(rng):
    problem = make_problem(LOSSES[0], n_rows=N + 1)
    with pytest.raises(PlanViolation, match="number of rows"):
        Oracle(problem, plan_of(problem, ["gradient"]), source_of(rng), make_source(0))
    tight = make_problem(LOSSES[0], n_rows=N, norm_bound=1.0)
    with pytest.raises(PlanViolation, match="bounded less tightly"):
        Oracle(tight, plan_of(tight, ["gradient"]), source_of(rng), make_source(0))


def test_private_noise_refuses_a_plan_without_noise(rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    exact = plan_of(problem, ["gradient"], mu=np.inf)
    with pytest.raises(PlanViolation, match="not private"):
        Oracle(problem, exact, source_of(rng), make_source(None))
    assert not Oracle(problem, exact, source_of(rng), NoNoise()).private


def test_only_private_noise_is_said_to_have_the_planned_law(rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    plan = plan_of(problem, ["gradient"])
    secure, *others = (
        Oracle(problem, plan, source_of(rng), noise).noise_label
        for noise in (make_source(None), make_source(0), NoNoise())
    )
    assert secure == "discrete Gaussian noise (OpenDP, operating system's entropy)"
    assert others == ["seeded: not private", "no noise: not private"]


def test_refuses_parameters_that_are_not_finite(rng):
    for at in (np.zeros(2), np.array([0.0, np.nan, 0.0]), np.array([np.inf, 0.0, 0.0])):
        oracle = oracle_of(rng, ["gradient"])
        with pytest.raises(PlanViolation, match="wrong shape or not finite"):
            oracle.release("gradient", at)
        assert oracle.remaining("gradient") == 1


def test_a_change_of_basis_changes_nothing_but_the_coordinates(rng):
    oracle = oracle_of(rng, ["gradient"])
    others = {
        "loss": POISSON,
        "n_rows": N + 1,
        "relation": Relation.ADD_REMOVE,
        "shares": ShareRule("id", 2),
        "basis": None,
    }
    for name, other in others.items():
        with pytest.raises(PlanViolation, match="change of basis"):
            oracle.change_basis(replace(oracle.problem, **{"basis": np.eye(3), name: other}))
    oracle.change_basis(replace(oracle.problem, basis=np.eye(3), norm_bound=9.0, amplification=9.0))
    with pytest.raises(PlanViolation, match="understates"):
        oracle.release("gradient", np.zeros(3))


def counting_oracle(kinds, seed, *, mu=1.0):
    problem = make_problem(POISSON, n_rows=N)
    source = ArraySource(np.zeros((N, 3)), np.zeros(N), norm_bound=1.5)
    return Oracle(problem, plan_of(problem, kinds, mu), source, make_source(seed))


def test_a_change_of_the_loss_changes_nothing_but_its_constants():
    oracle = counting_oracle(["gradient", "hessian"], 0)
    with pytest.raises(PlanViolation, match="change of the loss"):
        oracle.change_loss(LOSSES[0])
    classes = make_problem(Multinomial(3), n_rows=N)
    source = ArraySource(np.zeros((N, 3)), np.zeros(N), norm_bound=1.5)
    with pytest.raises(PlanViolation, match="change of the loss"):
        Oracle(classes, plan_of(classes, ["gradient"]), source, make_source(0)).change_loss(Multinomial(4))
    oracle.change_loss(Poisson(1.2, 4.1))
    with pytest.raises(PlanViolation, match="understates"):
        oracle.release("gradient", np.zeros(3))
    assert oracle.remaining("gradient") == 1


@pytest.mark.parametrize("kind", ["gradient", "hessian", "meat"])
def test_tighter_bounds_cost_the_same_and_need_less_noise(kind):
    oracle, lowered = counting_oracle([kind], 0), Poisson(0.7, 2.0)
    (planned,) = oracle.plan.releases
    oracle.change_loss(lowered)
    used = oracle.release(kind, np.zeros(3)).planned
    assert (used.kind, used.size, used.mu) == (planned.kind, planned.size, planned.mu)
    assert used.sensitivity == make_problem(lowered, n_rows=N).sensitivity(kind) < planned.sensitivity
    assert gaussian_mu(used.size, used.sensitivity, used.sd) <= planned.mu
    assert used.sd == pytest.approx(planned.sd * used.sensitivity / planned.sensitivity, rel=1e-5)


def weighing_oracle(rng, kinds, *, mu=np.inf, loss=POISSON, source=None):
    """Return an oracle whose rows are weighted by how steep they can be."""
    steep = SteepRows(0.3, np.ones(3), 0.1)
    problem = make_problem(loss, n_rows=N, basis=2.0 * np.eye(3), amplification=30.0, steep=steep)
    if source is None:
        x = np.column_stack([np.ones(N), rng.normal(size=(N, 2))])
        source = ArraySource(x, rng.poisson(2.0, size=N).astype(float), norm_bound=1.5)
    noise = NoNoise() if math.isinf(mu) else make_source(0)
    oracle = Oracle(make_problem(loss, n_rows=N), plan_of(problem, kinds, mu), source, noise)
    oracle.change_basis(problem)
    return oracle


def test_rows_are_bounded_anew_once_the_loss_has_changed():
    oracle = weighing_oracle(np.random.default_rng(0), ["gradient"] * 2)
    lowered, at = Poisson(0.7, 2.0), np.full(3, 0.2)
    before = oracle.release("gradient", at).value
    oracle.change_loss(lowered)
    after = oracle.release("gradient", at).value
    other = weighing_oracle(np.random.default_rng(0), ["gradient"], loss=lowered)
    np.testing.assert_allclose(after, other.release("gradient", at).value, rtol=1e-12)
    assert np.linalg.norm(after - before) > 1e-3


def test_the_gradient_of_a_steep_row_is_held_to_what_is_planned(rng):
    bound = 0.3 * POISSON.constants.slope * 1.5
    lengths = []
    for length in (0.1, 0.4, 1.0, 30.0, 1e6):
        x, y = np.zeros((N, 3)), np.zeros(N)
        x[0, 1], y[0] = length, 1e9
        oracle = weighing_oracle(rng, ["gradient"], source=ArraySource(x, y, norm_bound=1.5))
        lengths.append(N * np.linalg.norm(oracle.release("gradient", np.array([0.0, -9.0, 0.0])).value))
    assert max(lengths) <= bound * (1.0 + 1e-12)
    assert max(lengths) > 0.99 * bound


def test_rows_are_weighed_once_for_the_same_sample_in_the_same_coordinates(monkeypatch, rng):
    weighed, reweighted = [], ArraySource.reweighted

    def counted(self, *arguments, **options):
        weighed.append(self.n_rows)
        return reweighted(self, *arguments, **options)

    monkeypatch.setattr(ArraySource, "reweighted", counted)
    oracle = weighing_oracle(rng, ["gradient"] * 5, mu=1.0)
    for part in (1.0, 0.5, 0.5, 1.0, 1.0):
        oracle.sample(part)
        oracle.release("gradient", np.zeros(3))
    assert len(weighed) == 3
    assert weighed[0] == weighed[2] == N > weighed[1]


def test_tighter_bounds_of_a_pure_release_cost_the_same():
    problem = make_problem(POISSON, n_rows=N)
    planned = planned_release(problem, "gradient", Allowance(0.7, pure=True))
    held = held_to(planned, 0.3 * planned.sensitivity)
    assert (held.epsilon, held.event) == (planned.epsilon, planned.event)
    assert held.sd == pytest.approx(0.3 * planned.sd, rel=1e-5)
    exact = planned_release(problem, "gradient", Allowance(math.inf))
    assert held_to(exact, 0.3 * exact.sensitivity).sd == 0.0


def summing_oracle(kinds, relation="add_remove", seed=0):
    problem = make_problem(POISSON, n_rows=N, relation=Relation(relation))
    source = ArraySource(np.zeros((N, 3)), np.zeros(N), norm_bound=1.5)
    return Oracle(problem, plan_of(problem, kinds, 1.0), source, make_source(seed))


@pytest.mark.parametrize("kind", ["gradient", "hessian", "meat"])
def test_a_larger_number_of_rows_leaves_the_noise_of_sums_as_planned(kind):
    oracle = summing_oracle([kind])
    (planned,) = oracle.plan.releases
    oracle.change_rows(7 * N)
    used = oracle.release(kind, np.zeros(3)).planned
    assert used.mu == planned.mu
    assert used.sensitivity == oracle.problem.sensitivity(kind)
    assert gaussian_mu(used.size, used.sensitivity, used.sd) <= planned.mu
    assert 7 * used.sd == pytest.approx(planned.sd, rel=1e-4)


def test_a_number_of_rows_is_raised_only_and_only_where_it_is_private():
    for oracle, n_rows in (
        (summing_oracle(["gradient"]), N - 1),
        (summing_oracle(["gradient"], "replace"), 2 * N),
    ):
        with pytest.raises(PlanViolation, match="may only be raised"):
            oracle.change_rows(n_rows)
        assert oracle.problem.n_rows == N
    oracle = summing_oracle(["gradient"])
    oracle.change_rows(N)
    assert oracle.problem.n_rows == N


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gradient", "hessian"])
def test_noise_under_tighter_bounds_is_that_of_their_sensitivity(kind):
    oracle, lowered = counting_oracle([kind] * 400, 3), Poisson(0.7, 2.0)
    oracle.change_loss(lowered)
    at = np.full(3, -0.0)
    values = np.array([oracle.release(kind, at).value for _ in range(400)])
    sd = make_problem(lowered, n_rows=N).sensitivity(kind) / oracle.plan.releases[0].mu
    check_law(values / sd, kind)


def test_rows_do_not_get_out(rng):
    oracle = oracle_of(rng, ["gradient"])
    for dump in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private rows"):
            dump(oracle)
    assert repr(oracle) == "Oracle(m, 0 of 1 releases)"
    assert not hasattr(oracle, "__dict__")


def check_law(noise, kind):
    """Chi-square test of the noise, false-alarm rate 1e-8; it rejects 2/3 and 3/2 of the planned sd."""
    draws = len(noise)
    if kind == "hessian":
        upper = np.triu_indices(3, 1)
        off = np.sqrt(2) * noise[:, upper[0], upper[1]]
        np.testing.assert_array_equal(noise, np.swapaxes(noise, 1, 2))
        noise = np.column_stack([np.diagonal(noise, axis1=1, axis2=2), off])
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], noise.size)
    statistic = float(np.sum(noise**2))
    assert low <= statistic <= high
    assert not low <= statistic * 1.5**2 <= high
    assert not low <= statistic / 1.5**2 <= high
    assert np.abs(noise.mean(axis=0)).max() < 6.5 / np.sqrt(draws)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gradient", "hessian"])
@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "secure"])
def test_noise_has_the_planned_law(kind, seed, rng):
    draws = 400
    problem = make_problem(LOSSES[0], n_rows=N)
    plan = plan_of(problem, [kind] * draws)
    source, at = source_of(rng), np.array([0.1, -0.4, 0.3])
    exact = problem.mean(kind, source.sum(query_kernel(problem, kind, at), problem.sum_length(kind)))
    oracle = Oracle(problem, plan, source, make_source(seed))
    sd = plan.solver_releases[0].sd
    check_law(np.array([oracle.release(kind, at).value - exact for _ in range(draws)]) / sd, kind)


def pure_plan(problem, kind, *, draws=1, **less):
    planned = planned_release(problem, kind, Allowance(0.7, pure=True))
    planned = replace(planned, **{name: part * getattr(planned, name) for name, part in less.items()})
    return Plan("m", "s", N, problem.columns, "replace", math.inf, (planned,) * draws, ())


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gradient", "hessian"])
@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "secure"])
def test_pure_noise_has_the_planned_law(kind, seed):
    """Lengths, in `svec` coordinates, have a gamma law: within 6.5 standard errors of its mean."""
    draws, problem = 400, make_problem(LOSSES[0], n_rows=N)
    plan = pure_plan(problem, kind, draws=draws)
    source = ArraySource(np.zeros((N, 3)), np.zeros(N), norm_bound=1.5)
    oracle = Oracle(problem, plan, source, make_source(seed))
    values = [oracle.release(kind, np.zeros(3)).value for _ in range(draws)]
    lengths = [np.linalg.norm(value) for value in values]
    planned = plan.solver_releases[0]
    scale = planned.sensitivity / 0.7
    room = 6.5 * scale * math.sqrt(planned.size / draws)
    assert abs(np.mean(lengths) - planned.size * scale) < room < 0.2 * planned.size * scale


@pytest.mark.parametrize("kind", ["gradient", "hessian"])
@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "secure"])
def test_a_pure_release_with_too_little_noise_or_sensitivity_is_refused(kind, seed, rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    for less, match in (({"sd": 0.99}, "scale"), ({"sensitivity": 0.99}, "understates")):
        oracle = Oracle(problem, pure_plan(problem, kind, **less), source_of(rng), make_source(seed))
        with pytest.raises(PlanViolation, match=match):
            oracle.release(kind, np.zeros(3))


@pytest.mark.parametrize("mu", [1e-3, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("n_steps", [1, 7, 60])
@pytest.mark.parametrize("growth", [1.0, 1.3])
def test_budgets_are_split_on_the_safe_side(mu, n_steps, growth):
    parts = [part.amount for part in Allowance.gaussian(mu).split(growing_shares(n_steps, growth))]
    assert np.sqrt(np.sum(np.square(parts))) <= mu
    assert np.sqrt(np.sum(np.square(parts))) >= mu * (1 - 1e-9)
    if n_steps > 1:
        assert parts[1] / parts[0] == pytest.approx(np.sqrt(growth))


class Given:
    """Noise that is none, and coins that fall as given, a toss at a time."""

    private, label = False, "given coins (not private)"

    def __init__(self, *tosses):
        self.left, self.chances = list(tosses), []

    def gaussian(self, value, sd):
        return value.copy()

    def coins(self, chances, size):
        self.chances.append(chances)
        return self.left.pop(0)


def tosses_of(rng, count):
    return list(rng.random((count, N)) < 0.3)


def given_oracle(rng, kinds, tosses, *, source=None):
    """An oracle whose plan has room for the turned coordinates, and its noise."""
    noise, source = Given(*tosses), source_of(rng) if source is None else source
    plan = plan_of(turned_problem(bases()[1]), kinds)
    return Oracle(make_problem(LOSSES[0], n_rows=N), plan, source, noise), noise


def turned_problem(basis):
    return replace(make_problem(LOSSES[0], n_rows=N), basis=basis, norm_bound=2.0, amplification=40.0)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gradient", "hessian"])
def test_a_sample_estimates_the_mean_over_all_rows(kind, rng):
    """Mean and variance of every entry within 6.5 standard errors: false-alarm rate below 1e-8.

    Rows are chosen one by one: the variance is that of independent coins.
    """
    draws, part = 1500, 0.25
    problem, source, noise = make_problem(LOSSES[0], n_rows=N), source_of(rng), make_source(8)
    plan, at = plan_of(problem, [kind], mu=100.0), np.array([0.1, -0.4, 0.3])
    values = []
    for _ in range(draws):
        oracle = Oracle(problem, plan, source, noise)
        oracle.sample(part)
        value = oracle.release(kind, at).value
        values.append(value if kind == "gradient" else svec(value))
    terms = answers_of_single_rows(problem, kind, at, one_by_one(source))
    exact, sd = terms.sum(axis=0), plan.solver_releases[0].sd
    variance = (1 / part - 1) * (terms**2).sum(axis=0) + (sd / part) ** 2
    room = 6.5 * np.sqrt(variance / draws)
    assert (np.abs(np.mean(values, axis=0) - exact) < room).all()
    assert ((1 - part) * np.abs(exact) > room).any(), "the test does not see a sum that is not divided"
    spread = np.mean((values - exact) ** 2, axis=0) / variance
    assert (np.abs(spread - 1.0) < 6.5 * math.sqrt(2 / draws)).all()


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gradient", "hessian"])
@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "secure"])
@pytest.mark.parametrize("part", [0.7, 0.01])
def test_noise_of_a_sample_is_the_planned_one_divided_by_the_part(kind, seed, part):
    """Rows of zeros add nothing, whichever are chosen."""
    draws = 400
    problem = make_problem(LOSSES[0], n_rows=N)
    plan = plan_of(problem, [kind] * draws)
    source = ArraySource(np.zeros((N, 3)), np.zeros(N), norm_bound=1.5)
    oracle = Oracle(problem, plan, source, make_source(seed))
    oracle.sample(part)
    sd = plan.solver_releases[0].sd / (math.ceil(part * COIN_SIDES) / COIN_SIDES)
    check_law(np.array([oracle.release(kind, np.zeros(3)).value for _ in range(draws)]) / sd, kind)
    assert {release.sd for release in oracle.released} == {sd}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kind", ["gradient", "second_moment"])
def test_samples_of_neighbours_differ_by_the_planned_sensitivity(kind, relation, rng):
    """Before the division, which noise undergoes as well; rows that are shared have the same coins."""
    problem, part = make_problem(LOSSES[0], n_rows=N, relation=relation), 0.3
    x, y, at = rng.normal(size=(N, 3)), np.zeros(N), np.zeros(3)
    changed, gaps = x.copy(), []
    x[-1] = [1.5, 0.0, 0.0]
    changed[-1] = [-1.5, 0.0, 0.0] if kind == "gradient" else [0.0, -30.0, 0.0]
    if relation is Relation.ADD_REMOVE:
        changed = x[:-1]
    for coins in tosses_of(rng, 20):
        values = []
        for rows in (x, changed):
            source = ArraySource(rows, y[: len(rows)], norm_bound=1.5)
            oracle = Oracle(problem, plan_of(problem, [kind]), source, Given(coins[: len(rows)]))
            oracle.sample(part)
            values.append(oracle.release(kind, at))
        one, other = values
        gap = np.linalg.norm(one.value - other.value) * one.planned.sd / one.sd
        gaps.append(gap / one.planned.sensitivity)
        assert gaps[-1] <= 1.0
        assert coins[-1] or gaps[-1] == 0.0
    assert max(gaps) > (0.99 if kind == "second_moment" else 0.49)


@pytest.mark.parametrize("part", [1e-9, 1 / COIN_SIDES, 0.1, 0.25, 0.3, 1 - 1e-9, 1.0])
def test_the_part_is_what_coins_can_show(part, rng):
    oracle, noise = given_oracle(rng, ["gradient"], tosses_of(rng, 1))
    oracle.sample(part)
    release, chances = oracle.release("gradient", np.zeros(3)), math.ceil(part * COIN_SIDES)
    assert release.part == chances / COIN_SIDES >= part
    assert release.sd == release.planned.sd / release.part
    assert noise.chances == ([chances] if chances < COIN_SIDES else [])


def test_a_sample_is_asked_again_for_the_same_part_only(rng):
    oracle, noise = given_oracle(rng, ["gradient"] * 9, tosses_of(rng, 3))
    parts = [1.0, 0.25, 0.25, 1.0, 0.25 - 1e-9, 0.5, 1.0, 0.25, 0.25]
    values = []
    for part in parts:
        oracle.sample(part)
        values.append(tuple(oracle.release("gradient", np.zeros(3)).value))
    first, sampled, *_, other, _, again, _ = values
    assert values == [first, sampled, sampled, first, sampled, other, first, again, again]
    assert len({first, sampled, other, again}) == 4
    assert noise.chances == [COIN_SIDES // 4, COIN_SIDES // 2, COIN_SIDES // 4]
    assert [release.part for release in oracle.released] == [round(part, 6) for part in parts]


ORDERS = {
    "basis first": "turned sample",
    "sample first": "sample turned",
    "another basis before": "other sample turned",
    "asked before": "ask sample ask turned",
    "asked in another basis": "sample other ask turned",
    "all in another basis": "other ask sample turned",
    "all in this basis": "turned ask sample",
    "there and back": "turned sample ask all other ask sample turned ask other ask turned",
}


@pytest.mark.parametrize("kind", ["gradient", "second_moment"])
@pytest.mark.parametrize("steps", ORDERS.values(), ids=ORDERS)
def test_rows_of_a_sample_are_bounded_in_the_present_basis(kind, steps, rng):
    x, y, (coins,) = 3.0 * rng.normal(size=(N, 3)), (rng.random(N) < 0.5).astype(float), tosses_of(rng, 1)
    oracle, noise = given_oracle(rng, [kind] * 9, [coins], source=ArraySource(x, y, norm_bound=1.5))
    problems = dict(zip(("turned", "other"), map(turned_problem, bases()[1:]), strict=True))
    at = np.array([0.1, -0.4, 0.3])
    for step in steps.split():
        if step in problems:
            oracle.change_basis(problems[step])
        elif step == "ask":
            oracle.release(kind, at)
        else:
            oracle.sample(0.25 if step == "sample" else 1.0)

    def expected(rows, problem):
        rows = rows.reweighted(
            problem.basis, norm_bound=problem.norm_bound, amplification=problem.amplification
        )
        return problem.mean(kind, query_total(problem, kind, at)(rows))

    chosen = ArraySource(x[coins], y[coins], norm_bound=1.5)
    answer = oracle.release(kind, at).value
    np.testing.assert_allclose(answer, expected(chosen, problems["turned"]) / 0.25, rtol=1e-9)
    oracle.sample(1.0)
    whole = expected(ArraySource(x, y, norm_bound=1.5), problems["turned"])
    np.testing.assert_allclose(oracle.release(kind, at).value, whole, rtol=1e-9)
    assert len(noise.chances) == 1


@pytest.mark.parametrize("part", [0.0, -0.5, 1.0 + 1e-9, math.nan, math.inf, "1", True])
def test_a_part_that_is_none_is_refused(part, rng):
    oracle, noise = given_oracle(rng, ["gradient"] * 2, tosses_of(rng, 1))
    oracle.sample(0.25)
    with pytest.raises(InvalidArgument, match="part must"):
        oracle.sample(part)
    assert oracle.release("gradient", np.zeros(3)).part == 0.25
    assert len(noise.chances) == 1


@pytest.mark.parametrize("rule", [ShareRule("id"), ShareRule(weights=("weight", NumericColumn(0.0, 2.0)))])
def test_rows_that_count_by_shares_are_not_sampled(rule, rng):
    x = rng.normal(size=(N, 3))
    shares = RowShares(rule, np.ones(N), None if rule.unit is None else np.arange(N), N)
    problem = make_problem(LOSSES[0], n_rows=N, shares=rule)
    source = ArraySource(x, np.zeros(N), norm_bound=1.5, shares=shares)
    oracle = Oracle(problem, plan_of(problem, ["gradient"]), source, Given(*tosses_of(rng, 1)))
    oracle.sample(1.0)
    with pytest.raises(PlanViolation, match="not sampled"):
        oracle.sample(0.5)
    assert oracle.remaining("gradient") == 1
    assert oracle.release("gradient", np.zeros(3)).part == 1.0


@pytest.mark.parametrize("rule", [ShareRule("id"), ShareRule(weights=("weight", NumericColumn(0.0, 2.0)))])
def test_no_coin_is_tossed_for_rows_that_count_by_shares(rule, rng, monkeypatch):
    """Whatever rows there are: those of a source that would let itself be sampled, too."""
    shares = RowShares(rule, np.ones(N), None if rule.unit is None else np.arange(N), N)
    problem, noise = make_problem(LOSSES[0], n_rows=N, shares=rule), Given(*tosses_of(rng, 1))
    source = ArraySource(rng.normal(size=(N, 3)), np.zeros(N), norm_bound=1.5, shares=shares)
    monkeypatch.setattr(ArraySource, "sampled", lambda self, coins, part: coins(N) is None or self)
    oracle = Oracle(problem, plan_of(problem, ["gradient"]), source, noise)
    with pytest.raises(PlanViolation, match="not sampled"):
        oracle.sample(0.5)
    assert noise.chances == []
    assert oracle.release("gradient", np.zeros(3)).part == 1.0


def test_rows_that_count_by_shares_let_themselves_not_be_sampled(rng):
    shares = RowShares(ShareRule("id"), np.ones(N), np.arange(N), N)
    source = ArraySource(rng.normal(size=(N, 3)), np.zeros(N), norm_bound=1.5, shares=shares)
    with pytest.raises(PlanViolation, match="not sampled"):
        source.sampled(lambda size: np.ones(size, dtype=np.bool_), 0.5)


def test_a_procedure_is_carried_out_on_all_rows_only(rng):
    problem, procedure = make_problem(LOSSES[0], n_rows=N), NoisyGradientAtZero(1e6)
    plan = Plan("m", "s", N, problem.columns, "replace", 1e6, (procedure.planned(problem),), ())
    oracle = Oracle(problem, plan, source_of(rng), Given(*tosses_of(rng, 1)))
    oracle.sample(0.5)
    with pytest.raises(PlanViolation, match="all rows"):
        oracle.carry_out(procedure, np.zeros(3))
    assert oracle.remaining("walk") == 1
    assert oracle.released == ()
    oracle.sample(1.0)
    assert oracle.carry_out(procedure, np.zeros(3)).part == 1.0


def test_a_sample_costs_what_all_rows_cost(rng):
    oracle, _ = given_oracle(rng, ["gradient"] * 2, tosses_of(rng, 1))
    events = oracle.plan.events
    oracle.sample(0.25)
    assert oracle.remaining("gradient") == 2
    for left in (1, 0):
        oracle.release("gradient", np.zeros(3))
        assert oracle.remaining("gradient") == left
    with pytest.raises(PlanViolation, match="no further"):
        oracle.release("gradient", np.zeros(3))
    assert oracle.plan.events == events
    assert [release.planned.event for release in oracle.released] == list(events)


def test_a_plan_for_the_sensitivity_of_a_smaller_sum_is_refused_on_a_sample(rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    (planned,) = plan_of(problem, ["gradient"]).solver_releases
    for less in ({"sensitivity": 0.25 * planned.sensitivity}, {"sd": 0.25 * planned.sd}):
        plan = replace(plan_of(problem, ["gradient"]), solver_releases=(replace(planned, **less),))
        oracle = Oracle(problem, plan, source_of(rng), make_source(0))
        oracle.sample(0.25)
        with pytest.raises(PlanViolation, match=r"understates|noise of sd"):
            oracle.release("gradient", np.zeros(3))
