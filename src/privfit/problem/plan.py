"""The plan: every release, its sensitivity and its share of the budget, fixed before a row is read."""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from privfit._checks import FloatArray, RelationName
from privfit.privacy.composition import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
)

ReleaseKind: TypeAlias = Literal[
    "gradient",
    "hessian",
    "second_moment",
    "meat",
    "secant",
    "marginals",
    "bounded_gradient",
    "sizes",
    "norms",
    "counts",
    "residuals",
    "labels",
    "exposures",
    "minimiser",
    "perturbed_minimiser",
    "draw",
    "walk",
    "stream",
    "moments",
    "eigenvalue",
    "clipped_gradient",
    "places",
]
"""What is released. The first thirteen are means over the rows (see `Problem.query`), the others outcomes of
procedures (see `AbstractProcedure`)."""

SHARES = ("sizes", "norms", "counts", "residuals", "labels", "exposures")
"""Means of indicators of classes; those of different classes are orthogonal."""

_WITHOUT_LOSS = (*SHARES, "second_moment", "marginals", "moments", "eigenvalue", "places")
"""Kinds that are the same whatever is minimised."""

_IN_L1 = (*SHARES, "places")
"""Kinds whose pure releases have independent Laplace noise: few of the numbers are a row's."""


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """One noisy answer that a fit will ask for.

    Parameters
    ----------
    kind : str
        What is released.
    size : int
        Length of the released vector; for a symmetric (p, p) matrix ``p * (p + 1) / 2``.
    sensitivity : float
        L2 sensitivity of what noise is added to (Frobenius norm for matrices), in its unit; L1 sensitivity
        where ``in_l1``.
    mu : float
        Cost of a Gaussian release: it is mu-GDP. ``inf`` for others, and in a plan without privacy.
    sd : float
        Standard deviation of the noise per coordinate (matrices: per diagonal entry, off the diagonal
        ``sd / sqrt(2)``). 0 without noise, and where noise is not added to the outcome. For a walk, that of
        every step, as is the sensitivity.
    epsilon : float or None
        Cost of a pure release: it is epsilon-differentially private.
    sampled : SampledGaussianEvent or None
        Cost of a walk of noisy steps on sampled rows.
    delta : float
        With ``epsilon``, the cost of a release that is (epsilon, delta)-differentially private; 0 if pure.
    """

    kind: ReleaseKind
    size: int
    sensitivity: float
    mu: float
    sd: float
    epsilon: float | None = None
    sampled: SampledGaussianEvent | None = None
    delta: float = 0.0

    @property
    def in_l1(self) -> bool:
        """Whether the noise is independent Laplace noise, as in pure releases of shares of rows."""
        return self.epsilon is not None and self.kind in _IN_L1

    @property
    def private(self) -> bool:
        """False without noise."""
        return self.sampled is not None or self.epsilon is not None or math.isfinite(self.mu)

    @property
    def event(self) -> Event | None:
        """What the release costs; None without noise."""
        if self.sampled is not None:
            return self.sampled
        if self.epsilon is not None:
            return ApproximateEvent(self.epsilon, self.delta) if self.delta > 0 else PureEvent(self.epsilon)
        return GaussianEvent(self.mu) if self.private else None


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a fit will ask of the rows. Made from public facts and the budget alone.

    Parameters
    ----------
    model : str
        Name of the loss, with its constants.
    solver : str
        Name of the solver, with its configuration.
    n_rows : int
        Public number of rows, or of privacy units; under ``add_remove`` the caller's public scale.
    columns : tuple of str
        Labels of the encoded parameters.
    relation : {"replace", "add_remove"}
        Neighbouring relation of the guarantee.
    mu : float
        Total mu-GDP cost of all releases: ``sqrt(sum(mu_k**2))``; ``inf`` unless all are Gaussian.
    solver_releases, inference_releases : tuple of PlannedRelease
        In the order in which they will be asked.
    unit : str or None
        Name of the column that identifies the privacy unit; None if every row is one.
    rows_per_unit : int
        Rows of a unit up to which all rows count alike; see `privfit.data.shares.ShareRule`.
    weights : str or None
        Name of the column of survey weights.
    exposure : str or None
        Name of the column of exposures over which counts were gathered.
    """

    model: str
    solver: str
    n_rows: int
    columns: tuple[str, ...]
    relation: RelationName
    mu: float
    solver_releases: tuple[PlannedRelease, ...]
    inference_releases: tuple[PlannedRelease, ...]
    unit: str | None = None
    rows_per_unit: int = 1
    weights: str | None = None
    exposure: str | None = None

    @property
    def releases(self) -> tuple[PlannedRelease, ...]:
        """All releases, the solver's first."""
        return self.solver_releases + self.inference_releases

    @property
    def private(self) -> bool:
        """False for a plan with an answer without noise."""
        return all(release.private for release in self.releases)

    @property
    def of_loss(self) -> bool:
        """True where a release rests on the loss, and so on what it cuts; sums of products do not."""
        return any(release.kind not in _WITHOUT_LOSS for release in self.releases)

    @property
    def noise(self) -> str:
        """The laws of the noise, in words."""
        gaussian = [release.sampled is not None or math.isfinite(release.mu) for release in self.releases]
        if all(gaussian):
            return "discrete Gaussian noise"
        return "discrete Gaussian and other noise" if any(gaussian) else "noise that is not Gaussian"

    @property
    def events(self) -> tuple[Event, ...]:
        """What the releases cost, one event each."""
        return tuple(event for release in self.releases if (event := release.event) is not None)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready types."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Plan":
        """Rebuild a plan from `to_dict`'s output, as read back from JSON."""
        fields = dict(data)
        fields["columns"] = tuple(fields["columns"])
        for key in ("solver_releases", "inference_releases"):
            fields[key] = tuple(_release_from(release) for release in fields[key])
        return cls(**fields)


def _release_from(data: dict[str, Any]) -> PlannedRelease:
    sampled = data.get("sampled")
    return PlannedRelease(**{**data, "sampled": None if sampled is None else SampledGaussianEvent(**sampled)})


@dataclass(frozen=True, slots=True)
class Release:
    """A noisy answer that left the oracle.

    Parameters
    ----------
    planned : PlannedRelease
        The entry of the plan that it used up.
    at : array of shape (p,)
        Parameter at which it was asked (public: it comes from earlier releases).
    value : array
        Vector of shape (size,), or symmetric matrix of shape (p, p).
    part : float
        Chance with which a row was in the sample that was asked; 1 for all rows.
    """

    planned: PlannedRelease
    at: FloatArray
    value: FloatArray
    part: float = 1.0

    @property
    def sd(self) -> float:
        """Standard deviation of the noise in an entry of ``value``, see `PlannedRelease.sd`."""
        return self.planned.sd / self.part
