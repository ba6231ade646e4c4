"""How rows count in a fit of an estimator: from its arguments and schema, and what is given beside rows."""

from dataclasses import dataclass
from typing import Any

from privfit._checks import positive
from privfit.data.columns import ColumnValues, holds_text
from privfit.data.declarations import NumericColumn
from privfit.data.schema import Schema
from privfit.data.shares import ShareRule
from privfit.data.tables import Table, single_column
from privfit.errors import Incompatible, InvalidArgument, SchemaError

GROUPS, SAMPLE_WEIGHT = "groups", "sample_weight"


@dataclass(frozen=True, slots=True, repr=False)
class Beside:
    """Private: identifiers and survey weights that were given beside the rows, one for each row, or None."""

    groups: Any
    sample_weight: Any

    @property
    def columns(self) -> list[tuple[str, ColumnValues]]:
        """What was given, as columns of a table."""
        given = ((GROUPS, self.groups), (SAMPLE_WEIGHT, self.sample_weight))
        columns = [(name, single_column(name, values)) for name, values in given if values is not None]
        if any(name == SAMPLE_WEIGHT and holds_text(values) for name, values in columns):
            raise SchemaError("sample_weight is of a type that holds text; convert it to numbers")
        return columns

    def refuse_store(self) -> None:
        """Raise if anything was given beside rows that are encoded where they lie."""
        for name, given, argument in (
            (GROUPS, self.groups, "unit"),
            (SAMPLE_WEIGHT, self.sample_weight, "weights"),
        ):
            if given is not None:
                raise Incompatible(
                    f"{name}: what goes with the rows of a cache or cluster is in a column of theirs; "
                    f"name it with {argument}="
                )

    def join(self, table: Table) -> Table:
        """Return a table with these columns, too."""
        beside = self.columns
        if not beside:
            return table
        if any(len(values) != table.n_rows for _, values in beside):
            raise SchemaError("sample_weight and groups must be as long as X")
        return table.joined(beside)


def with_roles(
    schema: Schema | None, *, unit: str | None, weights: str | None, exposure: str | None, beside: Beside
) -> Schema | None:
    """Return the schema that marks the columns that were named, and those that were given beside.

    Raises
    ------
    SchemaError or InvalidArgument
        If one is named twice, or there is no schema that says where to find it.
    """
    if schema is None:
        if unit is not None or weights is not None:
            raise InvalidArgument(
                "unit and weights name columns of a table with a schema; without one, "
                "give fit(X, y, groups=...) and fit(X, y, sample_weight=...)"
            )
        if exposure is not None:
            raise InvalidArgument("exposure names a column of a table with a schema; give schema too")
        return None
    marked = schema.with_roles(unit=unit, weights=weights, exposure=exposure)
    if beside.groups is not None:
        if marked.unit is not None:
            raise InvalidArgument(f"groups: the privacy unit is {marked.unit!r}; leave one of them out")
        marked = marked.with_roles(unit=GROUPS)
    if beside.sample_weight is not None and marked.weight is not None:
        raise InvalidArgument(f"sample_weight: the weights are {marked.weight!r}; leave one of them out")
    return marked


def arguments_of(rule: ShareRule) -> str:
    """Return the names of the arguments that a rule is from, for messages about them."""
    names = []
    if rule.unit is not None:
        names.append("groups" if rule.unit == GROUPS else "unit")
    if rule.weights is not None:
        names.append("sample_weight" if rule.weights[0] == SAMPLE_WEIGHT else "weights")
    return " and ".join(names)


def share_rule(
    schema: Schema | None, rows_per_unit: int, weight_bound: float | None, beside: Beside
) -> ShareRule:
    """Return the public rule for how much each row counts."""
    bound = None if weight_bound is None else positive(weight_bound=weight_bound)
    if schema is not None:
        rule = ShareRule.of(schema, rows_per_unit)
    else:
        rule = ShareRule(None if beside.groups is None else GROUPS, rows_per_unit)
    if beside.sample_weight is None:
        if bound is not None and rule.weights is not None:
            raise InvalidArgument(
                f"weight_bound goes with fit(X, y, sample_weight=...); that of {rule.weights[0]!r} is the "
                "upper bound that the schema declares, so leave it out"
            )
        return rule
    if bound is None:
        raise InvalidArgument(
            "weight_bound is needed with sample_weight: a public number that no weight is expected to exceed"
        )
    column = NumericColumn(0.0, bound, weight=True)
    return ShareRule(rule.unit, rows_per_unit, (SAMPLE_WEIGHT, column))
