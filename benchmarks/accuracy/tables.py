"""The tables of the benchmark: raw files or simulations, encoded once by public facts for every method."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from synthetic import SIMULATIONS

import privfit as pf
from privfit.data.clamp import default_norm_bound
from privfit.data.columns import as_number, as_text
from privfit.data.design import Design
from privfit.data.encode import SchemaEncoder
from privfit.data.tables import Table, open_table

Kind: TypeAlias = Literal["binary", "numeric"]
Raw: TypeAlias = Callable[[Path], "tuple[Table, Table | None]"]

SCHEMAS = Path(__file__).parent / "schemas"
TRAIN_SHARE = 0.8
SPLIT_SEED = 20_240_901

ADULT = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
    "income",
]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Encoded rows, the same for every method.

    Parameters
    ----------
    name : str
    kind : {"binary", "numeric"}
    design : Design
        Public facts about the columns and the response, with a schema the bound on the norm of a row among
        them.
    x, y : arrays of shape (n, p) and (n,)
        Training rows, constant column first. ``y`` is 0/1, or a number in [-1, 1].
    x_test, y_test : arrays
        Rows that were held out.
    """

    name: str
    kind: Kind
    design: Design
    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def norm_bound(self) -> float:
        """Public bound on the norm of a row; without a schema, rows are clipped or weighted to it."""
        return self.design.norm_bound or default_norm_bound(len(self.design.columns))

    @lru_cache(maxsize=8)  # noqa: B019 -- tables live as long as the process
    def clipped(self, norm: float) -> np.ndarray:
        """Return the training rows in single precision, those longer than ``norm`` shortened to it."""
        length = np.linalg.norm(self.x, axis=1)
        factor = np.minimum(1.0, norm / np.maximum(length, 1e-12))
        return np.ascontiguousarray(self.x * factor[:, None], dtype=np.float32)


def load(name: str, data: Path | None) -> Rows:
    """Return a table by name; real ones are read from the folder ``data``."""
    if name in SIMULATIONS:
        kind, design, x, y = SIMULATIONS[name]()
        return _split(name, kind, design, x, y)
    if data is None:
        raise SystemExit(f"--data is needed for the table {name}")
    kind, read = REAL[name]
    encoder = SchemaEncoder(pf.Schema.from_toml(SCHEMAS / f"{name}.toml"), target_kind=kind)
    train, test = read(data)
    x, y = encoder.encode(train)
    if test is None:
        return _split(name, kind, encoder.design, x, y)
    return Rows(name, kind, encoder.design, x, y, *encoder.encode(test))


def _split(name: str, kind: Kind, design: Design, x: np.ndarray, y: np.ndarray) -> Rows:
    """Hold out every fifth row of a fixed random order."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(y))
    first = int(TRAIN_SHARE * len(y))
    train, test = order[:first], order[first:]
    return Rows(name, kind, design, x[train], y[train], x[test], y[test])


def _adult(data: Path) -> tuple[Table, Table]:
    train = open_table(data / "adult_data.csv.gz", header=False, columns=ADULT)
    test = open_table(data / "adult_test.csv.gz", header=False, columns=ADULT)
    labels = as_text(test.values("income")).to_pylist()
    income = np.array([str(label).rstrip(".") for label in labels], dtype=object)
    columns = [(name, test.values(name)) for name in ADULT[:-1]]
    return train, Table([*columns, ("income", income)])


def _wine(data: Path) -> tuple[Table, None]:
    parts = {colour: open_table(data / f"wine_{colour}.csv.gz", sep=";") for colour in ("red", "white")}
    names = parts["red"].names
    columns = [
        (name, np.concatenate([as_number(part.values(name)) for part in parts.values()])) for name in names
    ]
    colour = np.repeat(list(parts), [part.n_rows for part in parts.values()]).astype(object)
    return Table([*columns, ("colour", colour)]), None


def _file(name: str, sep: str = ",") -> Raw:
    return lambda data: (open_table(data / name, sep=sep), None)


REAL: dict[str, tuple[Kind, Raw]] = {
    "adult": ("binary", _adult),
    "bank": ("binary", _file("bank_full.csv.gz", ";")),
    "credit": ("binary", _file("credit_card_taiwan.csv.gz")),
    "california": ("numeric", _file("california_housing.csv.gz")),
    "bike": ("numeric", _file("bike_hour.csv.gz")),
    "wine": ("numeric", _wine),
    "rand_hie": ("numeric", _file("rand_hie_full.csv.gz")),
    "cps1988": ("numeric", _file("aer_cps1988.csv.gz")),
}
"""Real tables: kind of response, and how the file is read."""

NAMES = (*REAL, *SIMULATIONS)
"""All tables."""
