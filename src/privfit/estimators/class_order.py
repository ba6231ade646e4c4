"""The order of classes in what scikit-learn asks of a classifier: sorted, whatever the declared order is.

Its scorers, calibration and searches take ``classes_`` to be sorted, and columns and signs to go with it.
Results keep the declared order, in which the reference class is the first.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score

from privfit._checks import FloatArray
from privfit.data.design import Target


def sorted_classes(target: Target) -> NDArray[Any]:
    """Return the labels of a response, sorted; they are all text, all numbers or all true/false."""
    return np.sort(np.array(target.labels))


def accuracy(
    classes: NDArray[Any], labels: NDArray[Any], predicted: NDArray[Any], sample_weight: ArrayLike | None
) -> float:
    """Return the share of rows whose sorted class is predicted; scikit-learn refuses labels such as 1.5."""
    places = (np.searchsorted(classes, one) for one in (labels, predicted))
    return float(accuracy_score(*places, sample_weight=sample_weight))


def of_sorted_classes(target: Target, values: FloatArray, *, axis: int) -> FloatArray:
    """Return for the sorted classes what a model says for the declared ones.

    Parameters
    ----------
    target : Target
        A response with labels.
    values : array
        Linear predictors or coefficients. Of two classes those of the second, which change their sign with
        the order; of more one for each class along ``axis``.
    axis : int

    Returns
    -------
    array of the same shape
    """
    places = np.argsort(np.array(target.labels))
    if places.size > 2:
        return np.take(values, places, axis=axis)
    return values if places[0] == 0 else 0.0 - values  # 0 stays 0, not -0
