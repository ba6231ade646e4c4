"""What losses of a binary response share: the margin."""

from numba import njit


@njit(inline="always")
def side_of(y: float) -> float:
    """Return -1 for the label 0 and 1 for the label 1, so that ``side * eta`` is the margin.

    Anything else is taken for the nearer label, so that the losses' constants hold for every ``y``.
    """
    return 1.0 if y > 0.5 else -1.0
