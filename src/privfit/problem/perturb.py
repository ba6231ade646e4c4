"""Add the noise that a plan says."""

from privfit._checks import FloatArray
from privfit.privacy.mechanisms import NoiseSource, gaussian_vector, smat, svec
from privfit.privacy.pure_mechanisms import laplace_vector, radial_scale, radial_vector
from privfit.problem.plan import PlannedRelease


def perturb_vector(value: FloatArray, planned: PlannedRelease, noise: NoiseSource) -> FloatArray:
    """Return the vector with its planned Gaussian, Laplace or radial noise."""
    if planned.epsilon is None:
        return gaussian_vector(
            value, sensitivity=planned.sensitivity, mu=planned.mu, sd=planned.sd, source=noise
        )
    if planned.in_l1:
        return laplace_vector(
            value, sensitivity=planned.sensitivity, epsilon=planned.epsilon, sd=planned.sd, source=noise
        )
    scale = radial_scale(planned.sd, planned.size)
    return radial_vector(
        value, sensitivity=planned.sensitivity, epsilon=planned.epsilon, scale=scale, source=noise
    )


def perturb_matrix(matrix: FloatArray, planned: PlannedRelease, noise: NoiseSource) -> FloatArray:
    """Return the symmetric matrix with its planned noise, added in `svec` coordinates.

    These keep the Frobenius norm, so the diagonal gets standard deviation ``sd`` and an off-diagonal
    entry, with its mirror image, ``sd / sqrt(2)``.
    """
    return smat(perturb_vector(svec(matrix), planned, noise))
