"""Coverage of four kinds of 95 % intervals from the same fits; used by PI-5 and PI-6."""

import math
from collections.abc import Callable

import numpy as np
from common import Run, Table, figure, fit, save, table
from scipy.special import ndtri

from privfit.inference.combine import anchor, last_iterate, one_step
from privfit.inference.covariance import bread_from, spread
from privfit.losses import AbstractLoss
from privfit.solvers import AbstractSolver

BETA, SD, SPREAD, MU = np.ones(4), 2.0, 2.0, 1.0
DESIGNS = {"independent": 0.0, "correlated": 0.5}
COEFFICIENT = 2
PAIR = [1, 2]
KINDS = ("uncorrected", "published", "recursion", "one step")
ELLIPSE = -2.0 * math.log(0.05)
"""95 % quantile of chi-square with 2 degrees of freedom."""


def study(
    name: str,
    loss: AbstractLoss,
    solver_for: Callable[[int], AbstractSolver],
    published: Callable[[Run], np.ndarray],
    *,
    rows: tuple[int, ...],
    repetitions: int,
) -> None:
    """Fill the table of a study, one cell for a design and a number of rows, and draw it."""
    results = Table(name, ("design", "n"))
    for design, correlation in DESIGNS.items():
        for n in rows:
            if results.has(design=design, n=n):
                continue
            counts, widths = [], []
            for seed in range(repetitions):
                x, y = table(n, BETA, seed=seed, sd=SD, spread=SPREAD, correlation=correlation)
                run = fit(loss, x, y, solver_for(n), mu=MU, seed=seed, inference=True)
                hits, width = judge(run, published(run))
                counts.append(hits)
                widths.append(width)
            row = {"design": design, "n": n, "repetitions": repetitions}
            row |= {kind: float(rate) for kind, rate in zip(KINDS, np.mean(counts, axis=0)[:4], strict=True)}
            row |= {
                f"pair: {kind}": float(rate)
                for kind, rate in zip(KINDS, np.mean(counts, axis=0)[4:], strict=True)
            }
            row |= {
                f"width: {kind}": float(w) for kind, w in zip(KINDS, np.median(widths, axis=0), strict=True)
            }
            results.add(row)
    draw(name, results)


def judge(run: Run, published: np.ndarray) -> tuple[list[bool], list[float]]:
    """Return whether interval and ellipse hold the truth for each kind, and the widths.

    The first three are about the last iterate: the sandwich alone, plus the source's correction, plus the
    covariance that the recursion gives. The fourth is this library's default, late gradients combined.
    """
    sampling = run.inference.cov_sampling
    bread = bread_from(run.problem, hessians(run))
    combined = one_step(anchor(run.solution.late), bread)
    last, shown = run.inference.theta, np.isfinite(run.inference.cov_noise)
    recursion = spread(last_iterate(run.solution, bread).cov_noise, bread)[:4, :4]
    kinds = (
        (last, sampling),
        (last, sampling + published[:4, :4]),
        (last, sampling + np.where(shown, recursion, np.inf)),
        (combined.theta[:4], sampling + combined.cov_noise[:4, :4]),
    )
    hits, pairs, widths = [], [], []
    for theta, covariance in kinds:
        half = ndtri(0.975) * math.sqrt(covariance[COEFFICIENT, COEFFICIENT])
        hits.append(bool(abs(theta[COEFFICIENT] - BETA[COEFFICIENT]) <= half))
        error = (theta - BETA)[PAIR]
        block = covariance[np.ix_(PAIR, PAIR)]
        pairs.append(bool(not np.isfinite(block).all() or error @ np.linalg.solve(block, error) <= ELLIPSE))
        widths.append(2 * half)
    return hits + pairs, widths


def hessians(run: Run) -> list:
    """Return the Hessians that inference used."""
    bought = [release for release in run.oracle.released if release.planned.kind == "hessian"][-1]
    return [*run.solution.curvature, bought]


def draw(name: str, results: Table) -> None:
    fig, axes = figure(3)
    panels = (
        ("one coefficient", "", "independent"),
        ("one, correlated", "", "correlated"),
        ("two at once, correlated", "pair: ", "correlated"),
    )
    for axis, (title, prefix, design) in zip(axes, panels, strict=True):
        for k, kind in enumerate(KINDS):
            axis.plot(
                *results.series("n", prefix + kind, design=design), "o-", color=f"C{k}", ms=3, label=kind
            )
        axis.axhline(0.95, color="gray", ls=":")
        axis.set(xlabel="n", ylabel="coverage of 95 % regions", xscale="log", title=title, ylim=(0.3, 1.02))
        sizes, _ = results.series("n", prefix + KINDS[0], design=design)
        axis.set_xticks(sizes, [f"{n:,.0f}" for n in sizes])
        axis.minorticks_off()
    axes[0].legend(loc="lower right")
    save(fig, name)
