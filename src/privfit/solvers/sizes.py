"""How far rows' gradients are let count, from released shares of rows by the size of their gradient."""

import numpy as np

from privfit.problem.bounded_kernels import SIZE_ORIGIN
from privfit.problem.plan import Release

_SEEN = 2.0
"""Standard deviations of noise that a share beyond the largest one must exceed to count."""

_CLEAR = 3.5
"""Standard deviations that the largest share must exceed for the shares to say anything."""


def quantile_of_sizes(release: Release, quantile: float) -> float | None:
    """Return about this quantile of the sizes, relative to the bound on the slope; None where noise hides it.

    Parameters
    ----------
    release : Release
        Of kind ``"sizes"``.
    quantile : float
        In (0, 1].

    Notes
    -----
    Within a class sizes are taken to be spread evenly on the logarithmic scale. Beyond the largest share,
    those from the first one on that noise may have made are left out, so that noise does not pass for
    outliers.
    """
    sd, shares = release.planned.sd, release.value.copy()
    mode = int(np.argmax(shares))
    if shares[mode] <= _CLEAR * sd:
        return None
    lost = np.flatnonzero(shares[mode:] <= _SEEN * sd)
    if lost.size:
        shares[mode + lost[0] :] = 0.0
    shares = np.maximum(shares, 0.0)
    reached = np.cumsum(shares) / shares.sum()
    k = int(np.argmax(reached >= min(quantile, 1.0) * (1.0 - 1e-12)))
    before = reached[k - 1] if k > 0 else 0.0
    inside = (quantile - before) / max(reached[k] - before, 1e-300)
    return float(2.0 ** (k - SIZE_ORIGIN - 1.0 + np.clip(inside, 0.0, 1.0)))
