"""How long ``import privfit`` and ``privfit --help`` take, each in fresh processes.

    python benchmarks/start_up.py [--repetitions 15]

Prints the median and minimum of each, of the bare interpreter and of importing all that an estimator needs,
after one run that warms the caches, and writes benchmarks/results/start_up.json.
"""

import argparse
import json
import subprocess
import sys
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
}


def seconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 -- our own
    return time.perf_counter() - started


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
    }
    print(json.dumps(report, indent=2))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
