"""Scales of columns that a fit buys with a part of its budget, before it is planned."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, final

from privfit._checks import in_range, positive
from privfit._sealed import sealed, withholding
from privfit.data.declarations import NumericColumn
from privfit.data.draft import Draft
from privfit.data.encode import AbstractEncoder, SchemaEncoder
from privfit.data.schema import Schema, SchemaLike, as_schema
from privfit.data.stores import AbstractRowStore
from privfit.data.stream import RowStream
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import FormulaError, InvalidArgument, TooLittleData
from privfit.estimators.look import Look, look_at, planned_look
from privfit.estimators.models import Model
from privfit.estimators.objective import plan_fit
from privfit.estimators.opened import OpenedRows, RawRows, stored_problem
from privfit.estimators.options import BoughtBounds, FitOptions
from privfit.estimators.reserved import check_affordable
from privfit.privacy.allowance import Allowance
from privfit.results.form import LearnedRange

PRIVATE = "private"
"""What ``scale`` is where scales are bought."""


def residual_scale(scale: object) -> float | None:
    """Return the public scale of residuals that ``scale`` can be instead of text; None if it is not."""
    return None if scale is None or isinstance(scale, str) else positive(scale=scale)


def bought_share(scale: object, share: float) -> float | None:
    """Return the part of the budget for scales; None where none are bought."""
    part = in_range(0.0, 1.0, closed="neither", scale_share=share)
    if scale is None:
        return None
    if not isinstance(scale, str) or scale != PRIVATE:
        raise InvalidArgument(f"scale must be None or {PRIVATE!r} (of Huber's loss also a number)")
    return part


@final
@dataclass(frozen=True, slots=True)
class OpenBounds:
    """Columns whose bounds a fit learns.

    Parameters
    ----------
    draft : Draft
    share : float
        Part of the budget by which it does.
    """

    draft: Draft
    share: float

    @classmethod
    def of(
        cls,
        schema: SchemaLike,
        share: float,
        *,
        unit: str | None,
        weights: str | None,
        exposure: str | None = None,
    ) -> Self:
        """Return the bounds that a schema leaves open.

        Raises
        ------
        InvalidArgument
            If there are none.
        SchemaError
            If it is no draft, or those of the privacy unit, the weights or the exposures are open.
        """
        draft = Draft.of(schema)
        if not draft.unbounded:
            raise InvalidArgument(
                f"scale={PRIVATE!r}: no numeric column of the schema lacks lower or upper; leave scale out"
            )
        draft.check_roles(unit=unit, weights=weights, exposure=exposure)
        return cls(draft, share)

    def allowance(self, options: FitOptions) -> Allowance:
        """Return what may be spent on them."""
        return options.allowance.split([self.share, 1.0 - self.share])[0]

    def read_by(self, encoder: AbstractEncoder) -> tuple[str, ...]:
        """Return the columns without bounds that an encoder reads."""
        return tuple(name for name in self.draft.unbounded if name in encoder.needed)


def scales_of(scale: object, share: float) -> tuple[float | None, float | None]:
    """Return the public scale of residuals that ``scale`` is, or the part of the budget that buys scales."""
    residual = residual_scale(scale)
    return residual, bought_share(scale if residual is None else None, share)


def outlined(
    schema: SchemaLike,
    share: float | None,
    *,
    unit: str | None,
    weights: str | None,
    exposure: str | None = None,
) -> tuple[Schema, OpenBounds | None]:
    """Return the schema of a fit with its roles, and what it learns by a part of its budget, if there is one.

    Raises
    ------
    InvalidArgument, SchemaError
        As `OpenBounds.of`, and if the schema does not allow the roles.
    """
    bounds = None
    if share is not None:
        bounds = OpenBounds.of(schema, share, unit=unit, weights=weights, exposure=exposure)
    return declared(schema, bounds).with_roles(unit=unit, weights=weights, exposure=exposure), bounds


def declared(schema: SchemaLike, bounds: OpenBounds | None) -> Schema:
    """Return a schema, with the widest bounds that can come out in place of open ones."""
    return as_schema(schema if bounds is None else bounds.draft.outline)


@sealed
def bought_schema(
    model: Model,
    encoder_of: Callable[[Schema], AbstractEncoder],
    raw: RawRows,
    options: FitOptions,
    bounds: OpenBounds,
) -> tuple[AbstractEncoder, FitOptions]:
    """Return the encoder of a fit within the bounds that a draft lacks, and the options of the fit.

    Only those of the columns that it reads are bought, others keep the widest.

    Parameters
    ----------
    model : Model
    encoder_of : callable
        Returns the encoder by a schema.
    raw : Table, RowStream or AbstractRowStore
    options : FitOptions
        Their schema is the outline of the draft, with its roles.
    bounds : OpenBounds

    Raises
    ------
    TooLittleData, FormulaError
        If noise hides the bounds of a column, or a term has none or is constant within them. What was looked
        at is then spent.
    PrivfitError
        Another named subclass, as `privfit.estimators.fit.fit` does before it spends.
    """
    outline = options.schema
    assert outline is not None  # noqa: S101 -- the caller has made it
    encoder = encoder_of(outline)
    names = bounds.read_by(encoder)
    if not names:
        return encoder, options
    _check(model, encoder, raw, options, names=names, allowance=bounds.allowance(options))
    rough = look_encoder(bounds.draft, names, outline)
    completed, fitted = _bought(bounds, names, rough, raw, options)
    schema = with_roles_of(outline, completed.outline)
    try:
        return encoder_of(schema), replace(fitted, schema=schema)
    except FormulaError as error:
        raise FormulaError(
            f"{error}; learned, at a cost that is spent, was {ranges_in_words(completed, names)}"
        ) from None


@sealed
def bought_scales(
    model: Model, encoder: UnitScaleEncoder, raw: RawRows, options: FitOptions, share: float
) -> tuple[UnitScaleEncoder, FitOptions]:
    """Return an encoder within learned bounds in place of one without, and the options of the fit.

    A numeric response is looked at as well, and what is true or false is not. Parameters and errors as in
    `bought_schema`, and if there is nothing to look at.
    """
    facts = encoder.facts
    looked = (*facts.numbers, facts.target) if facts.target_kind == "numeric" else facts.numbers
    if not looked:
        raise InvalidArgument(f"scale={PRIVATE!r}: X has no column of numbers; leave scale out")
    draft = Draft.of({name: {"type": "numeric"} for name in looked})
    bounds = OpenBounds(draft, share)
    outline = _within(encoder, draft.outline, intercept=facts.intercept)
    _check(model, outline, raw, options, names=draft.unbounded, allowance=bounds.allowance(options))
    of_numbers = replace(facts, names=facts.numbers, truths=()).encoder()
    rough = _within(of_numbers, draft.stand_in, intercept=True)
    completed, fitted = _bought(bounds, draft.unbounded, rough, raw, options)
    return _within(encoder, Schema(completed.declarations), intercept=facts.intercept), fitted


@withholding
def _check(
    model: Model,
    encoder: AbstractEncoder,
    raw: RawRows,
    options: FitOptions,
    *,
    names: Sequence[str],
    allowance: Allowance,
) -> None:
    """Raise what a fit does before it spends, so that nothing is spent on looks at these columns either.

    Rows of a store are not encoded for that, and a stream is refused later on.
    """
    if isinstance(raw, RowStream):
        return
    if isinstance(raw, AbstractRowStore):
        problem = stored_problem(model, encoder, raw, options)
    else:
        opened = OpenedRows.of(model, encoder, raw, options)
        problem = opened.problem
        opened.ready()
    look = planned_look(problem, names, allowance)
    plan = plan_fit(problem, replace(options, before=look.releases))
    check_affordable(plan, options, before=look)


def _within(encoder: UnitScaleEncoder, schema: Schema, *, intercept: bool) -> UnitScaleEncoder:
    """Return the encoder within the bounds of a schema."""
    facts = encoder.facts
    numbers = {name: column for name, column in schema.items() if isinstance(column, NumericColumn)}
    numbers |= {name: NumericColumn(0.0, 1.0) for name in facts.truths}
    within = tuple(numbers[name] for name in facts.names)
    return replace(facts, within=within, response=numbers.get(facts.target), intercept=intercept).encoder()


def _bought(
    bounds: OpenBounds,
    names: tuple[str, ...],
    encoder: SchemaEncoder | UnitScaleEncoder,
    raw: RawRows,
    options: FitOptions,
) -> tuple[Draft, FitOptions]:
    """Look at some unbounded columns of a draft; return it with bounds, and the options of the fit."""
    look = look_at(encoder, raw, options, names, bounds.allowance(options))
    return learned_by(look, bounds.draft, names, options)


def look_encoder(draft: Draft, names: Sequence[str], outline: Schema) -> SchemaEncoder:
    """Return the encoder by which unbounded columns of a draft are looked at, the last as the response."""
    *first, last = names
    return SchemaEncoder(with_roles_of(outline, draft.stand_in), target=last, columns=first)


def with_roles_of(outline: Schema, schema: Schema) -> Schema:
    """Return a schema with the roles of another one."""
    return schema.with_roles(unit=outline.unit, weights=outline.weight, exposure=outline.exposure)


def learned_by(
    look: Look, draft: Draft, names: Sequence[str], options: FitOptions
) -> tuple[Draft, FitOptions]:
    """Return the draft with the bounds that a look shows, and the options of the fit that follows.

    Raises
    ------
    TooLittleData
        If a column has none.
    """
    completed = draft.completed(look.bounds(draft))
    lacking = [name for name in names if name in completed.unbounded]
    if lacking:
        known = [name for name in names if name not in lacking]
        rest = f". Learned, at a cost that is spent, was {ranges_in_words(completed, known)}" if known else ""
        raise TooLittleData(f"scale={PRIVATE!r}: {_reasons(lacking, look)}{rest}")
    bought = BoughtBounds(look.releases, look.source, _ranges(completed, names))
    return completed, replace(options, before=look.plan.releases, bought=bought)


def _reasons(lacking: Sequence[str], look: Look) -> str:
    """Say why columns have no bounds, and what to do."""
    hidden = ", ".join(repr(name) for name in lacking if name not in look.found)
    empty = ", ".join(repr(name) for name in lacking if name in look.found)
    reasons = []
    if hidden:
        reasons.append(
            f"noise hides where the values of {hidden} lie, or shows none but 0; declare bounds in a schema, "
            "or give more budget or a larger scale_share; a column of 0 and 1 needs no bounds if its type is "
            "bool, or a schema declares its levels"
        )
    if empty:
        reasons.append(
            f"the values of {empty} are all the same, or beyond the bound that is declared, as far as noise "
            "lets it be seen; check the bound and the unit, or leave the column out"
        )
    return "; ".join(reasons)


def _ranges(draft: Draft, names: Sequence[str]) -> tuple[LearnedRange, ...]:
    entries = [(name, draft.declarations[name]) for name in names]
    return tuple(LearnedRange(name, float(one["lower"]), float(one["upper"])) for name, one in entries)


def ranges_in_words(draft: Draft, names: Sequence[str]) -> str:
    """Say what the bounds of some columns of a draft are."""
    ranges = _ranges(draft, names)
    return ", ".join(f"{one.name!r} from {one.lower:g} to {one.upper:g}" for one in ranges)
