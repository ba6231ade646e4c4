"""Tables that are encoded where they lie, before a fit is planned: large files and rows on a cluster."""

from abc import ABC, abstractmethod

from privfit.data.clamp import Weighting
from privfit.data.coded import Storage
from privfit.data.declarations import Level
from privfit.data.encode import AbstractEncoder
from privfit.data.shares import ShareRule
from privfit.data.source import RowSource


class AbstractStoredRows(ABC):
    """Encoded rows."""

    __slots__ = ()

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def n_units(self) -> int:
        """Number of privacy units."""

    @abstractmethod
    def source(self, *, norm_bound: float, storage: Storage = "float64") -> RowSource:
        """Return the rows as a source that is bounded by this number, kept in this type unless in a file.

        Raises
        ------
        InvalidArgument
            If they cannot be: they were bounded by another number.
        """


class AbstractRowStore(ABC):
    """A table that can be encoded where it lies."""

    __slots__ = ()

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the columns, where they are known beforehand."""
        return None

    @property
    def named(self) -> bool:
        """Whether the columns have names of their own."""
        return True

    @property
    def truths(self) -> tuple[str, ...]:
        """Names of the columns that by their type are true or false."""
        return ()

    def labels(self) -> tuple[Level, Level]:
        """Return the labels of a response without a schema."""
        return (0, 1)

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known beforehand."""
        return None

    @abstractmethod
    def rows(
        self,
        encoder: AbstractEncoder,
        *,
        norm_bound: float,
        weighting: Weighting,
        storage: Storage,
        shares: ShareRule,
    ) -> AbstractStoredRows:
        """Return the encoded rows, which count by their shares.

        A file keeps them bounded by this number, in a type of its own.
        """
