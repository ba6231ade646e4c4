"""The labels of a response without a schema."""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from privfit._checks import listed
from privfit.data.cache import RowCache
from privfit.data.declarations import Level
from privfit.data.elsewhere import as_store
from privfit.data.response import standard_labels
from privfit.data.stream import RowStream
from privfit.errors import LabelError


def declared_classes(X: Any, y: Any, classes: Sequence[Level] | None) -> Sequence[Level]:
    """Return the labels behind the codes: the given ones, or the standard pair that holds every label.

    A stream is read once, by the fit, so its labels are 0 and 1 unless others are given.

    Raises
    ------
    LabelError
        If none are given and the labels are not 0/1, -1/1 or true/false.
    """
    labels = None if classes is None else listed("labels", classes=classes)
    if isinstance(X, RowStream | RowCache):
        return (0, 1) if labels is None else labels
    if y is None:
        raise ValueError("y is needed: this estimator requires y to be passed, but the target y is None")
    if labels is not None:
        return labels
    store = as_store(X, y)
    if store is not None:
        return store.labels()
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "iu":
        with contextlib.suppress(LabelError):  # scikit-learn's errors say more, and take longer
            return standard_labels(y)
    with np.errstate(invalid="ignore"):
        check_classification_targets(y)
        kind = type_of_target(y)
    if kind == "multiclass":
        raise LabelError(
            "Only binary classification is supported unless classes= declares the labels. The type of the "
            "target is multiclass."
        )
    response = np.asarray(y).ravel()
    if response.dtype.kind in "OUS":
        raise LabelError("y has labels other than 0/1, -1/1 and true/false; declare them with classes=")
    if response.dtype.kind == "b":
        return (False, True)
    return standard_labels(response)
