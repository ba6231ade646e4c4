"""Which kernel sums the terms of a query, for every kind of query and loss."""

import numpy as np

from privfit._checks import FloatArray
from privfit.data.blocks import BlockKernel, RowTerms
from privfit.errors import PlanViolation
from privfit.losses import Multinomial
from privfit.problem import bounded_kernels, class_kernels, kernels, marginal_kernels, numpy_kernels
from privfit.problem.objective import Problem
from privfit.problem.plan import ReleaseKind
from privfit.problem.share_kernels import (
    counts_kernel,
    exposures_kernel,
    labels_kernel,
    norms_kernel,
    residuals_kernel,
    sizes_kernel,
)
from privfit.problem.value_kernels import Segment, secant_kernel

_LONG = 256
"""Numbers of a row beyond which two matrices together take too much memory for what one pass saves."""


def query_kernel(problem: Problem, kind: ReleaseKind, at: FloatArray) -> BlockKernel:
    """Return the block kernel of a query at ``at``, of shape (size,), or (2 * size,) for a secant.

    Raises
    ------
    PlanViolation
        If the query cannot be asked at this point, of this loss or in these coordinates.
    """
    points = 2 if kind == "secant" else 1
    _check_point(at, points * problem.size)
    match kind:
        case "secant":
            return _secant_kernel(problem, at[: problem.size], at[problem.size :])
        case "second_moment" | "norms" | "counts" | "labels" | "exposures":
            return _kernel_without_point(problem, kind)
        case "meat":
            return _meat_kernel(problem, at)
        case "marginals" if problem.basis is not None:
            raise PlanViolation("marginals are bounded in encoded coordinates only")
    if isinstance(problem.loss, Multinomial):
        return _class_kernel(problem, problem.loss, kind, problem.coefficients(at))
    if kind == "marginals":
        return marginal_kernels.marginals_kernel(problem.norm_bound, problem.response_range)
    return _row_kernel(problem, kind, problem.coefficients(at), problem.split(at)[1])


def matrices_kernel(problem: Problem, at: FloatArray) -> BlockKernel:
    """Return the kernel that sums Hessians and, after them, scores' products, if they `share_rows`."""
    _check_point(at, problem.size)
    theta, scale = problem.coefficients(at), problem.split(at)[1]
    basis = problem.row_basis("hessian")
    return kernels.hessian_and_meat_kernel(problem.loss, theta, scale, basis, problem.curvature)


def share_rows(problem: Problem) -> bool:
    """Return whether Hessian and meat sum products of the same compiled rows, and rows are short enough.

    Products of long ones take so much longer than reading them that two passes take no longer than one.
    """
    if problem.unit is not None or isinstance(problem.loss, Multinomial) or not problem.loss.compiled:
        return False
    return problem.size <= _LONG and problem.row_basis("hessian") is problem.row_basis("meat")


def score_terms(problem: Problem, at: FloatArray) -> RowTerms:
    """Return the gradients of single rows at ``at``, of shape (size,), in the basis."""
    theta, scale = problem.coefficients(at), problem.split(at)[1]
    if isinstance(problem.loss, Multinomial):
        return class_kernels.score_terms(problem.loss, theta, problem.basis)
    made = kernels if problem.loss.compiled else numpy_kernels
    return made.score_terms(problem.loss, theta, scale, problem.basis)


def _check_point(at: FloatArray, length: int) -> None:
    if at.shape != (length,) or not np.isfinite(at).all():
        raise PlanViolation("a query was asked at a parameter of the wrong shape or not finite")


def _kernel_without_point(problem: Problem, kind: ReleaseKind) -> BlockKernel:
    """Return that of a query that no parameter enters."""
    if kind == "second_moment":
        return kernels.second_moment_kernel(problem.row_basis(kind))
    if kind == "norms":
        return norms_kernel()
    if kind == "exposures":
        return _exposures_kernel(problem)
    expected, one = (("binary", "class"), "a label") if kind == "labels" else (("count",), "a count")
    if problem.loss.target_kind not in expected:
        raise PlanViolation(f"{problem.loss.name} takes a response that is not {one}")
    return labels_kernel() if kind == "labels" else counts_kernel(problem.response_range[1])


def _exposures_kernel(problem: Problem) -> BlockKernel:
    exposure = problem.exposure
    if exposure is None:
        raise PlanViolation("rows without exposures have none to look at")
    return exposures_kernel(exposure.center(constant=bool(problem.constant)), exposure.column.upper)


def _row_kernel(problem: Problem, kind: ReleaseKind, theta: FloatArray, scale: float) -> BlockKernel:
    loss = problem.loss
    if kind == "bounded_gradient":
        return bounded_kernels.bounded_gradient_kernel(loss, theta, scale, problem.norm_bound)
    if kind == "residuals":
        return _residuals_kernel(problem, theta)
    if kind == "sizes":
        return sizes_kernel(loss, theta, scale, problem.norm_bound)
    made = kernels if loss.compiled else numpy_kernels
    if kind == "gradient":
        return made.gradient_kernel(loss, theta, scale)
    return made.hessian_kernel(loss, theta, scale, problem.row_basis(kind), problem.curvature)


def _residuals_kernel(problem: Problem, theta: FloatArray) -> BlockKernel:
    if not problem.loss.of_residual:
        raise PlanViolation(f"{problem.loss.name} is not a function of residuals")
    return residuals_kernel(theta, problem.response_range)


def _meat_kernel(problem: Problem, at: FloatArray) -> BlockKernel:
    if isinstance(problem.loss, Multinomial) or not problem.loss.compiled:
        return kernels.outer_kernel(score_terms(problem, at))
    theta, scale = problem.coefficients(at), problem.split(at)[1]
    return kernels.meat_kernel(problem.loss, theta, scale, problem.row_basis("meat"))


def _class_kernel(problem: Problem, loss: Multinomial, kind: ReleaseKind, theta: FloatArray) -> BlockKernel:
    if kind in ("sizes", "residuals"):
        raise PlanViolation(f"{kind} are not counted for {loss.name}")
    if kind == "marginals":
        return class_kernels.marginals_kernel(loss, problem.norm_bound)
    if kind == "bounded_gradient":
        return class_kernels.bounded_gradient_kernel(loss, theta, problem.norm_bound)
    if kind == "gradient":
        return class_kernels.gradient_kernel(loss, theta)
    return class_kernels.hessian_kernel(loss, theta, problem.basis)


def _secant_kernel(problem: Problem, first: FloatArray, second: FloatArray) -> BlockKernel:
    scale = problem.split(first)[1]
    length = float(np.linalg.norm(second - first))
    if length == 0.0 or problem.split(second)[1] != scale:
        raise PlanViolation("a secant needs two different points with the same scale")
    direction = problem.coefficients((second - first) / length)
    segment = Segment(problem.coefficients(first), problem.coefficients(second), direction, length)
    if isinstance(problem.loss, Multinomial):
        return class_kernels.secant_kernel(problem.loss, segment)
    made = secant_kernel if problem.loss.compiled else numpy_kernels.secant_kernel
    return made(problem.loss, segment, scale)
