"""Private computations on the rows, one file per method. The oracle carries them out."""

from privfit.procedures.clipped_gradient import ClippedGradient
from privfit.procedures.moments import JointMoments, SmallestEigenvalue

__all__ = ["ClippedGradient", "JointMoments", "SmallestEigenvalue"]
