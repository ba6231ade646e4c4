"""The split of the budget that makes intervals shortest, found by rehearsals on public rows."""

from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.estimators.forecast import FEWEST_REHEARSALS
from privfit.estimators.options import FitOptions
from privfit.estimators.rehearsal import Rehearsal
from privfit.inference.infer import BudgetSplit

BREADS = (0.05, 0.08, 0.12, 0.18, 0.26)
"""Parts of the squared budget for the bread that are tried beside the default."""

MEATS = (0.02, 0.04, 0.08)
"""Parts of the squared budget for the meat that are tried beside the default."""

_WORTH_A_CHANGE = 0.02
"""Relative gain of information below which the default is kept: the forecast is no better than that."""


def shortest(rehearsal: Rehearsal, options: FitOptions, *, n_rows: int, level: float) -> BudgetSplit:
    """Return the split with the shortest forecast intervals.

    Parameters
    ----------
    rehearsal : Rehearsal
    options : FitOptions
        Their own split is not looked at.
    n_rows : int
    level : float
        Coverage of the intervals.

    Raises
    ------
    PrivfitError
        A named subclass, as the fit would raise it.

    Notes
    -----
    The bread is tried first and the meat beside the best one. What is compared is the expected information
    ``E[1 / width**2]`` of each coefficient, to which an infinite interval adds nothing, by its geometric
    mean over the coefficients. All splits are rehearsed with the same seeds.
    """

    def information(split: BudgetSplit) -> FloatArray:
        chosen = replace(options, inference=split)
        return rehearsal.forecast(chosen, n_rows=n_rows, rehearsals=FEWEST_REHEARSALS).information(level)

    best = BudgetSplit()
    known = information(best)
    for part, values in (("bread", BREADS), ("meat", MEATS)):
        tried = [replace(best, **{part: value}) for value in values]
        found = [information(split) for split in tried]
        gains = [_gain(one, known) for one in found]
        if max(gains) > _WORTH_A_CHANGE:
            k = int(np.argmax(gains))
            best, known = tried[k], found[k]
    return best


def _gain(found: FloatArray, known: FloatArray) -> float:
    """Return the mean logarithm of the gain; one from nothing, or to nothing, counts as a factor of 100."""
    larger = np.maximum(found, known)
    floor = np.where(larger > 0.0, 0.01 * larger, 1.0)
    return float(np.mean(np.log((found + floor) / (known + floor))))
