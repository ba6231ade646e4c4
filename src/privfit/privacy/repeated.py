"""Many releases of one size at one cost each, verified once and drawn at one noise level.

The value is divided by its sensitivity before the noise, and the outcome multiplied by it after: that is
post-processing, as the sensitivity is a function of earlier releases. So all releases of a run use one
measurement, whose cost is verified before the first.
"""

import math
from abc import ABC, abstractmethod
from typing import final

import numpy as np

from privfit._checks import FloatArray, whole
from privfit.errors import Incompatible, PlanViolation
from privfit.privacy.mechanisms import NoiseSource, NoNoise, calibrate_gaussian, gaussian_mu
from privfit.privacy.pure_mechanisms import (
    calibrate_laplace,
    calibrate_radial,
    laplace_epsilon,
    radial_epsilon,
    radial_sd,
)

_MARGIN = 1e-6
"""Relative margin of pure noise, for the lattice and the rounding of the value."""

_CUBE_BITS, _CUBE_LOSS, _SMALLEST_REACH, _LARGEST_CUBE = 50, 2.0**-28, 2**20, 1000


class AbstractRepeatedNoise(ABC):
    """Adds noise to vectors in proportion to their sensitivities.

    Attributes
    ----------
    deviation : float
        Standard deviation of the noise per coordinate, for sensitivity 1.
    """

    __slots__ = ("_source", "deviation", "size")

    deviation: float

    def __init__(self, size: int, source: NoiseSource) -> None:
        self.size, self._source = whole(size=size), source

    @abstractmethod
    def _perturb(self, value: FloatArray) -> FloatArray:
        """Return a vector of sensitivity 1 with its noise."""

    def release(self, value: FloatArray, sensitivity: float) -> FloatArray:
        """Return the vector with its noise, at the cost that was stated.

        Parameters
        ----------
        value : array of shape (size,)
            A non-finite entry counts as 0.
        sensitivity : float
            Of the vector, in the norm of the noise; a function of public facts and earlier releases. Its
            margin must cover a relative rounding of ``2**-52`` of the vector.

        Raises
        ------
        PlanViolation
            If ``sensitivity`` is not positive and finite.
        """
        if not 0.0 < sensitivity < math.inf:
            raise PlanViolation("the sensitivity of a repeated release must be positive and finite")
        if not np.isfinite(value).all():
            value = np.where(np.isfinite(value), value, 0.0)
        return sensitivity * self._perturb(value / sensitivity)


@final
class RepeatedGaussian(AbstractRepeatedNoise):
    """Gaussian noise; each release costs ``mu``.

    Parameters
    ----------
    size : int
    mu : float
        Cost of a release.
    source : NoiseSource

    Notes
    -----
    *Guarantee.* Each release is mu-GDP given the earlier ones, for vectors whose L2 sensitivity is the stated
    one: ``gaussian_mu(size, 1, deviation) <= mu`` is verified first.
    """

    __slots__ = ()

    def __init__(self, size: int, mu: float, source: NoiseSource) -> None:
        super().__init__(size, source)
        self.deviation = calibrate_gaussian(sensitivity=1.0, mu=mu, size=size)
        if gaussian_mu(size, 1.0, self.deviation) > mu:
            raise PlanViolation("the noise of repeated releases does not give the planned mu")

    def _perturb(self, value: FloatArray) -> FloatArray:
        return self._source.gaussian(value, self.deviation)


@final
class RepeatedRadial(AbstractRepeatedNoise):
    """Noise of density ``exp(-norm(z) / scale)``; each release costs ``epsilon``.

    Parameters
    ----------
    size : int
    epsilon : float
        Cost of a release.
    source : NoiseSource

    Notes
    -----
    *Guarantee.* Each release is epsilon-differentially private given the earlier ones, for vectors whose L2
    sensitivity is the stated one: ``radial_epsilon(size, 1, scale) <= epsilon`` is verified first.
    """

    __slots__ = ("_scale",)

    def __init__(self, size: int, epsilon: float, source: NoiseSource) -> None:
        super().__init__(size, source)
        self._scale = calibrate_radial(sensitivity=1.0, epsilon=epsilon, size=size)
        if radial_epsilon(size, 1.0, self._scale) > epsilon:
            raise PlanViolation("the noise of repeated releases does not give the planned epsilon")
        self.deviation = radial_sd(self._scale, size)

    def _perturb(self, value: FloatArray) -> FloatArray:
        return self._source.radial(value, self._scale)


@final
class RepeatedLaplace(AbstractRepeatedNoise):
    """Independent Laplace noise, the density ``exp(-norm(z)_1 / scale)``; each release costs ``epsilon``.

    Parameters
    ----------
    size : int
    epsilon : float
        Cost of a release.
    source : NoiseSource

    Notes
    -----
    *Guarantee.* Each release is epsilon-differentially private given the earlier ones, for vectors whose L1
    sensitivity is the stated one: ``laplace_epsilon(size, 1, scale) <= epsilon`` is verified first.
    """

    __slots__ = ("_scale",)

    def __init__(self, size: int, epsilon: float, source: NoiseSource) -> None:
        super().__init__(size, source)
        self.deviation = calibrate_laplace(sensitivity=1.0, epsilon=epsilon, size=size)
        self._scale = self.deviation / math.sqrt(2.0)
        if laplace_epsilon(size, 1.0, self._scale) > epsilon:
            raise PlanViolation("the noise of repeated releases does not give the planned epsilon")

    def _perturb(self, value: FloatArray) -> FloatArray:
        return self._source.laplace(value, self._scale)


@final
class RepeatedCube(AbstractRepeatedNoise):
    """Noise of density ``exp(-norm(z)_inf / scale)``; each release costs ``epsilon``.

    Parameters
    ----------
    size : int
    epsilon : float
        Cost of a release.
    source : NoiseSource

    Notes
    -----
    *Guarantee.* Each release is epsilon-differentially private given the earlier ones, for vectors whose
    sensitivity in the largest coordinate is the stated one (Hardt and Talwar 2010, section 4):
    ``cube_epsilon(1, scale) <= epsilon`` is verified first.

    A point of the cube ``[-r, r]**k`` is drawn evenly, with r of the Gamma law of shape k + 1 (that makes
    the density above, as ``sum over r >= norm(z) of r**k exp(-r) / r**k = exp(-norm(z))``). Both draws are on
    one lattice of spacing about ``2**-50`` scales, to which the value is rounded: r is a sum of exact lattice
    exponentials, drawn again below ``2**20`` spacings, and the coordinates are exactly even. What the lattice
    and the redraw take from the density is below a relative ``2**-29`` for k up to 1000, which
    `cube_epsilon` adds.
    """

    __slots__ = ("_scale", "_spacing")

    def __init__(self, size: int, epsilon: float, source: NoiseSource) -> None:
        super().__init__(size, source)
        if size > _LARGEST_CUBE:
            raise Incompatible(f"noise_norm: noise of this shape takes at most {_LARGEST_CUBE} columns")
        if not epsilon > 1e3 * _CUBE_LOSS:
            raise Incompatible(f"epsilon={epsilon:.4g} is too small for noise of this shape")
        self._scale = (1.0 + _MARGIN) ** 2 / (epsilon - 2.0 * _CUBE_LOSS)
        self._spacing = 2.0 ** (math.frexp(self._scale)[1] - 1 - _CUBE_BITS)
        if cube_epsilon(1.0, self._scale) > epsilon:
            raise PlanViolation("the noise of repeated releases does not give the planned epsilon")
        self.deviation = self._scale * math.sqrt((size + 1.0) * (size + 2.0) / 3.0)

    def _perturb(self, value: FloatArray) -> FloatArray:
        if isinstance(self._source, NoNoise):
            return value
        reach = 0
        while reach < _SMALLEST_REACH:
            exponentials = np.abs(self._source.laplace(np.zeros(self.size + 1), 1.0)) * self._scale
            reach = math.floor(math.fsum(exponentials.tolist()) / self._spacing)
        steps = self._source.integers(2 * reach + 1, self.size).tolist()
        rounded = [round(entry) for entry in (value / self._spacing).tolist()]
        return np.array(
            [(entry + step - reach) * self._spacing for entry, step in zip(rounded, steps, strict=True)]
        )


def cube_epsilon(sensitivity: float, scale: float) -> float:
    """Return the cost of a `RepeatedCube` release, lattice and rounding included."""
    return (sensitivity / scale + _CUBE_LOSS) * (1.0 + _MARGIN)


@final
class ExactRepeated(AbstractRepeatedNoise):
    """No noise, for the non-private reference.

    Raises
    ------
    PlanViolation
        If the source is private: then a release without noise was asked of a plan that demands noise.
    """

    __slots__ = ()

    def __init__(self, size: int, source: NoiseSource) -> None:
        super().__init__(size, source)
        if source.private:
            raise PlanViolation("a release without noise was asked of a source that demands noise")
        self.deviation = 0.0

    def _perturb(self, value: FloatArray) -> FloatArray:
        return value
