"""Bounds of columns that were learned with privacy."""

import os
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd

from privfit.data.draft import Draft
from privfit.data.schema import Schema
from privfit.errors import TooLittleData
from privfit.problem.plan import Plan
from privfit.results.printer import Column
from privfit.results.statement import PrivacyStatement
from privfit.results.summary import AbstractTable, Summary, counting, rows_of

_READING = (
    "Bounds hold nearly all rows, as far as noise lets them be seen; a fit clamps what lies beyond them."
)

_RELEASED = "They are released numbers: use them, and publish them, as often as you like."

_UNSEEN = (
    "none: noise hides where the values of this column lie, or shows none but 0, or none beyond the bound "
    "that is declared. Declare its bounds, or spend more."
)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LearnedBounds(AbstractTable):
    """What `privfit.learn_bounds` returns.

    Parameters
    ----------
    names : tuple of str
        Columns whose bounds were missing.
    draft : Draft
        All declarations, with what was found filled in.
    privacy : PrivacyStatement
        The guarantee, in numbers and words.
    plan : Plan
        All that was asked of the rows.
    """

    names: tuple[str, ...]
    draft: Draft
    privacy: PrivacyStatement
    plan: Plan

    @property
    def private(self) -> bool:
        """False if the noise was seeded: the bounds must not be released then."""
        return self.privacy.private

    @property
    def bounds(self) -> pd.DataFrame:
        """Columns ``lower`` and ``upper`` in the raw unit, indexed by name; NaN where noise hides them."""
        found = [self._bounds_of(name) for name in self.names]
        return pd.DataFrame(found, index=list(self.names), columns=["lower", "upper"], dtype=np.float64)

    @property
    def schema(self) -> Schema:
        """The schema, bounds included.

        Raises
        ------
        TooLittleData
            If noise hides the bounds of a column; the message names it.
        """
        if self.draft.unbounded:
            unseen = ", ".join(repr(name) for name in self.draft.unbounded)
            raise TooLittleData(
                f"noise hides where the values of {unseen} lie, or shows none but 0, or none beyond the "
                "bound that is declared: declare lower and upper, or learn them with a larger epsilon"
            )
        return Schema(self.draft.declarations)

    def to_toml(self, path: str | os.PathLike[str]) -> None:
        """Write all declarations as TOML; columns that noise hides still lack their bounds.

        A file of bounds that are not private says so.

        Raises
        ------
        SchemaError
            If the file cannot be written.
        """
        self.draft.to_toml(path, remark=self.privacy.mark)

    def summary(self) -> Summary:
        """Return the bounds as a table, with what was spent on them."""
        return Summary(
            title="Bounds of columns",
            mark=self.privacy.mark,
            header=(
                *counting(self.plan),
                ("Noise", self.privacy.noise),
                ("Privacy", self.privacy.guarantee),
            ),
            columns=(Column("lower", "reference"), Column("upper", "reference")),
            rows=rows_of(self.names, self.bounds),
            footers=(
                *self.privacy.in_words(self.plan.n_rows),
                f"{_READING} {_RELEASED}" if self.private else _READING,
                *((_UNSEEN,) if self.draft.unbounded else ()),
            ),
        )

    def _bounds_of(self, name: str) -> tuple[float, float]:
        if name in self.draft.unbounded:
            return np.nan, np.nan
        entry = self.draft.declarations[name]
        return float(entry["lower"]), float(entry["upper"])
