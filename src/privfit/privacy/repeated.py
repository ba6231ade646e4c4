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
from privfit.errors import PlanViolation
from privfit.privacy.mechanisms import (
    NoiseSource,
    calibrate_gaussian,
    calibrate_radial,
    gaussian_mu,
    radial_epsilon,
    radial_sd,
)


class AbstractRepeatedNoise(ABC):
    """Adds noise to vectors in proportion to their sensitivities."""

    __slots__ = ("_source", "size")

    def __init__(self, size: int, source: NoiseSource) -> None:
        self.size, self._source = whole(size=size), source

    @property
    @abstractmethod
    def deviation(self) -> float:
        """Standard deviation of the noise per coordinate, for sensitivity 1."""

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

    __slots__ = ("_sd",)

    def __init__(self, size: int, mu: float, source: NoiseSource) -> None:
        super().__init__(size, source)
        self._sd = calibrate_gaussian(sensitivity=1.0, mu=mu, size=size)
        if gaussian_mu(size, 1.0, self._sd) > mu:
            raise PlanViolation("the noise of repeated releases does not give the planned mu")

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise per coordinate, for sensitivity 1."""
        return self._sd

    def _perturb(self, value: FloatArray) -> FloatArray:
        return self._source.gaussian(value, self._sd)


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

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise per coordinate, for sensitivity 1."""
        return radial_sd(self._scale, self.size)

    def _perturb(self, value: FloatArray) -> FloatArray:
        return self._source.radial(value, self._scale)


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

    @property
    def deviation(self) -> float:
        """0."""
        return 0.0

    def _perturb(self, value: FloatArray) -> FloatArray:
        return value
