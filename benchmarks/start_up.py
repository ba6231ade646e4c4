"""How long ``import privfit``, ``privfit --help`` and a first fit take, each in fresh processes.

    python benchmarks/start_up.py [--repetitions 15]

Prints the median and minimum of each, of the bare interpreter and of importing all that an estimator needs,
after one run that warms the caches, and what a first fit takes when nothing is compiled yet, once; writes
benchmarks/results/start_up.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "start_up.json"

COMMANDS = {
    "python": ["-c", "pass"],
    "import privfit": ["-c", "import privfit"],
    "privfit --help": [
        "-c",
        "import sys; from privfit.cli import main; sys.argv = ['privfit', '--help']; main()",
    ],
    "privfit fit --help": [
        "-c",
        "import sys; from privfit.cli import main; sys.argv = ['privfit', 'fit', '--help']; main()",
    ],
    "from privfit import LogisticRegression": ["-c", "from privfit import LogisticRegression"],
    "first fit": [
        "-c",
        "import numpy as np, privfit as pf; x = np.linspace(-1.0, 1.0, 1_000);"
        "pf.LogisticRegression(epsilon=1.0).fit(x[:, None], x > 0.1)",
    ],
}


def seconds(arguments: list[str], **environment: str) -> float:
    started = time.perf_counter()
    command, about = [sys.executable, *arguments], {**os.environ, **environment}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=about)  # noqa: S603 -- our own
    return time.perf_counter() - started


def uncompiled() -> float:
    """Return how long a first fit takes that finds nothing compiled."""
    with tempfile.TemporaryDirectory() as empty:
        return seconds(COMMANDS["first fit"], NUMBA_CACHE_DIR=empty)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=15)
    options = parser.parse_args()
    for arguments in COMMANDS.values():
        seconds(arguments)
    measured: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(options.repetitions):  # in rounds, so that a slow minute hits all alike
        for name, arguments in COMMANDS.items():
            measured[name].append(seconds(arguments))
    report = {
        "repetitions": options.repetitions,
        "seconds_median": {name: round(float(np.median(values)), 3) for name, values in measured.items()},
        "seconds_minimum": {name: round(min(values), 3) for name, values in measured.items()},
        "seconds_first_fit_uncompiled": round(uncompiled(), 1),
    }
    print(json.dumps(report, indent=2))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
