"""PI-6: coverage of intervals from noisy Newton, known scale, with and without correction.

    python experiments/private_inference/pi06_coverage_newton.py --repetitions 400

Avella-Medina, Bradshaw and Loh (2023), figure 6.
"""

import numpy as np
from common import HUBER, Run, arguments

from coverage import SD, study
from privfit.losses import Huber
from privfit.solvers import FixedDamping, NoisyNewton


def published(run: Run) -> np.ndarray:
    """Return ``eta**2 H^-1 sd**2 H^-1`` with the Hessian that was released at the last step."""
    step = run.solution.steps[-1]
    return step.release.planned.sd**2 * step.preconditioner @ step.preconditioner


def main() -> None:
    repetitions = arguments(__doc__, 400).repetitions
    study(
        "pi06_coverage_newton",
        Huber(HUBER * SD),
        lambda _: NoisyNewton(
            n_steps=8, damping=FixedDamping(), growth=1.0, hessian_share=0.5, report="last"
        ),
        published,
        rows=(500, 1000, 2000, 4000, 8000),
        repetitions=repetitions,
    )


if __name__ == "__main__":
    np.seterr(all="warn")
    main()
