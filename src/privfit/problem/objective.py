"""The objective: a loss on an encoded table, its bounded queries and its public constants."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from privfit._checks import FloatArray
from privfit.data.caps import SlopeBounds
from privfit.data.design import Cell
from privfit.data.exposure import Exposure
from privfit.data.shares import ShareRule
from privfit.data.source import MOST_ROWS
from privfit.errors import PlanViolation
from privfit.losses import AbstractLoss, Multinomial, Poisson, SmoothedQuantile
from privfit.losses.typical import USUAL_WIDTH
from privfit.privacy.relation import Relation
from privfit.problem.kept import kept
from privfit.problem.plan import SHARES, ReleaseKind
from privfit.problem.queries import MATRICES, BoundedQuery, need_hessian
from privfit.problem.share_kernels import CLASSES
from privfit.problem.steep import SteepRows
from privfit.problem.turning import for_each, longest_row, matrix_rounding, turned_rows

LARGEST_RIDGE = 1e50
"""Ridge weight up to which squares of a curvature, and what these are divided by, are finite."""

UNIT_SCALE_RESPONSE = 3.0
"""Size to which a response on a unit scale without declared bounds is cut for its mean and spread."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Everything public about ``min (1/n) sum w_i loss(y_i, x_i'theta) + sum(ridge * theta**2) / 2``.

    The parameter has ``size`` entries: the coefficients of the encoded columns, p for each linear predictor
    of the loss, and, for losses with a scale, the scale last.

    Parameters
    ----------
    loss : AbstractLoss
    columns : tuple of str
        Labels of the encoded columns, the intercept first if there is one.
    norm_bound : float
        Bound on ``sqrt(w) * norm(x)`` of every row.
    n_rows : int
        Public number of rows, or of privacy units where several rows can belong to one.
    relation : Relation
    l2 : float
        Ridge weight on encoded coefficients, the intercept and the scale excepted.
    start : tuple of float
        Public starting point, of length ``size``.
    penalised : tuple of bool
        Which encoded columns the ridge acts on.
    bounded : bool
        Whether declared bounds keep every row within ``norm_bound``: the unweighted fit is then wanted.
    indicators : tuple of bool
        Which encoded columns are declared to hold only 0 and 1, the constant among them; empty if unknown.
    factors, numbers : tuple of tuple of int
        Places of the indicators of a declared factor each, of the columns that are one number of every row.
    margins : tuple of tuple of int
        Places of the columns that each encoded column is a product of with something; empty if none is one.
    cells : tuple of Cell
        Combinations of levels that have no column of their own.
    response_bound : float or None
        Bound on the size of the encoded response, or on counts, where one is declared.
    basis : array of shape (p, p) or None
        ``P`` of a change of coordinates: the parameter is ``phi`` with coefficients ``theta = P phi`` for
        each predictor, rows act through ``P'x``, and ``norm_bound`` bounds
        ``sqrt(w) * norm(P'x)``. None for the identity.
    amplification : float
        Bound on ``sqrt(w) * norm(x) * norm(P)``, which the rounding of sums is stated in; 0 without ``P``.
    shares : ShareRule
        How much each row counts: a factor of ``w_i``. So the sum over a unit's rows is bounded as a row is.
    exposure : Exposure or None
        The column whose logarithm is a known part of the linear predictor of every row.
    constant : tuple of int
        Places of columns, free of the ridge, that add up to 1 in every row; empty if none do.
    steep : SteepRows or None
        By what rows are weighted down, and their slopes held, so that gradients are bounded more tightly.
    most_curved : float or None
        What curvatures of rows are cut to in Hessians, where that is less than the loss's bound on them.
    """

    loss: AbstractLoss
    columns: tuple[str, ...]
    norm_bound: float
    n_rows: int
    relation: Relation
    l2: float
    start: tuple[float, ...]
    penalised: tuple[bool, ...]
    bounded: bool = False
    indicators: tuple[bool, ...] = ()
    factors: tuple[tuple[int, ...], ...] = ()
    numbers: tuple[tuple[int, ...], ...] = ()
    margins: tuple[tuple[int, ...], ...] = ()
    cells: tuple[Cell, ...] = ()
    response_bound: float | None = None
    basis: FloatArray | None = None
    amplification: float = 0.0
    shares: ShareRule = field(default_factory=ShareRule)
    exposure: Exposure | None = None
    constant: tuple[int, ...] = ()
    steep: SteepRows | None = None
    most_curved: float | None = None

    @property
    def unit(self) -> str | None:
        """Name of the column that identifies the privacy unit; None if every row is one."""
        return self.shares.unit

    @property
    def most_rows(self) -> int:
        """Number that the rows of a table do not exceed, for the rounding of sums."""
        return 2 * self.n_rows if self.unit is None else MOST_ROWS

    @cached_property
    def n_coef(self) -> int:
        """Number p of encoded columns."""
        return len(self.columns)

    @cached_property
    def n_linear(self) -> int:
        """Number of coefficients: p for each linear predictor of the loss."""
        return self.n_coef * self.loss.n_outputs

    @cached_property
    def size(self) -> int:
        """Number q of parameters: that of coefficients, and 1 for a scale."""
        return self.n_linear + self.loss.has_scale

    @cached_property
    def ridge(self) -> FloatArray:
        """Second derivative of the ridge penalty, shape (size, size)."""
        weights = np.zeros(self.size)
        penalised = np.array(self.penalised, dtype=np.float64)
        weights[: self.n_linear] = self.l2 * np.tile(penalised, self.loss.n_outputs)
        return self.to_basis(np.diag(weights))

    @property
    def has_intercept(self) -> bool:
        """Whether the first column is a constant that the ridge leaves alone."""
        return not self.penalised[0]

    @property
    def has_levels(self) -> bool:
        """Whether some column besides the constant is known to hold only 0 and 1."""
        return any(known and free for known, free in zip(self.indicators, self.penalised, strict=False))

    @property
    def response_range(self) -> tuple[float, float]:
        """What encoded responses are moved into where only their size matters, for `marginals`."""
        if self.loss.target_kind == "binary":
            return (0.0, 1.0)
        declared = self._expected_response if self.response_bound is None else self.response_bound
        if self.loss.target_kind == "count":
            return (0.0, self.loss.count_bound if isinstance(self.loss, Poisson) else declared)
        return (-declared, declared)

    @property
    def _expected_response(self) -> float:
        """Size of a response without declared bounds: the unit scale, or where a loss of residuals bends."""
        loss, bend = self.loss, 0.0
        if isinstance(loss, SmoothedQuantile):
            bend = loss.width * UNIT_SCALE_RESPONSE / USUAL_WIDTH
        elif loss.of_residual and loss.symmetric and not loss.has_scale:
            bend = loss.constants.slope / loss.constants.curvature
        return max(UNIT_SCALE_RESPONSE, bend)

    @property
    def smoothness(self) -> float:
        """Largest eigenvalue that the Hessian times the scale can have, ridge excluded."""
        return self._largest_product("hessian", self.norm_bound)

    @property
    def ridged_smoothness(self) -> float:
        """Largest eigenvalue that the Hessian times the scale can have, ridge included."""
        return self.smoothness + float(np.abs(np.diag(self.ridge)).max(initial=0.0))

    @property
    def gradient_bound(self) -> float:
        """Largest norm that a row's gradient in the coefficients can have, ridge excluded."""
        bound = self.loss.constants.slope * self.norm_bound
        return bound if self.steep is None else bound * self.steep.part

    def ridged_gradient_bound(self, radius: float) -> float:
        """Return the largest norm of the objective's gradient, ridge included, within ``radius`` of 0."""
        return self.gradient_bound + self.l2 * radius

    @property
    def slope_bounds(self) -> SlopeBounds | None:
        """What holds gradients to `gradient_bound` where weights and the bound on slopes alone do not."""
        return None if self.steep is None else self.steep.bounds(self.loss, self.gradient_bound)

    @kept
    def query(self, kind: ReleaseKind) -> BoundedQuery:
        """Return the bounded query of a kind. Hessians are asked for multiplied by the scale.

        A bounded gradient is the mean of terms ``r * P'x`` of norm at most 1, see `bounded_gradient_kernel`.
        Marginals are means of the encoded columns, of their squares, and of the response and its square or
        the indicators of its classes, see the two `marginals_kernel`. Sizes are the shares of rows by the
        size of their gradient, see `sizes_kernel`; norms are the shares by their norm, see `norms_kernel`;
        counts are the shares by a response that is a count, see `counts_kernel`; exposures are the shares by
        the exposure, see `exposures_kernel`; residuals are the shares by the residual, see
        `residuals_kernel`; labels are the shares by the label, of two or more, see `labels_kernel`.

        A secant is the mean of ``(loss(b) - loss(a)) / norm(b - a)``, the slope of the loss between two
        points: its bound, and so its noise, does not depend on their distance.

        Raises
        ------
        Incompatible
            If a Hessian is asked of a loss that has none, or none that is a sum of positive parts.
        """
        if kind in MATRICES:
            return self._matrix_query(kind)
        constants = self.loss.constants
        summed = constants.slope * self.amplification
        if kind == "gradient":
            bound, side = self.gradient_bound, constants.scale_slope
            return BoundedQuery(kind, self.size, bound, side, summed, self._turned)
        if kind == "bounded_gradient":
            summed = self.amplification / self.norm_bound
            return BoundedQuery(kind, self.size, 1.0, constants.scale_slope, summed, self._turned)
        if kind in SHARES:
            return BoundedQuery(kind, CLASSES.get(kind, self.loss.n_outputs + 1), 1.0)
        if kind == "marginals":
            return self._marginals_query()
        return BoundedQuery(kind, 1, constants.slope * self.norm_bound, summed=summed)

    def _marginals_query(self) -> BoundedQuery:
        """Return that of parts with norm at most C: columns, squares, response and its square, or class.

        Columns and squares of two rows are at most ``sqrt(4.5) C`` apart, together (proved in
        docs/solvers/empirical-bayes.md), response and its square at most ``2 C``, classes ``sqrt(2) C``.
        """
        bound = self.norm_bound
        if isinstance(self.loss, Multinomial):
            size, apart = 2 * self.n_coef + self.loss.n_classes, math.sqrt(4.5 + 2.0)
            return BoundedQuery("marginals", size, math.sqrt(3.0) * bound, apart=apart * bound)
        return BoundedQuery("marginals", 2 * self.n_coef + 2, 2.0 * bound, apart=math.sqrt(4.5 + 4.0) * bound)

    @property
    def curvature(self) -> float:
        """Bound on the curvature of a row in a Hessian, times the scale."""
        bound = self.loss.constants.curvature
        return bound if self.most_curved is None else min(bound, self.most_curved)

    def _matrix_query(self, kind: ReleaseKind) -> BoundedQuery:
        if kind == "hessian":
            need_hessian(self.loss)
            if self.most_curved is not None and isinstance(self.loss, Multinomial):
                raise PlanViolation("curvatures of classes are not cut row by row")
        side = self.n_coef if kind == "second_moment" else self.size
        bound = self._largest_product(kind, self.norm_bound)
        if kind == "meat" and self.steep is not None:
            bound *= self.steep.part**2  # here alone: encoded, rows that are short here may be long
        return BoundedQuery(kind, side * (side + 1) // 2, bound, turned=self._turned)

    def _largest_product(self, kind: ReleaseKind, norm_bound: float) -> float:
        """Return a bound on the Frobenius norm of a row's term of a matrix, where rows have this norm."""
        if kind == "second_moment":
            return norm_bound**2
        constants = self.loss.constants
        if kind == "hessian":
            return self.curvature * (norm_bound**2 + constants.scale_direction**2)
        side = max(abs(t) for t in constants.scale_slope) ** 2
        return (constants.slope * norm_bound) ** 2 + side

    @property
    def _turned(self) -> int:
        """Order of the change of basis of a row, known or not; 0 in encoded coordinates."""
        return self.n_coef if self.amplification > 0.0 else 0

    @kept
    def _turns(self, kind: ReleaseKind) -> bool:
        """Return whether the sum of a matrix is turned afterwards, rather than every row.

        Sums of several classes, of functions of the user's own and over units turn their rows: their terms
        are made from turned ones.
        """
        own = kind != "second_moment" and (isinstance(self.loss, Multinomial) or not self.loss.compiled)
        if self.basis is None or own or (kind == "meat" and self.unit is not None):
            return False
        rounding = matrix_rounding(
            self._change(kind),
            n_rows=self.n_rows,
            most_rows=self.most_rows,
            term=self._largest_product(kind, self._longest_row),
            width=self.n_coef,
        )
        return rounding <= self.query(kind).room(self.relation, self.n_rows)

    @cached_property
    def _longest_row(self) -> float:
        """Bound on ``sqrt(w) * norm(x)`` of encoded rows."""
        if self.basis is None:
            return self.norm_bound
        return longest_row(self.basis, self.norm_bound, constant=self.has_intercept)

    def _change(self, kind: ReleaseKind) -> FloatArray:
        """Return the change of basis of a matrix of a kind."""
        assert self.basis is not None  # noqa: S101 -- asked in other coordinates only
        return self.basis if kind == "second_moment" else self._full_basis

    def row_basis(self, kind: ReleaseKind) -> FloatArray | None:
        """Return the coordinates in which rows enter the sum of a matrix; None for the encoded ones."""
        return None if self._turns(kind) else self.basis

    @kept
    def sensitivity(self, kind: ReleaseKind, *, pure: bool = False) -> float:
        """Return the sensitivity of the mean that a query of this kind asks for, see `BoundedQuery`."""
        query = self.query(kind)
        return query.sensitivity(self.relation, self.n_rows, pure=pure, most_rows=self.most_rows)

    def sum_length(self, kind: ReleaseKind) -> int:
        """Return the length of the flat sum that the kernel of a kind produces."""
        side = self.n_coef if kind == "second_moment" else self.size
        return side * side if kind in MATRICES else self.query(kind).size

    def mean(self, kind: ReleaseKind, total: FloatArray) -> FloatArray:
        """Return the mean of a flat sum over the rows, in the coordinates of the parameter.

        A gradient is turned after the sum, and so are matrices where rounding allows; else their rows are.
        """
        mean = total / self.n_rows
        if kind in ("secant", "marginals", *SHARES):
            return mean
        if kind not in ("gradient", "bounded_gradient"):
            side = round(math.sqrt(mean.size))
            matrix = mean.reshape(side, side)
            return self._change(kind).T @ matrix @ self._change(kind) if self._turns(kind) else matrix
        if self.basis is None:
            return mean
        rows = turned_rows(mean[: self.n_linear].reshape(-1, self.n_coef), self.basis)
        return np.concatenate([rows.ravel(), mean[self.n_linear :]])

    def to_basis(self, matrix: FloatArray) -> FloatArray:
        """Return a matrix of shape (size, size) in the basis; a scale keeps its coordinate."""
        return matrix if self.basis is None else self._full_basis.T @ matrix @ self._full_basis

    @cached_property
    def _full_basis(self) -> FloatArray:
        """The change of basis of the parameter, shape (size, size)."""
        assert self.basis is not None  # noqa: S101 -- asked in other coordinates only
        full = np.eye(self.size)
        full[: self.n_linear, : self.n_linear] = self.each_output(self.basis)
        return full

    def each_output(self, matrix: FloatArray) -> FloatArray:
        """Return the matrix (n_linear, n_linear) that applies one of shape (p, p) for each predictor."""
        return for_each(self.loss.n_outputs, matrix)

    def bounded_by(self, norm: float, amplification: float, basis: FloatArray | None = None) -> "Problem":
        """Return the problem in other coordinates; without a basis in ones not yet known, for planning."""
        return replace(self, norm_bound=norm, amplification=amplification, basis=basis)

    def coefficients(self, phi: FloatArray) -> FloatArray:
        """Return the coefficients of the encoded columns, shape (n_linear,)."""
        part = phi[: self.n_linear]
        return part if self.basis is None else (part.reshape(-1, self.n_coef) @ self.basis.T).ravel()

    def split(self, parameter: FloatArray) -> tuple[FloatArray, float]:
        """Return ``(coefficients in the basis (n_linear,), scale)``; the scale is 1 for most losses."""
        scale = float(parameter[-1]) if self.loss.has_scale else 1.0
        return parameter[: self.n_linear], scale
