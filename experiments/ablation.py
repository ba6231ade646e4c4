"""What each design choice of the default without inference buys, on Adult and Bank with one off at a time.

Tables, encoding and epsilons are those of `benchmarks/accuracy`, delta is n^-1.1, neighbours replace a row.
A variant is the library's own solver with one of its functions replaced for the time of a fit, so that all
constants are those of the solver. Excess is the mean training log loss above its exact minimum.

    python experiments/ablation.py --data FOLDER     # FOLDER holds adult_data.csv.gz and bank_full.csv.gz

Adds to experiments/results/ablation.csv; resumable.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np

from resumable import ResultsTable

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "benchmarks" / "accuracy"))

from cells import Cell  # noqa: E402 -- in the folder of the benchmark
from competitors.library import Library  # noqa: E402
from tables import Rows, load  # noqa: E402

from privfit.data.reduction import CHUNK_ROWS  # noqa: E402
from privfit.problem import bounded_kernels  # noqa: E402
from privfit.solvers import (  # noqa: E402
    EmpiricalBayesDescent,
    WhitenedGradientDescent,
    drawn,
    empirical_bayes,
    geometry,
)
from privfit.solvers.base import AbstractSolver  # noqa: E402
from privfit.solvers.geometry import Frame, Marginals  # noqa: E402
from privfit.solvers.hessian_model import HessianModel  # noqa: E402
from privfit.solvers.shrinkage import likelier_mean  # noqa: E402

Patch = tuple[object, str, object]
RESULTS = HERE / "results" / "ablation.csv"
FIELDS = ["table", "variant", "epsilon", "repetitions", "excess", "excess_se", "test"]
TABLES = ("adult", "bank")
EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
DESCENT = empirical_bayes._Descent
TINY = 1e-6
"""Part of the squared budget for releases that a variant makes but does not look at."""


def raw(self, estimate, noise, alike):
    """Do not shrink."""
    del self, noise, alike
    return estimate


def james_stein(self, estimate, noise, alike):
    """Multiply all coordinates by one factor: James and Stein's positive part, in the noise's metric."""
    del self, alike
    length = estimate @ np.linalg.solve(noise, estimate)
    return max(0.0, 1.0 - max(estimate.size - 2, 0) / length) * estimate


def of_whitened(self, estimate, noise, alike):
    """Shrink as if coefficients of whitened coordinates were alike, as far as these are seen."""
    del alike
    contrasts, seen = self.problem.loss.contrasts, self.frame.seen
    return likelier_mean(estimate, noise, contrasts, energy=self.energy, alike=seen, otherwise=seen)


def only_at_the_end(shrink, combined):
    """Follow the unshrunk estimates and shrink the last one."""

    def changed(self, base, previous):
        last = self.oracle.remaining("bounded_gradient") == 0
        with mock.patch.object(HessianModel, "shrunk", shrink if last else raw):
            return combined(self, base, previous)

    return changed


def last_gradient(combined):
    """Forget all gradients but the last."""

    def changed(self, base, previous):
        del self.seen[:-1]
        return combined(self, base, previous)

    return changed


def bound_on_curvature(self, phi):
    """Return the largest curvature in every direction."""
    del phi
    return self.problem.loss.constants.curvature * np.eye(self.problem.n_coef) + self._ridge


def as_the_model(*seen):
    """Do not ask gradients how steep the loss is."""
    del seen
    return 1.0


def unseen(release, **facts):
    """Learn nothing from the norms of whitened rows."""
    del release, facts


def mallows_kernel(loss, theta, s, norm_bound):  # noqa: ARG001 -- as the library's, for a logit
    """Sum terms of norm at most 1 with the weight ``min(1, c**2 / norm(z)**2)``, blind to the slope."""

    def kernel(block, out):
        for chunk in range(out.shape[0]):
            rows = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
            x, y = block.x[rows], block.y[rows]
            room = np.sqrt(block.weight[rows]) / norm_bound
            slope = 1.0 / (1.0 + np.exp(-np.clip(x @ theta, -40.0, 40.0))) - y
            out[chunk] += x.T @ (slope * np.minimum(room**2, 1.0))

    return kernel


def without_moment(cls, problem, standard, release, *, marginals, size):
    """Return standardised coordinates as if columns were uncorrelated."""
    del problem, release
    basis = standard.copy()
    basis[0, 0] = 1.0
    return cls(basis, basis.T @ marginals.mean, size + 1.0, np.eye(len(basis)))


def without_marginals(cls, problem, standard, release, *, marginals, size):
    """Return coordinates that a second moment of the encoded rows whitens, by the same rule."""
    del problem, standard, marginals
    moment, noise = size * release.value, size * release.planned.sd
    values, vectors = np.linalg.eigh(moment)
    values = drawn.denoised(values, noise)
    added = max(geometry._DAMPING * noise, 1e-8)
    basis = (vectors / np.sqrt(values + added)) @ vectors.T
    dimension = max(float(np.sum(values / (values + added))), 1.0)
    seen = (vectors * np.maximum(np.sqrt(values / (values + added)), geometry._LEAST_SEEN)) @ vectors.T
    return cls(basis, basis.T @ moment[:, 0], dimension, seen)


@dataclass(frozen=True)
class Variant:
    """A configuration of the solver, and what of its code is replaced."""

    name: str
    solver: AbstractSolver
    patches: tuple[Patch, ...] = ()

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Replace the functions for a while."""
        with ExitStack() as stack:
            for owner, attribute, value in self.patches:
                stack.enter_context(mock.patch.object(owner, attribute, value))
            yield


def encoded_start(self, problem):
    """Return the public start."""
    del self
    return np.array(problem.start)


def encoded(self, problem):
    """Return the encoded coordinates."""
    del self
    return np.eye(problem.n_coef)


DEFAULT = EmpiricalBayesDescent()
VARIANTS = (
    Variant("the default", DEFAULT),
    Variant(
        "no marginals",
        EmpiricalBayesDescent(
            marginal_share=TINY, geometry_share=DEFAULT.marginal_share + DEFAULT.geometry_share
        ),
        (
            (Marginals, "level_coding", encoded),
            (Marginals, "alike", encoded),
            (Marginals, "start", encoded_start),
            (Frame, "of", classmethod(without_marginals)),
        ),
    ),
    Variant(
        "no second moment",
        EmpiricalBayesDescent(geometry_share=TINY),
        ((Frame, "of", classmethod(without_moment)),),
    ),
    Variant("no shrinkage", DEFAULT, ((HessianModel, "shrunk", raw),)),
    Variant(
        "shrinkage at the end only",
        DEFAULT,
        ((DESCENT, "_combined", only_at_the_end(HessianModel.shrunk, DESCENT._combined)),),
    ),
    Variant("one factor for all (James-Stein)", DEFAULT, ((HessianModel, "shrunk", james_stein),)),
    Variant("whitened coefficients alike", DEFAULT, ((HessianModel, "shrunk", of_whitened),)),
    Variant("bound on the curvature, not a model", DEFAULT, ((DESCENT, "_hessian", bound_on_curvature),)),
    Variant("as steep as the model says", DEFAULT, ((empirical_bayes, "steepness", as_the_model),)),
    Variant("no look at whitened norms", DEFAULT, ((empirical_bayes, "best_limit", unseen),)),
    Variant(
        "Mallows weights",
        DEFAULT,
        ((bounded_kernels, "bounded_gradient_kernel", mallows_kernel),),
    ),
    Variant(
        "Mallows weights, c² = 1.2 d",
        EmpiricalBayesDescent(spread=1.2),
        ((bounded_kernels, "bounded_gradient_kernel", mallows_kernel),),
    ),
    Variant("even budgets", EmpiricalBayesDescent(growth=1.0)),
    Variant(
        "every step from the last gradient alone",
        DEFAULT,
        ((DESCENT, "_combined", last_gradient(DESCENT._combined)),),
    ),
    Variant("the later half of the gradients alone", DEFAULT, ((empirical_bayes, "OFF_WHERE_CURVED", 1e9),)),
    Variant("all gradients by their noise alone", DEFAULT, ((empirical_bayes, "OFF_WHERE_CURVED", 0.0),)),
    Variant("the default with inference", WhitenedGradientDescent()),
)


@cache
def rows_of(table: str, data: Path) -> Rows:
    """Return a table, which is read once."""
    return load(table, data)


def measured(cell: Cell, variant: Variant, repetitions: int) -> dict[str, object]:
    """Return a row of the results: means over repetitions with the same seeds for every variant."""
    method = Library("ablation", variant.solver)
    runs = [((), cell.generator("ablation", repetition)) for repetition in range(repetitions)]
    with variant.applied():
        scores = [cell.scores(theta) for theta in method.fit(cell, runs)]
    excess = np.array([score.excess for score in scores])
    return {
        "table": cell.rows.name,
        "variant": variant.name,
        "epsilon": f"{cell.epsilon:g}",
        "repetitions": repetitions,
        "excess": f"{excess.mean():.5g}",
        "excess_se": f"{excess.std(ddof=1) / np.sqrt(repetitions):.2g}",
        "test": f"{np.mean([score.test for score in scores]):.4f}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the public tables")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 3)
    for name, variant, epsilon in product(TABLES, VARIANTS, EPSILONS):
        if table.lacks(name, variant.name, f"{epsilon:g}"):
            cell = Cell(rows_of(name, options.data), "logistic", epsilon)
            table.add(measured(cell, variant, options.repetitions))


if __name__ == "__main__":
    main()
