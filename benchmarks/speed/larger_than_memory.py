"""A Parquet file that is encoded into a cache, summed over and fitted, against a scan of it with PyArrow.

    python benchmarks/speed/larger_than_memory.py [--rows 4000000] [--rounds 3]

Measures in processes of their own, which report the most memory that they held. The fit is the default
logistic one with intervals, from the cache. Writes benchmarks/speed/results/larger_than_memory.json.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
from measure import in_rounds, write
from table import SCHEMA, rows

_PIECE = 250_000


def make(path: Path, n_rows: int) -> None:
    writer = None
    for start in range(0, n_rows, _PIECE):
        piece = pa.Table.from_pandas(rows(min(_PIECE, n_rows - start), seed=start), preserve_index=False)
        writer = pq.ParquetWriter(path, piece.schema) if writer is None else writer
        writer.write_table(piece)
    writer.close()


def high_water() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)


def scan(path: Path, rounds: int) -> dict[str, object]:
    def read() -> int:
        return sum(batch.num_rows for batch in pads.dataset(path).to_batches(batch_readahead=2))

    times = in_rounds({"scan": read}, rounds)["scan"]
    return {**times, "high_water_mib": high_water()}


def cached(path: Path, rounds: int) -> dict[str, object]:
    import privfit as pf
    from privfit.data.encode import SchemaEncoder
    from privfit.losses import Logistic
    from privfit.problem.kernels import gradient_kernel

    encoder = SchemaEncoder(SCHEMA, target_kind="binary")
    bound, p = encoder.design.norm_bound, len(encoder.design.columns)
    imported = high_water()
    clock, processor = time.perf_counter(), time.process_time()
    stored = pf.RowCache(path, folder=path.parent / "cache").rows(encoder, norm_bound=bound)
    encoding = {
        "clock_ms": round(1e3 * (time.perf_counter() - clock), 1),
        "processor_ms": round(1e3 * (time.process_time() - processor), 1),
    }
    source = stored.source(norm_bound=bound)
    kernel = gradient_kernel(Logistic(), np.zeros(p), 1.0)
    passes = in_rounds({"pass": lambda: source.sum(kernel, p)}, rounds)["pass"]
    after_passes = high_water()
    source.reweighted(np.eye(p), norm_bound=2.0, amplification=9.0).sum(kernel, p)
    return {
        "encoding": encoding,
        "gradient_pass": passes,
        "imported_mib": imported,
        "after_passes_mib": after_passes,
        "high_water_mib": high_water(),
        "cache_bytes": sum(file.stat().st_size for file in (path.parent / "cache").rglob("*")),
    }


def fitted(path: Path, rounds: int) -> dict[str, object]:
    import privfit as pf

    def fit() -> pf.FitResult:
        cache = pf.RowCache(path, folder=path.parent / "cache")
        return pf.LogisticRegression(epsilon=1.0, delta=1e-6, schema=SCHEMA).fit(cache).result_

    parts = [release.part for release in fit().releases]
    times = in_rounds({"fit": fit}, rounds)["fit"]
    read = {"passes": len(parts), "tables_read": round(sum(parts), 2)}
    return {"fit": times, **read, "fit_high_water_mib": high_water()}


CHILDREN = {"scan": scan, "cached": cached, "fitted": fitted}
"""What processes of their own do, in this order."""


def apart(what: str, path: Path, rounds: int) -> dict[str, object]:
    command = [sys.executable, __file__, "--child", what, "--path", str(path), "--rounds", str(rounds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", choices=list(CHILDREN), help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(CHILDREN[options.child](options.path, options.rounds)))
        return
    sizes = {}
    for n_rows in (options.rows // 4, options.rows):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            make(path, n_rows)
            scanned, summed, whole = (apart(what, path, options.rounds) for what in CHILDREN)
            sizes[str(n_rows)] = {
                "file_bytes": path.stat().st_size,
                "scan": scanned,
                **summed,
                **whole,
                "scan / pass": round(scanned["processor_ms"] / summed["gradient_pass"]["processor_ms"], 3),
                "scan / encoding": round(scanned["processor_ms"] / summed["encoding"]["processor_ms"], 3),
            }
    write("larger_than_memory", {"rows": sizes})


if __name__ == "__main__":
    main()
