"""What inference has found of an estimate before it asks what may be wrong with it."""

from dataclasses import dataclass

from privfit._checks import FloatArray
from privfit.inference.combine import Estimate
from privfit.inference.covariance import Bread, spread


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """An estimate with what its covariance is made of.

    Parameters
    ----------
    estimate : Estimate
    bread : Bread
    sampling : array of shape (q, q)
        Sampling covariance of the estimate.
    most_curved : float or None
        What curvatures of rows were cut to in the bread.
    """

    estimate: Estimate
    bread: Bread
    sampling: FloatArray
    most_curved: float | None = None

    @property
    def covariance(self) -> FloatArray:
        """Covariance of the estimate by sampling and noise, (q, q)."""
        return self.sampling + spread(self.estimate.cov_noise, self.bread)
