"""Raw columns of a table as a fit reads them."""

import numpy as np

from privfit.data.columns import as_number, as_text, holds_numbers


def raw_cells(table, name):
    """Return a column as float64 with NaN for missing cells, or as stripped text with None for them."""
    values = table.values(name)
    return as_number(values) if holds_numbers(values) else np.array(as_text(values).to_pylist(), dtype=object)
