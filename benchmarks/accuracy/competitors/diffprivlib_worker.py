"""Fits of diffprivlib 0.6.6 in its own environment (scikit-learn 1.6): ``worker.py IN.npz OUT.npz``."""

import sys
import warnings

import numpy as np
from diffprivlib.models import LinearRegression, LogisticRegression


def one(job, c: float, seed: int) -> np.ndarray:
    """Return coefficients, the constant's first; NaN where the fit raises."""
    x, y, epsilon = job["x"], job["y"], float(job["epsilon"])
    try:
        if job["logistic"]:
            model = LogisticRegression(
                epsilon=epsilon,
                data_norm=float(job["norm"]),
                C=c,
                fit_intercept=False,
                max_iter=1000,
                random_state=seed,
            )
            return model.fit(x, y.astype(int)).coef_[0]
        model = LinearRegression(
            epsilon=epsilon, bounds_X=(-1.0, 1.0), bounds_y=(-1.0, 1.0), random_state=seed
        )
        model.fit(x[:, 1:], y)
        return np.r_[model.intercept_, model.coef_]
    except (ValueError, FloatingPointError):
        return np.full(x.shape[1], np.nan)


def main() -> None:
    warnings.simplefilter("ignore")
    with np.load(sys.argv[1]) as stored:
        job = dict(stored)
    pairs = zip(job["c"], job["seeds"], strict=True)
    np.savez(sys.argv[2], thetas=np.array([one(job, float(c), int(seed)) for c, seed in pairs]))


if __name__ == "__main__":
    main()
