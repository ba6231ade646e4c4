"""The rows of a fit: counted, checked for their form before anything is spent, and then encoded."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, TypeAlias, final

import numpy as np

from privfit.data.coded import Storage, storage_of
from privfit.data.csv_text import TextForm
from privfit.data.elsewhere import as_store
from privfit.data.encode import AbstractEncoder, predictors_as
from privfit.data.shares import RowShares
from privfit.data.source import MOST_ROWS, ArraySource, RowSource
from privfit.data.stores import AbstractRowStore, AbstractStoredRows
from privfit.data.stream import RowStream
from privfit.data.tables import NO_ROW, Table, open_table
from privfit.errors import Incompatible, InvalidArgument, SchemaError
from privfit.estimators.models import Model
from privfit.estimators.objective import make_problem, weighting_of
from privfit.estimators.options import FitOptions, public_rows
from privfit.estimators.shares import arguments_of
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.solvers import NonPrivate

RawRows: TypeAlias = Table | RowStream | AbstractRowStore
"""What a fit can be made of."""


@final
@dataclass(frozen=True, slots=True, repr=False)
class OpenedRows:
    """Private: rows that are counted, and the public problem that follows.

    Parameters
    ----------
    encoder : AbstractEncoder
    options : FitOptions
    problem : Problem
    table : Table, RowStream or AbstractStoredRows
    shares : RowShares or None
        Which unit each row belongs to and how much it counts; None if all count alike.
    """

    encoder: AbstractEncoder
    options: FitOptions
    problem: Problem
    table: Table | RowStream | AbstractStoredRows
    shares: RowShares | None

    @classmethod
    def of(cls, model: Model, encoder: AbstractEncoder, raw: RawRows, options: FitOptions) -> Self:
        """Count the rows, or raise where there are none, too few, or more than the options allow to read."""
        if isinstance(raw, RowStream):
            refuse_many_passes(options)
        if encoder.design.target.exposure is not None and isinstance(raw, RowStream):
            raise Incompatible(
                "exposure: a stream of rows does not keep exposures; pass a table or a RowCache"
            )
        table = _stored(model, encoder, raw, options) if isinstance(raw, AbstractRowStore) else raw
        shares = _shares(table, options)
        n_units = _count_units(table, shares)
        if n_units == 0 and Relation(options.relation) is Relation.REPLACE:
            nobody = f"unit: no row has an identifier in {options.shares.unit!r}, so there is nobody to count"
            raise SchemaError(NO_ROW if table.n_rows == 0 else nobody)
        problem = make_problem(model, encoder.design, options, n_rows=public_rows(n_units, options))
        return cls(encoder, options, problem, table, shares)

    def ready(self) -> Callable[[], RowSource]:
        """Return what bounds the rows, after a look at their form: what it finds wrong costs no budget.

        The form is what a table without rows would have, too, and that all labels are declared. Whatever else
        depends on cells comes after the reservation. The rows of a stream are read later still.
        """
        encoder, table, problem, shares = self.encoder, self.table, self.problem, self.shares
        storage = _storage(problem, self.options)
        if isinstance(table, AbstractStoredRows):
            kept = table.source(norm_bound=problem.norm_bound, storage=storage)
            return lambda: _centered(kept, problem)
        weighting = weighting_of(problem)
        if isinstance(table, RowStream):
            stream = table.source(encoder, norm_bound=problem.norm_bound, weighting=weighting)
            return lambda: stream
        none = table.part(slice(0, 0))
        encoder.encode_predictors(none)
        encoder.encode_response(none)
        labels = None if encoder.design.target.labels is None else encoder.encode_target(table)

        def encoded() -> RowSource:
            with np.errstate(all="ignore"):  # a warning would depend on cells
                x = predictors_as(encoder, table, storage)
                y, offset = encoder.encode_response(table) if labels is None else (labels, None)
                rows = ArraySource(
                    x, y, norm_bound=problem.norm_bound, weighting=weighting, shares=shares, offset=offset
                )
            return _centered(rows, problem)

        return encoded


def columns_read(encoder: AbstractEncoder, options: FitOptions) -> tuple[str, ...]:
    """Return the names of the raw columns that a fit reads, the response last."""
    return options.shares.beside(encoder.read)


def rows_of(data: object, encoder: AbstractEncoder, options: FitOptions, text: TextForm) -> RawRows:
    """Return the rows that an encoder and the shares of rows need, from whatever holds them."""
    if isinstance(data, RowStream):
        return data
    store = as_store(data, columns=text.columns)
    if store is not None:
        return store
    return open_table(
        data, needed=columns_read(encoder, options), columns=text.columns, header=text.header, sep=text.sep
    )


def refuse_many_passes(options: FitOptions) -> None:
    """Raise unless a fit reads every row once, as a stream allows."""
    if not options.method.one_pass:
        raise Incompatible("solver: a stream of rows is read once; use solver=OnlineToBatch()")
    if options.inference:
        raise Incompatible(
            "inference: a stream of rows is read once, and standard errors need another pass; "
            "fit with inference=False"
        )
    if not options.shares.plain:
        raise Incompatible(
            f"{arguments_of(options.shares)}: a stream of rows is read once, so that the rows of a unit "
            "cannot be gathered and survey weights are not read; pass a table"
        )


def stored_problem(
    model: Model, encoder: AbstractEncoder, store: AbstractRowStore, options: FitOptions
) -> Problem:
    """Return the public problem of rows that are not encoded yet, and perhaps not counted."""
    known = store.n_rows or options.n_rows
    return make_problem(model, encoder.design, options, n_rows=public_rows(known or MOST_ROWS, options))


def _stored(
    model: Model, encoder: AbstractEncoder, store: AbstractRowStore, options: FitOptions
) -> AbstractStoredRows:
    """Return the rows of a store, encoded where they lie, once public facts allow the fit."""
    known, problem = store.n_rows or options.n_rows, stored_problem(model, encoder, store, options)
    return store.rows(
        encoder,
        norm_bound=problem.norm_bound,
        weighting=weighting_of(problem),
        storage=_storage(problem, options) if known else "float64",
        shares=options.shares,
    )


def _centered(rows: RowSource, problem: Problem) -> RowSource:
    """Return the rows with the logarithms of their exposures about that which a constant makes up for."""
    exposure = problem.exposure
    if exposure is None:
        return rows
    return rows.exposed(-exposure.center(constant=bool(problem.constant)), math.inf)


def _shares(table: Table | RowStream | AbstractStoredRows, options: FitOptions) -> RowShares | None:
    """Return which unit each row belongs to and how much it counts; None if all count alike."""
    if not isinstance(table, Table) or options.shares.plain:
        return None
    if table.n_rows > MOST_ROWS:
        raise InvalidArgument(f"data must have at most {MOST_ROWS} rows")
    with np.errstate(all="ignore"):  # a warning would depend on cells
        return options.shares.shares_of(table)


def _count_units(table: Table | RowStream | AbstractStoredRows, shares: RowShares | None) -> int:
    """Return the number of privacy units."""
    if isinstance(table, AbstractStoredRows):
        return table.n_units
    return table.n_rows if shares is None else shares.n_units


def _storage(problem: Problem, options: FitOptions) -> Storage:
    """Return the type that numbers of the rows are kept in."""
    return storage_of(problem.n_rows, private=not isinstance(options.method, NonPrivate))
