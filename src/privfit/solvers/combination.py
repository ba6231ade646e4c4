"""How much released gradients count in one estimate: by their noise, early ones by their distance, too."""

from collections.abc import Sequence

import numpy as np

from privfit._checks import FloatArray
from privfit.solvers.base import Seen, weighted_average

OFF, OFF_WHERE_CURVED = 1.5, 3.0
"""How far the change of a gradient may be off what a model of the Hessian expects, relative to that.

The first where the Hessian is about the same everywhere, the second where it depends on the point.
"""


def later_half(seen: list[Seen]) -> list[Seen]:
    """Return those that were asked last, the one in the middle included."""
    return seen[len(seen) // 2 :]


def combined(seen: Sequence[Seen], hessian: FloatArray, *, about: FloatArray, off: float) -> Seen:
    """Return the mean of gradients with the weights that `weights` gives them."""
    return weighted_average(seen, weights(seen, hessian, about=about, off=off))


def weights(seen: Sequence[Seen], hessian: FloatArray, *, about: FloatArray, off: float) -> FloatArray:
    """Return the weights of gradients in an estimate of where the gradient vanishes, (k,), of sum 1.

    Parameters
    ----------
    seen : sequence of k Seen
        In the order in which they were asked; either all have noise or none has.
    hessian : array of shape (n, n)
        The model's, of the first n entries of the parameter.
    about : array of shape (q,)
        Where the gradient is thought to vanish.
    off : float
        How far the model may be off, relative to itself.

    Notes
    -----
    With a model ``M`` of the Hessian a gradient ``g`` at ``x`` says that it vanishes at ``x - M^-1 g``. That
    is off by ``M^-1`` times noise, and by as much as the Hessian between both points is off the model. The
    later half of the gradients was asked where earlier ones led: they count by the precision of their noise.
    Early ones count by that of noise and ``off M (x - about)``, so as far as noise hides what the model may
    get wrong: where it is large all of the budget counts, and where it is small the later half alone, which
    finds back from wherever it is.
    """
    noise, away = np.array([one.sd for one in seen]), np.array([one.at - about for one in seen])
    early, n = len(seen) // 2, len(hessian)
    if not noise.all():
        return np.where(np.arange(len(seen)) < early, 0.0, 1.0 / (len(seen) - early))
    wrong = off * np.linalg.norm(away[:, :n] @ hessian, axis=1) / np.sqrt(n)
    wrong[early:] = 0.0
    relative = (noise.min() / np.hypot(noise, wrong)) ** 2
    return relative / relative.sum()
