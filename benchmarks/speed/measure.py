"""Measure candidates in rounds, by the clock and by processor time, so that a slow minute hits all alike."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"

_IDLE = 0.2
"""Seconds before each measurement: idle threads of the candidate before spin for a while, and would count."""


def in_rounds(
    actions: dict[str, Callable[[], object]], rounds: int, *, touched: int = 0
) -> dict[str, dict[str, float]]:
    """Return the smallest milliseconds of each action, after one call that is not counted.

    Every other round goes backwards: memory that one action has given back to the system costs the next one
    time, and which one that is should not decide. On a virtual machine that time is long, as its host has to
    find the memory: ``touched`` bytes are written to and given back before each measurement, so that the
    machine has them, as one of metal would.
    """
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    forwards = list(actions.items())
    for number in range(rounds):
        for name, action in forwards if number % 2 == 0 else reversed(forwards):
            time.sleep(_IDLE)
            np.ones(touched, dtype=np.int8)
            clock, processor = time.perf_counter(), time.process_time()
            action()
            measured[name].append((time.perf_counter() - clock, time.process_time() - processor))
    return {
        name: {
            "clock_ms": round(1e3 * min(clock for clock, _ in times), 1),
            "processor_ms": round(1e3 * min(processor for _, processor in times), 1),
        }
        for name, times in measured.items()
    }


def ratios(
    measured: dict[str, dict[str, float]], pairs: list[tuple[str, str]], by: str = "processor_ms"
) -> dict[str, float]:
    """Return quotients of processor times, which other programs on the machine disturb least, or of clocks.

    There is none to a time that is too short to be measured.
    """
    times = {name: each[by] for name, each in measured.items()}
    return {
        f"{above} / {below}": round(times[above] / times[below], 3)
        for above, below in pairs
        if times[below] > 0.0
    }


def write(name: str, report: dict[str, object]) -> None:
    """Print the report and keep it."""
    print(json.dumps(report, indent=2))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(report, indent=2) + "\n")
