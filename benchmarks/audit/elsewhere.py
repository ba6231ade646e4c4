"""The same attack on another library: objective perturbation of diffprivlib at a norm bound of 100.

    python benchmarks/audit/elsewhere.py --python /path/to/a/venv/bin/python [--trials 10000]

The other interpreter needs diffprivlib 0.6.6 and scikit-learn 1.6, which do not go with the versions that
privfit asks for; without ``--python`` nothing is done. Two tables of two rows without an intercept: the row
(x = 100, y = 1) is (x = 0, y = 1) in the other. Its mechanism bounds the curvature of the loss by a multiple
of the norm bound, where it is one of its square (compare Chaudhuri, Monteleoni and Sarwate 2011, whose norm
bound is 1), so that the noise is too small for norms far above 1. The attack looks at the size of the
coefficient. Writes benchmarks/audit/results/elsewhere.json.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from privfit.auditing import compare_outcomes
from privfit.auditing.compare import Claim

RESULTS = Path(__file__).parent / "results" / "elsewhere.json"
NORM, EPSILON = 100.0, 1.0

FITS = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import diffprivlib
from diffprivlib.models import LogisticRegression
norm, epsilon, trials = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
found = []
for x in (norm, 0.0):
    rows, labels = np.array([[x], [0.0]]), np.array([1, 0])
    found.append([
        float(LogisticRegression(epsilon=epsilon, data_norm=norm, fit_intercept=False)
              .fit(rows, labels).coef_[0, 0])
        for _ in range(trials)
    ])
print(json.dumps({"version": diffprivlib.__version__, "coefficients": found}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="interpreter that has diffprivlib")
    parser.add_argument("--trials", type=int, default=10_000)
    arguments = parser.parse_args()
    if arguments.python is None:
        sys.exit("skipped: give --python, an interpreter that has diffprivlib 0.6.6 and scikit-learn 1.6")
    words = [arguments.python, "-c", FITS, str(NORM), str(EPSILON), str(arguments.trials)]
    answer = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)  # noqa: S603
    sizes = [np.log(np.abs(np.array(one)) + 1e-300)[:, None] for one in answer["coefficients"]]
    subject = f"diffprivlib {answer['version']} LogisticRegression, data_norm {NORM:g}, no intercept"
    claim = Claim(subject=subject, relation="replace", epsilon=EPSILON, delta=0.0)
    found = compare_outcomes(sizes[0], sizes[1], claim, confidence=0.999)
    print(found.summary())
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found.to_dict(), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
