"""How a pass scales: with rows, columns and threads, and the memory that it takes.

    python benchmarks/speed/scaling.py [--rows 100000] [--rounds 3]

Each size is measured in a process of its own, which reports how much memory it held at most beyond what its
rows take. Writes benchmarks/speed/results/scaling.json.
"""

import argparse
import json
import os
import resource
import subprocess
import sys

import numpy as np
from measure import in_rounds, write

ROWS = (1, 2, 4, 8)
"""Times the number of rows."""

COLUMNS = (10, 50, 200, 500, 1000, 2000)
THREADS = [2**k for k in range((os.cpu_count() or 1).bit_length())]
"""1, 2, 4, ... as far as there are cores."""

CELLS = 2**24
"""Cells of the tables whose columns are varied, at most."""


def high_water() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def child(n: int, p: int, rounds: int) -> dict[str, object]:
    from privfit.data.source import ArraySource
    from privfit.losses import Logistic
    from privfit.problem.kernels import gradient_kernel, hessian_kernel, second_moment_kernel

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, p)), (rng.random(n) < 0.5).astype(float)
    source, theta = ArraySource(x, y, norm_bound=np.sqrt(p)), np.zeros(p)
    before = high_water()
    kernels = {
        "gradient": (gradient_kernel(Logistic(), theta, 1.0), p),
        "second moment": (second_moment_kernel(None), p * p),
        "Hessian": (hessian_kernel(Logistic(), theta, 1.0, None, 0.25), p * p),
    }
    measured = in_rounds(
        {
            name: lambda kernel=kernel, size=size: source.sum(kernel, size)
            for name, (kernel, size) in kernels.items()
        },
        rounds,
    )
    return {
        "rows": n,
        "columns": p,
        "rows_mib": round(x.nbytes / 2**20, 1),
        "more_mib": round(high_water() - before, 1),
        **measured,
    }


def apart(n: int, p: int, rounds: int, threads: int) -> dict[str, object]:
    command = [sys.executable, __file__, "--child", str(n), str(p), "--rounds", str(rounds)]
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    where = {**os.environ, **dict.fromkeys(names, str(threads))}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=where)  # noqa: S603
    return {"threads": threads, **json.loads(done.stdout)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(*options.child, options.rounds)))
        return
    n, rounds = options.rows, options.rounds
    report = {
        "rows": [apart(times * n, 50, rounds, 1) for times in ROWS],
        "columns": [apart(min(n, CELLS // p), p, rounds, 1) for p in COLUMNS],
        "threads": [apart(4 * n, 50, rounds, threads) for threads in THREADS],
    }
    write("scaling", report)


if __name__ == "__main__":
    main()
