"""A private fit with intervals against other libraries' fits, in one process and in the same rounds.

    python benchmarks/speed/elsewhere.py [--rows 1000000] [--columns 50] [--rounds 3] [--diffprivlib PYTHON]

All but diffprivlib's are without regard to privacy: scikit-learn's logistic regression of dense and of sparse
rows, statsmodels' with standard errors, glum's. Those that cannot be imported are left out. diffprivlib 0.6.6
needs an older scikit-learn: PYTHON is an interpreter that has both, in which it fits the same rows in a
process of its own, after the rounds. Ratios are of processor times and of clocks, the smallest of all
rounds. Writes benchmarks/speed/results/elsewhere.json.
"""

import argparse
import json
import subprocess
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from measure import in_rounds, ratios, write
from sklearn.linear_model import LogisticRegression

import privfit as pf
from privfit._threads import thread_count
from privfit.data.coded import kept_as, numbers_of, storage_of
from privfit.data.source import ArraySource
from privfit.losses import Logistic
from privfit.problem.kernels import gradient_kernel

OURS = "privfit with intervals"
READINGS = ("reading the array", "reading what a fit keeps")
GRADIENTS = ("gradient", "gradient of what a fit keeps")

TOUCHED = 2**30
"""Bytes that any of these fits may take."""


def rows(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, k))
    score = x @ (rng.normal(size=k) / np.sqrt(k))
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(int)


def read(x: np.ndarray) -> float:
    """Add up all numbers, on as many threads as a pass has."""
    with ThreadPoolExecutor(thread_count()) as pool:
        return float(sum(pool.map(np.sum, np.array_split(x, thread_count()))))


def fits(x: np.ndarray, y: np.ndarray) -> dict[str, object]:
    sparse = sp.csr_array(x)
    candidates = {
        OURS: lambda: pf.LogisticRegression(epsilon=1.0, delta=1e-6).fit(x, y),
        "privfit without intervals": lambda: pf.LogisticRegression(inference=False).fit(x, y),
        "scikit-learn dense": lambda: LogisticRegression().fit(x, y),
        "scikit-learn sparse": lambda: LogisticRegression().fit(sparse, y),
    }
    with suppress(ImportError):
        from statsmodels.discrete.discrete_model import Logit

        whole = np.column_stack([np.ones(len(x)), x])
        candidates["statsmodels"] = lambda: Logit(y, whole).fit(disp=0).bse
    with suppress(ImportError):
        from glum import GeneralizedLinearRegressor

        candidates["glum"] = lambda: GeneralizedLinearRegressor(family="binomial", alpha=0).fit(x, y)
    return candidates


def diffprivlib(python: str, x: np.ndarray, y: np.ndarray, rounds: int) -> dict[str, float]:
    """Return what the worker measures of the same rows."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("x.npy", "y.npy")]
        for path, values in zip(paths, (x, y), strict=True):
            np.save(path, values)
        worker = str(Path(__file__).with_name("diffprivlib_worker.py"))
        command = [python, worker, *paths, str(rounds)]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        return json.loads(answer.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="interpreter that has diffprivlib 0.6.6")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    x, y = rows(options.rows, options.columns)
    source = ArraySource(x, y.astype(float), norm_bound=np.sqrt(options.columns))
    kept = kept_as(x, storage_of(len(x), private=True))  # as in a private fit, but for the constant
    kept_source = ArraySource(kept, y.astype(float), norm_bound=np.sqrt(options.columns))
    kernel = gradient_kernel(Logistic(), np.zeros(options.columns), 1.0)
    measured = in_rounds(
        {
            "reading the array": lambda: read(x),
            "gradient": lambda: source.sum(kernel, options.columns),
            "reading what a fit keeps": lambda: read(numbers_of(kept)[0]),
            "gradient of what a fit keeps": lambda: kept_source.sum(kernel, options.columns),
            **fits(x, y),
        },
        options.rounds,
        touched=TOUCHED,
    )
    if options.diffprivlib is not None:
        measured["diffprivlib"] = diffprivlib(options.diffprivlib, x, y, options.rounds)
    passes = [(gradient, reading) for gradient in GRADIENTS for reading in READINGS]
    pairs = [*passes, *((OURS, name) for name in measured if name not in (OURS, *GRADIENTS, *READINGS))]
    report = {
        "rows": options.rows,
        "columns": options.columns,
        "threads": thread_count(),
        "measured": measured,
        "ratios": ratios(measured, pairs),
        "clock_ratios": ratios(measured, pairs, by="clock_ms"),
    }
    write("elsewhere", report)


if __name__ == "__main__":
    main()
