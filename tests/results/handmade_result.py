"""Results built by hand: fixed numbers, so that renderings can be compared with stored ones."""

import numpy as np

from privfit.problem.plan import Plan, PlannedRelease, Release
from privfit.results import FitResult, PrivacyStatement


def make_result(**changes):
    names = ("Intercept", "age", "C(sex)[T.Male]", "hours", "C(sex)[T.Male]:age")
    gradient = PlannedRelease("gradient", 5, 2e-4, 0.1, 0.002)
    hessian = PlannedRelease("hessian", 15, 1e-4, 0.2146, 0.0004660)
    plan = Plan(
        model="logistic",
        solver="noisy Newton, 6 steps",
        n_rows=48842,
        columns=names,
        relation="replace",
        mu=0.23667,
        solver_releases=(gradient,),
        inference_releases=(hessian,),
    )
    statement = PrivacyStatement(
        private=True,
        relation="replace",
        unit="row",
        notion="approximate",
        epsilon=1.0,
        delta=1e-6,
        mu=0.23667,
        noise="OpenDP discrete Gaussian",
    )
    point = np.array([-3.5, 0.04, 1.25, 0.03, 0.0])
    fields = {
        "model": "Logistic regression",
        "target": "income",
        "names": names,
        "estimate": np.array([-3.4567, 0.041234, 1.2345678, 0.0301, -1.5e-5]),
        "cov_sampling": np.diag([0.01, 1e-6, 0.0025, 4e-7, 1e-8]),
        "cov_noise": np.diag([0.002, 3e-7, 0.0005, np.inf, 1e-9]),
        "dof": np.array([31.5, 40.25, np.inf, np.inf, 120.0]),
        "scale": None,
        "statement": statement,
        "plan": plan,
        "releases": (
            Release(gradient, np.zeros(5), np.array([0.1, -0.2, 1 / 3, 1e-300, 5e-324])),
            Release(hessian, point, np.eye(5) / 7),
        ),
    }
    return FitResult(**(fields | changes))
