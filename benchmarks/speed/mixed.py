"""Sums and fits of a table with categorical columns: by code, dense, and sparse, in one process.

    python benchmarks/speed/mixed.py [--rows 1000000] [--rounds 3]

Compares a gradient and a second moment over codes with those over the same rows written out (by this
library and by NumPy) and over a sparse matrix (SciPy). Compares a default logistic fit with intervals, from
the table, with scikit-learn's non-private fit of rows that are encoded before. Ratios are of processor times
and of clocks, the smallest of all rounds. Writes benchmarks/speed/results/mixed.json.
"""

import argparse

import numpy as np
import scipy.sparse as sp
from measure import in_rounds, ratios, write
from sklearn.linear_model import LogisticRegression
from table import SCHEMA, rows

import privfit as pf
from privfit._threads import thread_count
from privfit.data.encode import SchemaEncoder
from privfit.data.source import ArraySource
from privfit.data.tables import open_table
from privfit.losses import Logistic
from privfit.problem.kernels import gradient_kernel, second_moment_kernel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    frame = rows(options.rows, seed=0)
    encoder = SchemaEncoder(SCHEMA, target_kind="binary")
    table = open_table(frame)
    x, y = encoder.encode_coded(table), encoder.encode_target(table)
    p, bound = x.shape[1], encoder.design.norm_bound
    dense, coded = x.dense(), ArraySource(x, y, norm_bound=bound)
    whole, sparse = ArraySource(dense, y, norm_bound=bound), sp.csr_array(dense)
    theta = np.random.default_rng(1).normal(size=p) / 10
    gradient, moment = gradient_kernel(Logistic(), theta, 1.0), second_moment_kernel(None)
    assert np.allclose(coded.sum(gradient, p), whole.sum(gradient, p))
    assert np.allclose(coded.sum(moment, p * p), whole.sum(moment, p * p))

    def two_pass(matrix: object) -> np.ndarray:
        return matrix.T @ (1.0 / (1.0 + np.exp(-(matrix @ theta))) - y)

    def private_fit() -> object:
        return pf.LogisticRegression(epsilon=1.0, delta=1e-6, schema=SCHEMA).fit(frame)

    sums = in_rounds(
        {
            "gradient by code": lambda: coded.sum(gradient, p),
            "gradient dense": lambda: whole.sum(gradient, p),
            "gradient NumPy": lambda: two_pass(dense),
            "gradient sparse": lambda: two_pass(sparse),
            "moment by code": lambda: coded.sum(moment, p * p),
            "moment dense": lambda: whole.sum(moment, p * p),
        },
        options.rounds,
    )
    fits = in_rounds(
        {
            "private fit with intervals": private_fit,
            "encoding alone": lambda: (encoder.encode_coded(table), encoder.encode_target(table)),
            "scikit-learn sparse": lambda: LogisticRegression(max_iter=1000).fit(sparse[:, 1:], y),
            "scikit-learn dense": lambda: LogisticRegression(max_iter=1000).fit(dense[:, 1:], y),
        },
        options.rounds,
    )
    measured = {**sums, **fits}
    pairs = [
        ("gradient by code", "gradient dense"),
        ("gradient by code", "gradient NumPy"),
        ("gradient by code", "gradient sparse"),
        ("moment by code", "moment dense"),
        ("private fit with intervals", "scikit-learn sparse"),
        ("private fit with intervals", "scikit-learn dense"),
    ]
    report = {
        "rows": options.rows,
        "encoded_columns": p,
        "threads": thread_count(),
        "bytes_by_code": int(x.numbers.nbytes + x.codes.nbytes),
        "bytes_dense": int(dense.nbytes),
        "bytes_sparse": int(sparse.data.nbytes + sparse.indices.nbytes + sparse.indptr.nbytes),
        "sums": sums,
        "fits": fits,
        "ratios": ratios(measured, pairs),
        "clock_ratios": ratios(measured, pairs, by="clock_ms"),
    }
    write("mixed", report)


if __name__ == "__main__":
    main()
