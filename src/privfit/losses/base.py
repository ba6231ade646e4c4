"""What a loss is: scalar functions of the linear predictor, and the constants that privacy needs.

Conventions
-----------
``eta`` is the linear predictor, ``y`` the encoded response, ``s`` a residual scale (1 unless the loss
estimates one), ``c`` and ``k`` the loss's own constants. The loss of a row is ``value(y, eta, s, c, k)``.
All scalar functions are compiled to one signature, so one compiled pass over the rows serves every loss.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numba import float64, int64, njit, void
from numba.extending import is_jitted

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.losses.means import AbstractMeans
from privfit.losses.outside import guarded
from privfit.losses.pointers import address, called

TargetKind: TypeAlias = Literal["numeric", "binary", "count", "class"]
"""Which response a loss takes; binary means 0/1, count means clamped to public bounds and not scaled, class
means codes 0 to K - 1."""

ScalarFunction: TypeAlias = Callable[[float, float, float, float, float], float]


def scalar(function: ScalarFunction) -> Any:
    """Let a scalar function of ``(y, eta, s, c, k)`` be compiled when its `address` is asked for; see there.

    Division by zero gives inf or NaN, as in NumPy: a check for it would keep loops from being vectorised.
    """
    return njit(cache=True, error_model="numpy", fastmath={"contract"})(function)


@scalar
def zero(y: float, eta: float, s: float, c: float, k: float) -> float:
    """Return 0: the scale functions of a loss without a scale."""
    return 0.0


@scalar
def unlimited(y: float, eta: float, s: float, c: float, k: float) -> float:
    """Return infinity: the reach of a loss of which only the bound for every ``eta`` is known."""
    return math.inf


@dataclass(frozen=True, slots=True)
class ScalarFunctions:
    """The compiled functions of a loss, each of ``(y, eta, s, c, k)``.

    Parameters
    ----------
    value : callable
        Loss of a row.
    slope : callable
        First derivative in ``eta``.
    curvature : callable
        ``s`` times the second derivative in ``eta``.
    scale_slope : callable
        Derivative in ``s``.
    scale_direction : callable
        ``u`` such that the Hessian of a row in ``(theta, s)`` is ``curvature / s * (x, u)(x, u)'``.
    reach : callable
        ``sup |slope|`` over the responses that are possible at ``eta``, or more; ``y`` is ignored.
    """

    value: ScalarFunction
    slope: ScalarFunction
    curvature: ScalarFunction
    scale_slope: ScalarFunction = zero
    scale_direction: ScalarFunction = zero
    reach: ScalarFunction = unlimited


@dataclass(frozen=True, slots=True)
class LossConstants:
    """Bounds that hold for every ``y`` and ``eta``. Kernels clamp to them, so privacy never rests on them.

    Parameters
    ----------
    slope : float
        ``sup |slope|``; the norm, with several predictors.
    curvature : float
        ``sup curvature``; ``inf`` for a loss with a kink, which has no Hessian. With several predictors the
        Frobenius norm, which bounds the spectral norm.
    scale_slope : tuple of float
        ``(inf, sup)`` of ``scale_slope``; it holds 0.
    scale_direction : float
        ``sup |scale_direction|`` where the curvature is not 0.
    scale_curvature : float
        No less than ``s`` times the expected second derivative in ``s`` under normal errors, at the optimum;
        steps of the scale go by it.
    self_concordance : float or None
        ``gamma`` such that the loss, as a function of ``eta``, is (gamma, 2)-self-concordant.
    self_concordance_3 : float or None
        ``gamma`` such that it is (gamma, 3)-self-concordant.

    Notes
    -----
    A function of one variable is (gamma, k)-self-concordant if ``|f'''| <= gamma * f''**(k / 2)``
    everywhere (Sun and Tran-Dinh 2019, *Generalized self-concordant functions*, definition 1).

    For rows with ``norm(x) <= C``, weighted or not, the loss of a row as a function of the coefficients is
    ``(gamma * C, 2)``-self-concordant if the loss is of order 2, and
    ``(gamma * C * sqrt(curvature), 2)``-self-concordant if it is of order 3, and so is their mean. With
    Schweppe weights, which scale a row and its residual by ``v``, the same holds with ``norm(v * x) <= C``
    (Avella-Medina, Bradshaw and Loh 2023, lemmas 2, 3, 8, 9 and 10).
    """

    slope: float
    curvature: float
    scale_slope: tuple[float, float] = (0.0, 0.0)
    scale_direction: float = 0.0
    scale_curvature: float = 0.0
    self_concordance: float | None = None
    self_concordance_3: float | None = None

    @property
    def smooth(self) -> bool:
        """Whether the slope is Lipschitz, so that gradient steps have a size and the Hessian exists."""
        return math.isfinite(self.curvature)


class AbstractLoss(ABC):
    """A loss of a linear predictor, or of several. Subclasses are final, frozen and hold constants only."""

    __slots__ = ()

    target_kind: ClassVar[TargetKind]
    """Which response it takes."""

    convex: ClassVar[bool] = True
    """Whether the loss is convex in the linear predictor (and the scale)."""

    proven: ClassVar[bool] = True
    """Whether `constants` and `convex` are known to hold. False for functions from outside: methods whose
    guarantee rests on more than what kernels clamp row by row must then refuse."""

    compiled: ClassVar[bool] = True
    """Whether `functions` are compiled. Those that are not take arrays and go through NumPy."""

    smoothed: ClassVar[str] = "a loss with a finite curvature bound"
    """What to take instead where a Hessian is needed and this loss has none; for messages."""

    functions: ClassVar[ScalarFunctions]
    """Scalar functions."""

    of_residual: ClassVar[bool] = False
    """Whether it depends on ``y - eta`` alone."""

    symmetric: ClassVar[bool] = False
    """Whether it is an even function of ``y - eta``, so that cutting large slopes leaves the center alone."""

    scales_rows: ClassVar[bool] = False
    """Whether rows far out are scaled (Schweppe) rather than weighted down (Mallows); see `Schweppe`."""

    has_scale: ClassVar[bool] = False
    """True if a residual scale is estimated along."""

    __match_args__: ClassVar[tuple[str, ...]] = ()
    """Names of its constants, as those of a dataclass are."""

    @property
    def name(self) -> str:
        """Name with constants, e.g. ``Huber(threshold=1.345)``."""
        constants = ", ".join(f"{name}={getattr(self, name):g}" for name in self.__match_args__)
        return type(self).__name__ + (f"({constants})" if constants else "")

    @property
    @abstractmethod
    def constants(self) -> LossConstants:
        """Public bounds."""

    @property
    def parameters(self) -> tuple[float, float]:
        """``(c, k)`` passed to the scalar functions: the constants, and 0 for what is not used."""
        c, k, *_ = *(getattr(self, name) for name in self.__match_args__), 0.0, 0.0
        return c, k

    @property
    def n_outputs(self) -> int:
        """Number of linear predictors that the loss is a function of."""
        return 1

    @property
    def reported(self) -> FloatArray:
        """Reported linear predictors as linear functions of the loss's own, shape (n_outputs, n_outputs)."""
        return np.ones((1, 1))

    @property
    def contrasts(self) -> FloatArray:
        """What turns the linear predictors into those that are alike, one a class; orthonormal columns."""
        return np.ones((1, 1))

    @property
    def trace(self) -> float:
        """Bound on the trace of a row's Hessian in the predictors: the curvature of one."""
        return self.constants.curvature

    @property
    def slack(self) -> tuple[float, float]:
        """How many times looser the bounds on slope and curvature are for typical rows than a logit's.

        A guess from public facts, at least 1, by which a solver may take less room for far rows.
        """
        return (1.0, 1.0)

    @property
    def bend(self) -> float:
        """About how fast the mean curvature changes along the linear predictor, relative to itself.

        A guess from public facts; 0 where there is none.
        """
        return 0.0

    @property
    def means(self) -> AbstractMeans | None:
        """Mean responses by predictors, where slopes are these less responses; None for other losses."""
        return None

    @property
    def bending(self) -> float:
        """By what part the curvature changes for a unit of the predictor, at most, if all rows' do alike.

        0 where nothing is known, or residuals spread so that the mean curvature changes little.
        """
        return 0.0

    def turning(self, curvature: float) -> float:  # noqa: ARG002 -- losses that know use it
        """Return about how fast the curvature changes along the predictor, relative to itself.

        Parameters
        ----------
        curvature : float
            Mean curvature where that is asked.

        Returns
        -------
        float
            0 where nothing is known, or intervals hold without.
        """
        return 0.0

    def span(self, radius: float) -> float:
        """Return a bound on ``sup value - inf value`` over ``abs(eta) <= radius``, for any fixed ``y``.

        Rows are held to it where a guarantee needs it.
        """
        return 2.0 * self.constants.slope * radius


@lazily_compiled(void(int64, float64[::1], float64[::1], float64[::1], float64[::1]), nogil=True)
def _fill(function: int, y: Any, eta: Any, constants: Any, out: Any) -> None:
    """Apply a scalar function elementwise; ``constants`` is ``(s, c, k)``."""
    s, c, k = constants[0], constants[1], constants[2]
    for i in range(out.size):
        out[i] = called(function, y[i], eta[i], s, c, k)


def evaluate(
    function: ScalarFunction, y: FloatArray | float, eta: FloatArray | float, *, s: float, loss: AbstractLoss
) -> FloatArray:
    """Apply one of the loss's scalar functions elementwise; ``y`` and ``eta`` broadcast."""
    c, k = loss.parameters
    values = np.empty((2, *np.broadcast(y, eta).shape))
    values[0], values[1] = y, eta
    ys, etas = values.reshape(2, -1)
    if is_jitted(function):
        out = np.empty(ys.size)
        _fill(address(function), ys, etas, np.array([s, c, k]), out)
    else:
        out = np.asarray(guarded(function)(ys, etas, s, c, k))
    return out.reshape(values.shape[1:])
