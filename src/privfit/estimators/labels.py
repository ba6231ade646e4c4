"""The labels of a response without a schema."""

from collections.abc import Sequence
from typing import Any

from privfit._checks import listed
from privfit.data.cache import RowCache
from privfit.data.columns import holds_truth, naming
from privfit.data.declarations import Level
from privfit.data.elsewhere import as_store
from privfit.data.response import standard_labels
from privfit.data.stream import RowStream
from privfit.data.tables import single_column
from privfit.errors import InvalidArgument, LabelError

_OTHER_LABELS = (
    "Unknown label type: y holds labels other than 0/1, -1/1 and true/false. "
    "Only binary classification is supported unless classes= declares the labels"
)
"""Says what scikit-learn's errors say of all kinds of labels, since which it is would tell of a cell."""


def need_response(X: Any, y: Any) -> None:
    """Raise, in scikit-learn's words, where neither ``y`` nor ``X`` holds a response."""
    if y is None and not isinstance(X, RowStream | RowCache):
        raise InvalidArgument("y is needed: this estimator requires y to be passed, but the target y is None")


def declared_classes(X: Any, y: Any, classes: Sequence[Level] | None) -> Sequence[Level]:
    """Return the labels behind the codes: the given ones, or the standard pair that holds every label.

    A stream is read once, by the fit, so its labels are 0 and 1 unless others are given. Missing labels count
    for nothing.

    Raises
    ------
    LabelError
        If none are given and the labels are not 0/1, -1/1 or true/false.
    """
    labels = None if classes is None else listed("labels", classes=classes)
    if isinstance(X, RowStream | RowCache):
        return (0, 1) if labels is None else labels
    need_response(X, y)
    if labels is not None:
        return labels
    store = as_store(X, y)
    try:
        return _labels_of(y) if store is None else store.labels()
    except LabelError:
        failure = LabelError(_OTHER_LABELS)
    raise failure


def _labels_of(y: Any) -> Sequence[Level]:
    values = single_column("y", y)
    if holds_truth(values):
        return (False, True)
    with naming("y", "argument"):
        return standard_labels(values)
