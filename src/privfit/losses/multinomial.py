"""Multinomial logistic loss of a response with K classes."""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from privfit._checks import FloatArray, whole
from privfit.errors import InvalidArgument
from privfit.losses.base import AbstractLoss, LossConstants, TargetKind
from privfit.losses.means import ClassMeans, of_classes

LARGEST = 1000
"""Most classes; the parameter has ``(K - 1) p`` entries and its Hessian the square of that."""

ROUNDING = 1.0 + 2.0**-30
"""Room for the rounding of sums over up to `LARGEST` classes: of a row's derivatives, and of their norm."""


@final
@dataclass(frozen=True, slots=True)
class Multinomial(AbstractLoss):
    """``log(sum_k exp(t_k)) - t_y`` for ``y`` in {0, ..., K - 1}: the negative log-likelihood of a class.

    The K predictors ``t`` of a row are known up to a constant that is added to all, so they are held to sum
    to 0: ``t = U eta`` with the columns of `contrasts` an orthonormal basis of the vectors that sum to 0.
    The model has ``K - 1`` linear predictors ``eta``, and ``(K - 1) p`` coefficients, one row of p after
    the other. Because ``U`` keeps lengths, noise of the same size in every coefficient treats all classes
    alike, whichever is called the reference, and none of it is spent outside of the space.

    With ``pi`` the probabilities of the classes, the gradient in ``eta`` is ``U'(pi - e_y)``, of norm at most
    ``sqrt(2)``, and the Hessian is ``U'(diag(pi) - pi pi')U``, of spectral and Frobenius norm at most 1/2
    (Böhning 1992, *Multinomial logistic regression algorithm*, for the former; `docs/losses.md` has proofs).
    Both are attained in the limit for every K. Two classes give `Logistic`, with ``eta`` divided by
    ``sqrt(2)``.

    Parameters
    ----------
    n_classes : int
        ``K``, from 2 to 1000.

    Notes
    -----
    *Guarantee.* None rests on the formula for ``pi``: kernels hold what `chances` returns to numbers of at
    least 0 with a sum of at most 1, for which both bounds hold.
    """

    n_classes: int = 3

    target_kind: ClassVar[TargetKind] = "class"

    def __post_init__(self) -> None:
        whole(2, n_classes=self.n_classes)
        if self.n_classes > LARGEST:
            raise InvalidArgument(f"n_classes must be at most {LARGEST}")

    @property
    def n_outputs(self) -> int:
        """``K - 1``."""
        return self.n_classes - 1

    @property
    def constants(self) -> LossConstants:
        """Public bounds on norms.

        The third derivative of the loss along ``h``, ``h`` and ``g`` is a covariance of ``(h - mean)**2`` and
        ``g`` under ``pi``, at most the range of ``g``, so ``sqrt(2) norm(g)``, times the variance of ``h``.
        """
        root = math.sqrt(2.0)
        return LossConstants(
            slope=root * ROUNDING, curvature=0.5 * ROUNDING, self_concordance=root * ROUNDING
        )

    @property
    def bending(self) -> float:
        """That of self-concordance."""
        return math.sqrt(2.0)

    @property
    def trace(self) -> float:
        """``1 - 1 / K``: that of the Hessian is ``sum pi - sum pi**2``, largest for equal probabilities."""
        return (1.0 - 1.0 / self.n_classes) * ROUNDING

    @property
    def parameters(self) -> tuple[float, float]:
        """None used."""
        return (0.0, 0.0)

    @property
    def slack(self) -> tuple[float, float]:
        """At even odds every direction has curvature and mean squared slope ``1 / K``."""
        return (math.sqrt(0.5 * self.n_classes), 0.5 * self.n_classes)

    @property
    def contrasts(self) -> FloatArray:
        """``U``: orthonormal columns that sum to 0, shape (K, K - 1)."""
        return _contrasts(self.n_classes)

    @property
    def reported(self) -> FloatArray:
        """Differences of every class but the first from the first, of the outputs; shape (K - 1, K - 1)."""
        return self.contrasts[1:] - self.contrasts[0]

    @property
    def means(self) -> ClassMeans:
        """The probabilities of the classes."""
        return ClassMeans(self.contrasts)

    def chances(self, eta: FloatArray) -> FloatArray:
        """Return the probabilities of the classes, shape (K, n), for predictors of shape (K - 1, n)."""
        return self.means.at(eta)

    def steepest(self, eta: FloatArray, slack: float) -> FloatArray:
        """Return about the largest norm that the gradient can have within ``slack`` of the predictors.

        ``slack`` is in the unit of `Logistic`, whose predictor is ``sqrt(2)`` times that of two classes. The
        gradient changes by at most the largest probability, or half, times the distance.
        """
        with np.errstate(all="ignore"):
            chances = self.chances(eta)
        change = math.sqrt(0.5) * slack * np.minimum(chances.max(axis=0), 0.5)
        return np.minimum(class_reach(chances) + change, self.constants.slope)

    def curvatures(self, eta: FloatArray) -> FloatArray:
        """Return the Hessians ``U'(diag(pi) - pi pi')U`` of rows with these predictors, shape (n, m, m)."""
        chances, contrasts = self.chances(eta), self.contrasts
        means = contrasts.T @ chances
        squares = np.einsum("ka,kn,kb->nab", contrasts, chances, contrasts, optimize=True)
        return np.asarray(squares - np.einsum("an,bn->nab", means, means), dtype=np.float64)

    def values(self, codes: NDArray[np.int64], eta: FloatArray) -> FloatArray:
        """Return the loss of rows of these classes, shape (n,), for predictors of shape (K - 1, n)."""
        predictors = of_classes(self.contrasts, eta)
        return logsumexp(predictors, axis=0) - predictors[codes, np.arange(codes.size)]


def class_reach(chances: FloatArray) -> FloatArray:
    """Return the largest norm of ``pi - e_y`` over the classes y, shape (n,), for probabilities (K, n)."""
    return np.sqrt((chances * chances).sum(axis=0) + 1.0 - 2.0 * chances.min(axis=0))


@cache
def _contrasts(n_classes: int) -> FloatArray:
    """Helmert's contrasts: column j compares class j + 1 with the mean of those before it."""
    columns = np.zeros((n_classes, n_classes - 1))
    for j in range(1, n_classes):
        columns[:j, j - 1] = 1.0
        columns[j, j - 1] = -float(j)
        columns[:, j - 1] /= math.sqrt(j * (j + 1.0))
    columns.setflags(write=False)
    return columns
