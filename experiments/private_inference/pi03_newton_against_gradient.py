"""PI-3: noisy Newton against gradient descent, and when pure Newton diverges.

    python experiments/private_inference/pi03_newton_against_gradient.py --repetitions 500

Avella-Medina, Bradshaw and Loh (2023), figure 2: 2-GDP in 8 Newton steps or 80 gradient steps, known scale.
"""

import numpy as np
from common import HUBER, Table, arguments, figure, fit, save, table

from privfit.losses import ConcomitantHuber, Huber
from privfit.solvers import ConstantStep, FixedDamping, NoisyGradientDescent, NoisyNewton

NAME, N, BETA, MU = "pi03_newton_against_gradient", 1000, np.ones(4), 2.0
LENGTHS = (0.1, 0.25, 0.5, 0.75, 1.0)
SCALES = ("known", "unknown")


def main() -> None:
    repetitions = arguments(__doc__, 500).repetitions
    paths = Table(NAME + "_paths", ("method", "repetition", "step"))
    x, y = table(N, BETA, seed=1, sd=2.0, spread=2.0)
    methods = {
        "Newton, 8 steps": NoisyNewton(n_steps=8, damping=ConstantStep(), constants="source"),
        "Newton, 8 steps, damped first": NoisyNewton(n_steps=8, damping=FixedDamping(), constants="source"),
        "gradient, 80 steps": NoisyGradientDescent(n_steps=80, step_size=1.0),
    }
    for name, solver in methods.items():
        for repetition in range(5):
            if paths.has(method=name, repetition=repetition, step=solver.n_steps):
                continue
            run = fit(Huber(2 * HUBER), x, y, solver, mu=MU, seed=repetition)
            for step, norm in enumerate(run.gradient_norms):
                paths.add({"method": name, "repetition": repetition, "step": step, "gradient": float(norm)})
    divergence = Table(NAME, ("scale", "constants", "eta"))
    for scale in SCALES:
        for constants in ("source", "proven"):
            for eta in LENGTHS:
                if not divergence.has(scale=scale, constants=constants, eta=eta):
                    divergence.add(cell(scale, constants, eta, repetitions))
    draw(paths, divergence)


def cell(scale: str, constants: str, eta: float, repetitions: int) -> dict[str, object]:
    """Return the rate of runs that end farther from the truth than they started, in 40 steps of 2-GDP."""
    solver = NoisyNewton(n_steps=40 if eta < 0.5 else 16, damping=ConstantStep(eta), constants=constants)
    loss = Huber(2 * HUBER) if scale == "known" else ConcomitantHuber()
    errors = []
    for seed in range(repetitions):
        x, y = table(N, BETA, seed=seed, sd=2.0, spread=2.0)
        theta = fit(loss, x, y, solver, mu=MU, seed=seed).solution.theta
        errors.append(np.linalg.norm(theta[:4] - BETA))
    diverged = float(np.mean(np.array(errors) > np.linalg.norm(BETA)))
    row = {"scale": scale, "constants": constants, "eta": eta, "repetitions": repetitions}
    return row | {"steps": solver.n_steps, "diverged": diverged, "median_error": float(np.median(errors))}


def draw(paths: Table, divergence: Table) -> None:
    fig, (left, right) = figure(2)
    for k, name in enumerate(dict.fromkeys(row["method"] for row in paths.rows)):
        for repetition in range(5):
            series = paths.series("step", "gradient", method=name, repetition=repetition)
            left.plot(*series, color=f"C{k}", lw=1, label=None if repetition else name)
    left.set(xlabel="step", ylabel="norm of the exact gradient", yscale="log", xscale="symlog", xlim=(0, 80))
    for k, scale in enumerate(SCALES):
        for constants, style in (("source", "o--"), ("proven", "s-")):
            series = divergence.series("eta", "diverged", scale=scale, constants=constants)
            right.plot(*series, style, color=f"C{k}", ms=4, label=f"{scale} scale, {constants} constants")
    right.set(xlabel="η, every step", ylabel="share of runs that diverge")
    left.legend()
    right.legend()
    save(fig, NAME)


if __name__ == "__main__":
    main()
