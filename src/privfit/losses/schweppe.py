"""Schweppe's weighting of a loss of residuals."""

from dataclasses import dataclass
from typing import ClassVar, final

from privfit.errors import Incompatible, InvalidArgument
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind


@final
@dataclass(frozen=True, slots=True)
class Schweppe(AbstractLoss):
    """``loss(v(x) (y - x'theta))`` with ``v(x) = min(1, C / norm(x))``, where others take ``w(x) loss``.

    Rows longer than the norm bound ``C`` are scaled to it, response included, so that a point far out in the
    predictors keeps its influence as long as its residual is small (Merrill and Schweppe 1971; Hampel,
    Ronchetti, Rousseeuw and Stahel 1986, *Robust Statistics*, section 6.3; Avella-Medina, Bradshaw and Loh
    2023, section 4.3). Where a schema bounds every row it changes nothing.

    The default solver weights rows by Mallows in its own coordinates, after this.

    Parameters
    ----------
    loss : AbstractLoss
        Of the residual alone: `Huber`, `Squared`, `SmoothedHuber`, `LogCosh`, `PseudoHuber`,
        `SelfConcordantHuber`, `Quantile` or `SmoothedQuantile`.

    Notes
    -----
    The constants are those of the loss. A loss that is (gamma, 2)-self-concordant gives an objective that is
    (gamma * C, 2)-self-concordant, for all rows, not only for those within the bound.

    Examples
    --------
    >>> from privfit.losses import Huber
    >>> Schweppe(Huber(0.5)).name
    'Schweppe(Huber(threshold=0.5))'
    """

    loss: AbstractLoss
    scales_rows: ClassVar[bool] = True
    of_residual: ClassVar[bool] = True
    target_kind: ClassVar[TargetKind] = "numeric"

    def __post_init__(self) -> None:
        if not isinstance(self.loss, AbstractLoss):
            raise InvalidArgument("loss must be one of privfit.losses")
        if not self.loss.of_residual or self.loss.scales_rows:
            raise Incompatible(
                f"loss: Schweppe weights need a loss of the residual y - x'theta alone, and {self.loss.name} "
                "is not; use Huber, PseudoHuber or another of them, or no wrapper for Mallows weights"
            )

    @property
    def name(self) -> str:
        """Name with that of the loss."""
        return f"Schweppe({self.loss.name})"

    @property
    def functions(self) -> ScalarFunctions:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Those of the loss; rows come scaled."""
        return self.loss.functions

    @property
    def constants(self) -> LossConstants:
        """Those of the loss."""
        return self.loss.constants

    @property
    def parameters(self) -> tuple[float, float]:
        """Those of the loss."""
        return self.loss.parameters

    @property
    def smoothed(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """That of the loss."""
        return self.loss.smoothed

    @property
    def slack(self) -> tuple[float, float]:
        """That of the loss."""
        return self.loss.slack

    @property
    def bend(self) -> float:
        """That of the loss."""
        return self.loss.bend

    def span(self, radius: float) -> float:
        """Return the loss's."""
        return self.loss.span(radius)
