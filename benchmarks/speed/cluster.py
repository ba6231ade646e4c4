"""A fit on a Dask cluster of two single-threaded workers against the same fit in one process.

    python benchmarks/speed/cluster.py [--rows 1000000] [--rounds 2]

Rows are numbers made from a seed, the same in all, and in their memory before the clock starts. What is timed
is a logistic fit with intervals, encoding included, by the clock: the work is in other processes. Give the
one process as many threads as there are workers (OMP_NUM_THREADS=2); a worker has one whatever that says. A
second cluster's workers keep memory that is free, where Dask's settings make them give it back after every
array. Writes benchmarks/speed/results/cluster.json.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from measure import in_rounds, write

import privfit as pf
from privfit._threads import thread_count

COLUMNS, WORKERS = 13, 2

CLUSTERS: dict[str, dict[str, str]] = {
    "Dask's settings": {},
    "workers keep memory": {
        f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_": str(2**30)
        for name in ("TRIM", "MMAP")
    },
}
"""The second are bytes of free memory from which on the C library gives it back, and of an array that gets
memory of its own, which goes back with it."""


def part(block: np.ndarray, block_info: object = None) -> np.ndarray:
    """Return a partition of rows, the response last, made where it is wanted."""
    number = block_info[None]["chunk-location"][0]
    rng = np.random.default_rng(number)
    x = rng.normal(size=(block.shape[0], COLUMNS))
    yes = rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x[:, 0]))
    return np.column_stack([x, yes])


@contextmanager
def started(settings: dict[str, str]) -> Iterator[Client]:
    """Start workers with a thread each under these settings of Dask."""
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, env={"OMP_NUM_THREADS": "1"}
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def on(client: Client, rows: da.Array, model: pf.LogisticRegression) -> Callable[[], pf.LogisticRegression]:
    """Return what fits a model to rows that a cluster keeps."""
    with client.as_current(), dask.config.set(scheduler=client):
        x, y = dask.persist(rows[:, :-1], rows[:, -1])
        wait([x, y])

    def fit() -> pf.LogisticRegression:
        with client.as_current(), dask.config.set(scheduler=client):
            return model.fit(x, y)

    return fit


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
    report: dict[str, object] = {
        "rows": options.rows,
        "columns": COLUMNS,
        "partitions": rows.numblocks[0],
        "threads_in_one_process": thread_count(),
    }
    for name, settings in CLUSTERS.items():
        with started(settings) as client:
            fits = {"in one process": lambda: model.fit(x, y), "on the cluster": on(client, rows, model)}
            here, there = (fit().coef_ for fit in fits.values())
            measured = in_rounds(fits, options.rounds)
        clock = {name: times["clock_ms"] for name, times in measured.items()}
        report[name] = {
            "clock": clock,
            "clock ratio": round(clock["on the cluster"] / clock["in one process"], 3),
            "largest_relative_difference": float(np.max(np.abs(here - there) / np.abs(here))),
        }
    write("cluster", report)


if __name__ == "__main__":
    main()
