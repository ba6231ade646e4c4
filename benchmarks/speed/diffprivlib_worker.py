"""Time diffprivlib 0.6.6 in its own environment (scikit-learn 1.6): ``worker.py X.npy Y.npy ROUNDS``.

Prints clock and processor milliseconds of the quickest of ROUNDS fits, after one that is not counted.
"""

import json
import sys
import time
import warnings

import numpy as np
from diffprivlib.models import LogisticRegression

x, y, rounds = np.load(sys.argv[1]), np.load(sys.argv[2]), int(sys.argv[3])
norm = float(np.sqrt(2 * x.shape[1]))
warnings.simplefilter("ignore")
times = []
for _ in range(rounds + 1):
    clock, processor = time.perf_counter(), time.process_time()
    LogisticRegression(epsilon=1.0, data_norm=norm).fit(x, y)
    times.append((1e3 * (time.perf_counter() - clock), 1e3 * (time.process_time() - processor)))
best = [round(min(column), 1) for column in zip(*times[1:], strict=True)]
print(json.dumps({"clock_ms": best[0], "processor_ms": best[1]}))
