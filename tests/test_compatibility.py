"""Every loss with every solver under every guarantee: it works, or is refused with a remedy."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from privfit.data.source import ArraySource
from privfit.inference.infer import estimate_only, infer
from privfit.privacy.mechanisms import make_source
from privfit.problem.oracle import Oracle

SCRIPT = Path(__file__).parents[1] / "docs" / "generate_compatibility.py"


def load():
    spec = importlib.util.spec_from_file_location("generate_compatibility", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


table = load()


def rows_for(loss):
    rng = np.random.default_rng(7)
    z = rng.uniform(-1.0, 1.0, table.ROWS)
    x, eta = np.column_stack([np.ones(table.ROWS), z]), 0.3 + 0.6 * z
    if loss.target_kind == "binary":
        return x, (rng.random(table.ROWS) < 1 / (1 + np.exp(-2 * eta))).astype(float)
    if loss.target_kind == "class":
        return x, np.round(1.0 + eta + 0.5 * rng.normal(size=table.ROWS)).clip(0, 2)
    if loss.target_kind == "count":
        return x, np.minimum(rng.poisson(np.exp(eta)), 5).astype(float)
    return x, np.clip(eta + 0.1 * rng.normal(size=table.ROWS), -1.0, 1.0)


@pytest.mark.parametrize("name", table.SOLVERS)
@pytest.mark.parametrize("loss", table.LOSSES, ids=table.label)
def test_a_combination_works_or_is_refused_with_a_remedy(loss, name):
    solver, problem = table.SOLVERS[name], table.problem_for(loss)
    x, y = rows_for(loss)
    for budget in table.BUDGETS.values():
        with_errors = table.outcome(loss, solver, budget, inference=True)
        alone = table.outcome(loss, solver, budget, inference=False)
        for refusal in (with_errors.refusal, alone.refusal):
            remedies = ("use ", "take ", "give ", "fit with ")
            assert not refusal or any(remedy in refusal for remedy in remedies), refusal
        if with_errors.plan is not None:
            assert alone.plan is not None, "inference must not be what makes a fit possible"
        chosen = with_errors if with_errors.plan is not None else alone
        if chosen.plan is None:
            continue
        source = ArraySource(x, y, norm_bound=problem.norm_bound)
        oracle = Oracle(problem, chosen.plan, source, make_source(3))
        solution = solver.run(problem, oracle)
        inference = with_errors.plan is not None
        found = (
            infer(solution, oracle, directions=np.eye(problem.n_linear))
            if inference
            else estimate_only(solution)
        )
        assert np.isfinite(found.theta).all()
        assert len(oracle.released) <= len(chosen.plan.releases)
        if inference:
            assert not np.isnan(found.cov_noise).any()
            assert (np.diag(found.cov_sampling + found.cov_noise) > 0).all()


def test_the_page_says_what_is_true():
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), f"run python {SCRIPT.name}"


def test_every_solver_by_name_is_in_the_table_or_is_the_default_or_the_reference():
    from privfit.solvers import BY_NAME

    assert set(BY_NAME) - set(table.SOLVERS) == {"auto", "non-private"}
