"""The regression that is planned: a model and what it is of."""

from dataclasses import dataclass
from typing import Self, final

from privfit.data.encode import AbstractEncoder
from privfit.data.schema import Schema
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.models import Model, model_of
from privfit.estimators.rehearsal import Rehearsal
from privfit.estimators.scales import OpenBounds
from privfit.losses.base import AbstractLoss
from privfit.terms.encoder import encoder_of


@final
@dataclass(frozen=True, slots=True)
class PlannedRegression:
    """A model and what it is of: a formula, or a response and all other columns, and exposures."""

    model: Model
    formula: str | None
    target: str | None
    exposure: str | None

    @classmethod
    def of(
        cls,
        formula: str | None,
        model: str | AbstractLoss,
        target: str | None,
        exposure: str | None,
        **constants: float | None,
    ) -> Self:
        """Return it, or raise `InvalidArgument` if arguments do not go together; see `privfit.plan`."""
        regression = model_of(model, **constants)
        if formula is not None and target is not None:
            raise InvalidArgument("target is named by the formula; leave it out")
        if exposure is not None and regression.target_kind != "count":
            raise InvalidArgument("exposure goes with model='poisson'; leave it out")
        return cls(regression, formula, target, exposure)

    def encoder(self, schema: Schema) -> AbstractEncoder:
        """Return what encodes its rows by a schema."""
        return encoder_of(schema, self.formula, self.target, self.model.target_kind)

    def rehearsal(self, schema: Schema, assumptions: Assumptions, bounds: OpenBounds | None) -> Rehearsal:
        """Return what fits it to stand-in rows."""
        return Rehearsal.prepare(self.model, self.encoder, schema, assumptions, bounds)
