"""Tables that are predicted: every cell must say what a prediction is for."""

import numpy as np

from privfit.data.columns import ColumnValues, as_number, naming
from privfit.data.declarations import CategoricalColumn, Column
from privfit.data.declared import declared_codes, declared_numbers
from privfit.data.encode import AbstractEncoder
from privfit.data.levels import MISSING, UNKNOWN
from privfit.data.tables import Table, names_of_array, open_table, with_rows
from privfit.errors import SchemaError

NO_VALUE = "for which there is no prediction; drop or fill it"


def open_covariates(
    data: object, encoder: AbstractEncoder, argument: str = "data", *, ordered: bool = True
) -> Table:
    """Open a table with the predictors of a model, all cells of which the model knows.

    A fit must not tell that a cell is missing or an unknown level, and reads it as the schema says, or not at
    all. Who asks for predictions gets one for every row anyway: what it would be made of is no secret, and a
    guess would mislead.

    Parameters
    ----------
    data : frame, mapping, array or path
        An array has the predictors of the model as its columns, in the order of the schema.
    encoder : AbstractEncoder
    argument : str
        What the caller calls the table.
    ordered : bool
        Whether rows that were fitted had these predictors in this order, so that an array is understood.

    Raises
    ------
    SchemaError
        If an array is not understood, or a cell is missing, no number, or no level, and the schema declares
        no ``missing`` or ``other`` for it. The message names the column and quotes no cell: rows may be
        private all the same.
    """
    needed = encoder.needed[:-1]
    columns = names_of_array(argument, data, needed, ordered=ordered)
    table = with_rows(open_table(data, needed=needed, columns=columns))
    for name, column in encoder.variables:
        with naming(name):
            _check(table.values(name), column)
    return table


def _check(values: ColumnValues, column: Column | None) -> None:
    if isinstance(column, CategoricalColumn):
        codes = declared_codes(values, column)
        if column.other is None and UNKNOWN in codes:
            raise SchemaError(
                "holds a value that is no level of the schema; correct it, or declare the level that "
                "stands for such values as other= in the schema"
            )
        if column.missing is None and MISSING in codes:
            raise SchemaError(f"holds a missing cell, {NO_VALUE}, or declare missing= in the schema")
        return
    numbers = as_number(values) if column is None else declared_numbers(values, column)
    if column is None:
        if not np.isfinite(numbers).all():
            raise SchemaError(f"holds a cell that is no finite number, {NO_VALUE}")
    elif column.missing is None and np.isnan(numbers).any():
        raise SchemaError(
            f"holds a cell that is missing or no number, {NO_VALUE}, or declare missing= in the schema"
        )
