"""Output perturbation against mini-batch noisy SGD on five tables (Zhang et al. 2017, section 6, table 3).

    python experiments/output_perturbation/compare.py --data FOLDER [--rounds 100] [--tables bank wine]

Every row of experiments/results/output_perturbation.csv is one table, ridge weight, epsilon and method: mean
and standard error over the rounds of ``F(released) - min F``, and seconds of CPU time of one fit, without
planning and without the evaluation of F. Rows that are there are not done again. Two runs:

* ``source``: the constants as published, 3 and 5, ``sigma = sqrt(2 ln(2 / delta)) Delta / epsilon``, against
  the published calibration of the baseline (`baseline.py`).
* ``tight``: derived constants and exact calibration. `NoisySGD` draws Poisson samples, and takes its default
  numbers of steps and of rows at the public guess ``sqrt(p)`` of the distance to the minimum, which is that
  of output perturbation.

`figure.py` draws the CSV.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from baseline import bassily
from scipy.optimize import minimize
from tables import TABLES, encoded, objective, problem_of

from privfit.data.source import ArraySource
from privfit.errors import Incompatible
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.perturb import perturb_vector
from privfit.problem.plan import PlannedRelease
from privfit.problem.rows import Rows
from privfit.procedures.minimise import CertifiedMinimiser
from privfit.procedures.output_perturbation import PerturbedOutput
from privfit.solvers import AbstractSolver, NoisySGD, ObjectivePerturbation, OutputPerturbation

sys.path.append(str(Path(__file__).parents[1]))

from resumable import ResultsTable

CSV = Path(__file__).parents[1] / "results" / "output_perturbation.csv"
EPSILONS = (0.1, 0.5, 1.0, 2.0)
DELTA = 1e-3
"""As far as known that of the source."""

BASELINE = "mini-batch SGD"
LONG = f"{BASELINE}, 10,000 steps"
"""Without a ridge the default of 1,000 steps ends far from the minimum."""


def solvers(n_columns: int, *, ridge: bool) -> dict[str, dict[str, AbstractSolver]]:
    """Return the private solvers of each run."""
    tight: dict[str, AbstractSolver] = {
        "gradient descent": OutputPerturbation(),
        "objective perturbation": ObjectivePerturbation(),
        BASELINE: NoisySGD(radius=math.sqrt(n_columns)),
    }
    if ridge:
        tight["certified minimiser"] = OutputPerturbation(CertifiedMinimiser())
    else:
        tight[LONG] = NoisySGD(n_steps=10_000, radius=math.sqrt(n_columns))
    return {"source": {"gradient descent": OutputPerturbation(constants="source")}, "tight": tight}


FIELDS = [
    "run", "table", "rows", "columns", "l2", "epsilon", "delta", "method", "rounds", "error", "error_se",
    "cpu_seconds",
]  # fmt: skip

Fit = Callable[[int], np.ndarray]


class Task:
    """A table with one ridge weight, and its minimum."""

    def __init__(self, name: str, x: np.ndarray, y: np.ndarray, l2: float) -> None:
        self.name, self.x, self.y = name, x, y
        self.problem: Problem = problem_of(name, x, l2)
        self.source = ArraySource(x, y, norm_bound=self.problem.norm_bound)
        self.minimising = 0.0

    @cached_property
    def minimum(self) -> float:
        """The minimum, by L-BFGS, since collinear levels and constant leave many minimisers."""
        rows, problem = Rows(self.problem, self.source), self.problem

        def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
            gradient = rows.mean("gradient", theta) + problem.l2 * theta
            return objective(problem, self.x, self.y, theta), gradient

        options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-10}
        start = np.zeros(problem.size)
        found = minimize(value_and_gradient, start, jac=True, method="L-BFGS-B", options=options)
        return float(found.fun)

    def fit_with(self, solver: AbstractSolver, budget: Budget) -> Fit:
        """Return a function of the seed; the plan is checked against the budget first."""
        plan = make_plan(self.problem, solver, Allowance.of(budget), inference=False)
        if not compose(plan.events).within(budget):
            raise Incompatible("a solver's plan exceeds the budget")

        if isinstance(solver, OutputPerturbation):
            return self._noise_alone(solver, plan.releases[0])

        def fit(seed: int) -> np.ndarray:
            oracle = Oracle(self.problem, plan, self.source, make_source(seed))
            return solver.run(self.problem, oracle).theta

        return fit

    def _noise_alone(self, solver: OutputPerturbation, release: PlannedRelease) -> Fit:
        """Minimise once, after once to warm up; rounds differ in the noise alone."""
        minimiser = solver.settled_minimiser(self.problem, release)
        quiet = replace(release, mu=math.inf, sd=0.0, epsilon=None)
        rows = Rows(self.problem, self.source)
        PerturbedOutput(minimiser, quiet).carry_out(self.problem, rows, NoNoise())
        started = time.process_time()
        exact = PerturbedOutput(minimiser, quiet).carry_out(self.problem, rows, NoNoise())
        self.minimising = time.process_time() - started
        return lambda seed: perturb_vector(exact, release, make_source(seed))

    def measured(self, fit: Fit, rounds: int) -> dict[str, object]:
        """Return error and CPU time."""
        errors, spent, least = [], self.minimising, self.minimum
        for seed in range(rounds):
            started = time.process_time()
            theta = fit(seed)
            spent += (time.process_time() - started) / rounds
            errors.append(objective(self.problem, self.x, self.y, theta) - least)
        spread = np.std(errors, ddof=1) / math.sqrt(rounds)
        return {
            "rounds": rounds,
            "error": f"{np.mean(errors):.5g}",
            "error_se": f"{spread:.2g}",
            "cpu_seconds": f"{spent:.3g}",
        }


def methods(task: Task, budget: Budget, most: int) -> Iterator[tuple[str, str, Callable[[], Fit]]]:
    """Yield run, label and what makes the fit."""
    for run, chosen in solvers(task.problem.size, ridge=task.problem.l2 > 0.0).items():
        for label, solver in chosen.items():
            yield run, label, lambda solver=solver: task.fit_with(solver, budget)

    def published(seed: int, most: int = most) -> np.ndarray:
        return bassily(
            task.problem, task.x, task.y, epsilon=budget.epsilon, delta=budget.delta, seed=seed, most=most
        )

    def prepare() -> Fit:
        published(0, most=1)
        return published

    yield "source", BASELINE + (f", at most {most} steps" if most else ""), prepare


def speed(run: str, label: str) -> str:
    """Return which number of rounds a method gets; with 0 it is left out."""
    if label == LONG:
        return "long"
    if label.startswith(BASELINE) and run == "source":
        return "source"
    return "slow" if label in {BASELINE, "objective perturbation"} else "quick"


def compare(results: ResultsTable, task: Task, epsilon: float, *, rounds: dict[str, int], most: int) -> None:
    """Add what the results lack of a task at an epsilon."""
    for run, label, prepare in methods(task, Budget(epsilon, DELTA), most):
        repeats = rounds[speed(run, label)]
        key = (run, task.name, *task.x.shape, task.problem.l2, epsilon, DELTA, label)
        if repeats and results.lacks(*key):
            task.minimising = 0.0
            results.add(dict(zip(FIELDS, key, strict=False)) | task.measured(prepare(), repeats))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=CSV)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--slow-rounds", type=int, default=100, help="where each round minimises anew")
    parser.add_argument("--source-rounds", type=int, default=20, help="of the published mini-batch SGD")
    parser.add_argument("--long-rounds", type=int, default=5, help=f"of {LONG}")
    parser.add_argument("--most-steps", type=int, default=0, help="cap on the baseline's steps; 0 for none")
    arguments = parser.parse_args()
    numbers = {
        "quick": arguments.rounds,
        "slow": arguments.slow_rounds,
        "source": arguments.source_rounds,
        "long": arguments.long_rounds,
    }
    results = ResultsTable(arguments.out, FIELDS, 8)
    for name in arguments.tables:
        x, y = encoded(arguments.data, name)
        for l2 in (0.0, TABLES[name][2]):
            task = Task(name, x, y, l2)
            for epsilon in EPSILONS:
                compare(results, task, epsilon, rounds=numbers, most=arguments.most_steps)


if __name__ == "__main__":
    main()
