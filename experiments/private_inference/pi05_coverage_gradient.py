"""PI-5: coverage of intervals from noisy gradient descent, with and without correction.

    python experiments/private_inference/pi05_coverage_gradient.py --repetitions 400

Avella-Medina, Bradshaw and Loh (2023), figure 5: linear model with unknown scale, the last iterate.
"""

import math

import numpy as np
from common import Run, arguments

from coverage import study
from privfit.losses import ConcomitantHuber
from privfit.solvers import NoisyGradientDescent


def published(run: Run) -> np.ndarray:
    """Return ``8 eta**2 B**2 K / (n mu)**2 I``: twice what one step adds."""
    step = run.solution.steps[-1]
    return 2.0 * (step.preconditioner[0, 0] * step.release.planned.sd) ** 2 * np.eye(run.problem.size)


def main() -> None:
    repetitions = arguments(__doc__, 400).repetitions
    study(
        "pi05_coverage_gradient",
        ConcomitantHuber(),
        lambda n: NoisyGradientDescent(n_steps=round(6 * math.log(n)), report="last"),
        published,
        rows=(500, 1000, 2000, 4000, 8000),
        repetitions=repetitions,
    )


if __name__ == "__main__":
    main()
