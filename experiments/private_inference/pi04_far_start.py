"""PI-4: a start far from the truth; damped Newton with a self-concordant loss against gradient descent.

    python experiments/private_inference/pi04_far_start.py

Avella-Medina, Bradshaw and Loh (2023), figure 4. Each repetition is a path, with and without privacy.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from common import HUBER, Table, arguments, figure, fit, save, table

from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, scalar
from privfit.solvers import NoisyGradientDescent, NoisyNewton, SelfConcordantDamping
from privfit.solvers.self_concordance import second_kind

NAME, N, BETA, SD, MU = "pi04_far_start", 1000, (10.0, -11.0, 9.0, -11.0), 2.0, 2.0


@scalar
def _value(y, eta, s, c, k):  # noqa: ARG001 -- the common signature
    u = (eta - y) / c
    root = math.sqrt(1.0 + 4.0 * u * u)
    return 0.5 * c * c * (root - 1.0 + math.log(2.0 / (root + 1.0)))


@scalar
def _slope(y, eta, s, c, k):  # noqa: ARG001
    t = eta - y
    return 2.0 * t / (math.sqrt(1.0 + 4.0 * (t / c) ** 2) + 1.0)


@scalar
def _curvature(y, eta, s, c, k):  # noqa: ARG001
    root = math.sqrt(1.0 + 4.0 * ((eta - y) / c) ** 2)
    return 2.0 / (root * (root + 1.0))


@final
@dataclass(frozen=True, slots=True)
class SmoothHuber(AbstractLoss):
    """The (2/c, 3)-self-concordant loss of the source's example 2: quadratic at 0, slope at most c."""

    c: float
    target_kind: ClassVar = "numeric"
    functions: ClassVar = ScalarFunctions(_value, _slope, _curvature)

    @property
    def name(self) -> str:
        """Name."""
        return f"SmoothHuber(c={self.c:g})"

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=self.c, curvature=1.0, self_concordance=second_kind(2.0 / self.c, 1.0))

    @property
    def parameters(self) -> tuple[float, float]:
        """``(c, unused)``."""
        return (self.c, 0.0)


METHODS = {
    "gradient": NoisyGradientDescent(n_steps=200, report="last"),
    "Newton": NoisyNewton(n_steps=40, damping=SelfConcordantDamping(), growth=1.0),
}


def main() -> None:
    repetitions = arguments(__doc__, 3).repetitions
    results = Table(NAME, ("method", "mu", "repetition", "step"))
    x, y = table(N, BETA, seed=1, sd=SD, spread=2.0)
    for method, solver in METHODS.items():
        for mu in (math.inf, MU):
            for repetition in range(1 if math.isinf(mu) else repetitions):
                if results.has(method=method, mu=mu, repetition=repetition, step=solver.n_steps):
                    continue
                run = fit(SmoothHuber(HUBER * SD), x, y, solver, mu=mu, seed=repetition)
                for step in range(0, solver.n_steps + 1, solver.n_steps // 40):
                    theta = run.path[step]
                    row = {"method": method, "mu": mu, "repetition": repetition, "step": step}
                    distance = float(np.linalg.norm(theta - np.array(BETA)))
                    results.add(row | {"gradient": run.gradient_norm(theta), "distance": distance})
    draw(results, repetitions)


def draw(results: Table, repetitions: int) -> None:
    fig, axes = figure(2)
    for axis, column in zip(axes, ("gradient", "distance"), strict=True):
        for k, method in enumerate(METHODS):
            for mu, style in ((math.inf, ":"), (MU, "-")):
                for repetition in range(1 if math.isinf(mu) else repetitions):
                    label = (
                        None
                        if repetition
                        else method + (", no privacy" if math.isinf(mu) else f", μ = {mu:g}")
                    )
                    series = results.series("step", column, method=method, mu=mu, repetition=repetition)
                    axis.plot(*series, style, color=f"C{k}", lw=1.2, label=label)
        axis.set(xlabel="step", yscale="log", xscale="symlog", xlim=(0, 200))
    axes[0].set(ylabel="norm of the exact gradient", ylim=(1e-6, 5))
    axes[1].set(ylabel="distance from the true coefficients")
    axes[1].legend()
    save(fig, NAME)


if __name__ == "__main__":
    main()
