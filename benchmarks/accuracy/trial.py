"""All repetitions of one method in one cell, tuning included, and what is reported of them."""

import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cells import Cell
from competitors.base import AbstractMethod, Setting
from problems import Scores

from privfit.errors import PrivfitError

HALVING = ((1, 8), (4, 2))
"""How hindsight narrows settings down: repetitions that each gets, and how many go on.

Those that are left get all repetitions; the best mean of theirs is reported.
"""

FIELDS = [
    "table", "task", "epsilon", "method", "role", "tuned", "n", "p", "delta", "repetitions",
    "excess", "excess_se", "excess_median", "test", "test_se", "seconds", "setting", "note",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """The repetitions of one setting."""

    setting: Setting
    scores: Sequence[Scores]
    seconds: float

    @property
    def excess(self) -> float:
        """Mean excess loss; infinite if any repetition failed."""
        return float(np.mean([score.excess for score in self.scores]))


def trial(cell: Cell, method: AbstractMethod, repetitions: int) -> dict[str, object]:
    """Return one row of the results."""
    repetitions = min(repetitions, method.most_repetitions)
    settings = method.settings(cell)
    row = _head(cell, method, tuned=len(settings) > 1)
    try:
        for tries, kept in HALVING:
            if len(settings) > kept:
                tried = _outcomes(cell, method, settings, range(min(tries, repetitions)))
                settings = [outcome.setting for outcome in sorted(tried, key=_rank)[:kept]]
        best = min(_outcomes(cell, method, settings, range(repetitions)), key=_rank)
    except PrivfitError as refusal:
        return {**row, "repetitions": 0, "note": f"refused: {refusal}"}
    return {**row, **_summary(best)}


def _outcomes(
    cell: Cell, method: AbstractMethod, settings: Sequence[Setting], repetitions: range
) -> list[Outcome]:
    """Return an outcome per setting, all fitted in one call."""
    runs = [
        (setting, cell.generator(f"{method.name}/{sorted(setting.items())}", repetition))
        for setting in settings
        for repetition in repetitions
    ]
    started = _cpu_seconds()
    thetas = method.fit(cell, runs)
    seconds = (_cpu_seconds() - started) / len(runs)
    scores = [cell.scores(theta) for theta in thetas]
    each = len(repetitions)
    return [
        Outcome(setting, scores[place * each : (place + 1) * each], seconds)
        for place, setting in enumerate(settings)
    ]


def _cpu_seconds() -> float:
    """Return the processor time of this process and of those that it waited for."""
    others = os.times()
    return time.process_time() + others.children_user + others.children_system


def _rank(outcome: Outcome) -> float:
    return outcome.excess if math.isfinite(outcome.excess) else math.inf


def _head(cell: Cell, method: AbstractMethod, *, tuned: bool) -> dict[str, object]:
    return {
        "table": cell.rows.name,
        "task": cell.task,
        "epsilon": f"{cell.epsilon:g}",
        "method": method.name,
        "role": method.role,
        "tuned": int(tuned),
        "n": cell.n,
        "p": cell.p,
        "delta": f"{cell.budget.delta:.3g}",
    }


def _summary(outcome: Outcome) -> dict[str, object]:
    excess = np.array([score.excess for score in outcome.scores])
    test = np.array([score.test for score in outcome.scores])
    return {
        "repetitions": len(excess),
        "excess": f"{excess.mean():.5g}",
        "excess_se": f"{_standard_error(excess):.2g}",
        "excess_median": f"{np.median(excess):.5g}",
        "test": f"{test.mean():.5g}",
        "test_se": f"{_standard_error(test):.2g}",
        "seconds": f"{outcome.seconds:.2g}",
        "setting": " ".join(f"{name}={value:.4g}" for name, value in outcome.setting.items()),
    }


def _standard_error(values: np.ndarray) -> float:
    if len(values) < 2 or not np.isfinite(values).all():
        return math.nan
    return float(values.std(ddof=1) / math.sqrt(len(values)))
