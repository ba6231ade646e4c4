"""PI-7: private backtracking against pure and damped Newton from far starts.

    python experiments/private_inference/pi07_backtracking.py --repetitions 400

Avella-Medina, Bradshaw and Loh (2023), appendix G, figures 10 and 11.
"""

import math

import numpy as np
from common import HUBER, Table, arguments, figure, fit, save, table

from privfit.losses import Huber, Logistic
from privfit.solvers import (
    AbstractDamping,
    Backtracking,
    ConstantStep,
    FixedDamping,
    NoisyNewton,
    RidgeTwoStep,
    SelfConcordantDamping,
)

NAME, N, BETA, STEPS, MU = "pi07_backtracking", 2000, np.ones(4), 12, 2.0
MODELS = {
    "linear": (Huber(HUBER), 1.0, (4.0, -2.0, 0.0, 4.0)),
    "logistic": (Logistic(), None, (-4.0, 6.0, -5.0, 6.0)),
}
RULES: dict[str, AbstractDamping] = {
    "pure": ConstantStep(1.0),
    "damped, 0.1": ConstantStep(0.1),
    "backtracking, 0.01": Backtracking(armijo=0.01),
    "backtracking, 0.1": Backtracking(armijo=0.1),
    "backtracking, 0.3": Backtracking(armijo=0.3),
    "backtracking, 0.45": Backtracking(armijo=0.45),
    "ridge, two steps": RidgeTwoStep(),
    "fixed 0.5": FixedDamping(),
    "self-concordant": SelfConcordantDamping(),
}


def main() -> None:
    repetitions = arguments(__doc__, 400).repetitions
    paths = Table(NAME + "_paths", ("model", "rule", "mu", "step"))
    cells = Table(NAME, ("model", "rule"))
    for model, (loss, sd, start) in MODELS.items():
        for name, rule in RULES.items():
            if name == "self-concordant" and model == "linear":
                continue
            solver = NoisyNewton(n_steps=STEPS, damping=rule, growth=1.0, hessian_share=0.5)
            for mu in (math.inf, MU):
                if not paths.has(model=model, rule=name, mu=mu, step=STEPS):
                    x, y = table(N, BETA, seed=1, sd=sd)
                    run = fit(loss, x, y, solver, mu=mu, seed=1, start=start)
                    for step, norm in enumerate(run.gradient_norms):
                        paths.add(
                            {"model": model, "rule": name, "mu": mu, "step": step, "gradient": float(norm)}
                        )
            if cells.has(model=model, rule=name):
                continue
            errors, tests = [], []
            for seed in range(repetitions):
                x, y = table(N, BETA, seed=seed, sd=sd)
                run = fit(loss, x, y, solver, mu=MU, seed=seed, start=start)
                errors.append(np.linalg.norm(run.solution.theta - BETA))
                tests.append(sum(release.planned.kind == "secant" for release in run.oracle.released))
            error = np.array(errors)
            row = {
                "model": model,
                "rule": name,
                "repetitions": repetitions,
                "median_error": float(np.median(error)),
            }
            cells.add(
                row | {"error_above_1": float(np.mean(error > 1.0)), "mean_tests": float(np.mean(tests))}
            )
    draw(paths, cells)


def draw(paths: Table, cells: Table) -> None:
    fig, axes = figure(3)
    shown = (
        "pure",
        "damped, 0.1",
        "backtracking, 0.1",
        "ridge, two steps",
        "fixed 0.5",
        "self-concordant",
    )
    for axis, model in zip(axes, MODELS, strict=False):
        for k, name in enumerate(shown):
            for mu, style in ((math.inf, ":"), (MU, "-")):
                series = paths.series("step", "gradient", model=model, rule=name, mu=mu)
                axis.plot(
                    *series, style, color=f"C{k}", lw=1.2, label=name if mu == MU and series[0].size else None
                )
        axis.set(
            xlabel="step", ylabel="norm of the exact gradient", yscale="log", title=model, ylim=(1e-4, 3)
        )
        axis.legend()
    names = [row["rule"] for row in cells.rows if row["model"] == "logistic"]
    for k, model in enumerate(MODELS):
        rates = {row["rule"]: float(row["error_above_1"]) for row in cells.rows if row["model"] == model}
        positions = [names.index(name) + 0.2 * (2 * k - 1) for name in rates]
        axes[2].barh(positions, list(rates.values()), height=0.38, label=model, color=f"C{k}")
    axes[2].set_yticks(range(len(names)), names)
    axes[2].set(xlabel="share of runs with an error above 1", title="μ = 2")
    axes[2].legend()
    save(fig, NAME)


if __name__ == "__main__":
    main()
