"""A fit on a Dask cluster of two single-threaded workers against the same fit in one process.

    python benchmarks/speed/cluster.py [--rows 1000000] [--rounds 2]

Rows are numbers made from a seed, the same in both, and in the memory of both before the clock starts. What
is timed is a logistic fit with intervals, encoding included, by the clock: the work is in other processes.
Give the one process as many threads as there are workers. Writes benchmarks/speed/results/cluster.json.
"""

import argparse

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster
from measure import in_rounds, write

import privfit as pf
from privfit._threads import thread_count

COLUMNS = 13


def part(block: np.ndarray, block_info: object = None) -> np.ndarray:
    """Return a partition of rows, the response last, made where it is wanted."""
    number = block_info[None]["chunk-location"][0]
    rng = np.random.default_rng(number)
    x = rng.normal(size=(block.shape[0], COLUMNS))
    yes = rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x[:, 0]))
    return np.column_stack([x, yes])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    shape, chunk = (options.rows, COLUMNS + 1), -(-options.rows // 8)
    rows = da.zeros(shape, chunks=(chunk, COLUMNS + 1)).map_blocks(part, dtype=float)
    model = pf.LogisticRegression(epsilon=1.0, delta=1e-6, classes=(0, 1), random_state=1)
    whole = rows.compute(scheduler="synchronous")
    x, y = whole[:, :-1], whole[:, -1]
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        kept = rows.persist()
        here, there = model.fit(x, y).coef_, model.fit(kept[:, :-1], kept[:, -1]).coef_
        measured = in_rounds(
            {
                "in one process": lambda: model.fit(x, y),
                "on the cluster": lambda: model.fit(kept[:, :-1], kept[:, -1]),
            },
            options.rounds,
        )
    clocks = [measured[name]["clock_ms"] for name in ("on the cluster", "in one process")]
    report = {
        "rows": options.rows,
        "columns": COLUMNS,
        "partitions": rows.numblocks[0],
        "threads_in_one_process": thread_count(),
        "largest_relative_difference": float(np.max(np.abs(here - there) / np.abs(here))),
        "clock": {name: times["clock_ms"] for name, times in measured.items()},
        "clock ratio": round(clocks[0] / clocks[1], 3),
    }
    write("cluster", report)


if __name__ == "__main__":
    main()
