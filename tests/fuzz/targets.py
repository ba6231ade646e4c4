"""What is fuzzed. A target turns bytes into an input and raises if privfit does not take or refuse it well.

To refuse well is to raise an error of `privfit.errors` with a message of one line that holds no cell. Run
for a few seconds by ``tests/fuzz/test_fuzz.py`` and for long by ``benchmarks/fuzz/run.py``.
"""

import contextlib
import functools
import io
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as papq
from typer.testing import CliRunner

from privfit import Budget, FitResult, Ledger, Schema
from privfit.cli import app
from privfit.data.encode import SchemaEncoder
from privfit.data.tables import open_table
from privfit.errors import PrivfitError
from privfit.privacy.composition import GaussianEvent, PureEvent
from privfit.terms.encoder import FormulaEncoder
from tests.fuzz.bytes_reader import TROUBLESOME, BytesReader

Target = Callable[[bytes], None]

CANARY = "canary-7341"
"""Part of a cell. It is in every fuzzed table and must be in no message."""


class Violation(AssertionError):
    """privfit crashed, or said too much."""


@contextlib.contextmanager
def refusing_well(*, rows: bool = True) -> Iterator[None]:
    """Let errors of privfit pass if they are well made; where rows were read, they may have no cause."""
    try:
        yield
    except PrivfitError as error:
        message = str(error)
        if not message or "\n" in message:
            raise Violation(f"message is not one line: {message!r}") from error
        if CANARY in message or (rows and error.__cause__ is not None):
            raise Violation(f"message or cause may hold a cell: {message!r}") from error


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make a folder in memory, if there is such a place, and remove it."""
    memory = Path("/dev/shm")  # noqa: S108 -- only for speed; the system's own place for it is used otherwise
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


SCHEMA = Schema(
    {
        "age": {"type": "numeric", "lower": 17, "upper": 90},
        "sex": {"type": "categorical", "levels": ["Female", "Male"]},
        "group": {"type": "categorical", "levels": [1, 2, 3]},
        "hours": {"type": "numeric", "lower": 0, "upper": 80, "transform": "log1p", "missing": 40},
        "high": {"type": "categorical", "levels": ["no", "yes"], "target": True},
    }
)

_KEYS = ("type", "lower", "upper", "levels", "target", "unit", "transform", "missing", "other", "x")
_WORDS = (
    "numeric",
    "categorical",
    "log1p",
    "log",
    "sqrt",
    "identity",
    "a",
    "",
    " a",
    "NaN",
    "é",
    "\x00",
    "1",
)


_ODD = (0, 1, -1, 17, 90, 2**70, True, False, None, 10**400, -(10**400), b"a", 1j)


def _value(reader: BytesReader, depth: int = 0) -> object:
    """Return a cell of a schema: a plain one, or a list or table of such."""
    if depth > 1 or reader.below(8) < 5:
        return reader.one((reader.one(_WORDS), reader.real(), reader.text(), reader.one(_ODD)))
    if reader.chance():
        return [_value(reader, depth + 1) for _ in range(reader.below(4))]
    inner = {reader.one(_KEYS): _value(reader, depth + 1) for _ in range(reader.below(5))}
    return {"type": reader.one(_WORDS), "lower": reader.real(), "upper": reader.real()} | inner


def schema_mapping(data: bytes) -> None:
    """Schemas from mappings: what is accepted survives a trip through a mapping and a TOML file."""
    reader = BytesReader(data)
    entries = {reader.text(): _value(reader) for _ in range(1 + reader.below(3))}
    with refusing_well(), scratch() as folder:
        schema = Schema(entries)  # type: ignore[arg-type]
        schema.to_toml(folder / "s.toml")
        again = Schema.from_toml(folder / "s.toml")
        if again != schema or Schema.from_dict(schema.to_dict()) != schema:
            raise Violation("a schema does not survive being written")
        if again.fingerprint != schema.fingerprint:
            raise Violation("a fingerprint does not survive being written")


def schema_file(data: bytes) -> None:
    """Schemas from files of any bytes."""
    with refusing_well(), scratch() as folder:
        (folder / "s.toml").write_bytes(data)
        Schema.from_toml(folder / "s.toml")


_PIECES = (
    "high", "age", "sex", "group", "hours", "~", "+", "-", "*", ":", "/", "(", ")", "1", "0", "**", "2",
    "C(sex)", "np.log(age)", "I(age", "__import__('os')", "age.values", "[", "]", "{", "}", "lambda: 0",
    "center(age)", "`", "bs(age, df=4)", "|", "%in%", "^", "'a'", '"', "\\", "\n", "log(hours + 1)",
    "poly(age, 2)", ",", "=", ".", "C(group, levels=[1, 2, 3])", "cut(age, [20, 30])", "hours > 3",
    "1e999", "é", " ", "\x00",
)  # fmt: skip


def formula(data: bytes) -> None:
    """Formulas of pieces and of any text, on a small table."""
    reader = BytesReader(data)
    text = "".join(reader.some(_PIECES, 12)) if reader.chance() else reader.rest().decode("utf-8", "replace")
    if reader.chance():
        text = "high ~ " + text
    with refusing_well():
        x, _ = FormulaEncoder(text, SCHEMA, target_kind="binary").encode(_small_table())
        if not np.isfinite(x[:3]).all() or np.abs(x[:3]).max(initial=0.0) > 1.0 + 1e-9:
            raise Violation("a formula gives cells beyond the bounds that it states")


@functools.cache
def _small_table() -> object:
    cells = {
        "age": [20.0, 50.0, 90.0],
        "sex": ["Female", "Male", "Male"],
        "group": [1, 2, 3],
        "hours": [10.0, 80.0, 0.0],
        "high": ["no", "yes", "no"],
    }
    return open_table({name: np.array(values) for name, values in cells.items()})


_CELLS = (
    "20", "Male", "Female", "1", "2", "3", "yes", "no", "", "NA", "nan", "inf", "-1e400", "0x10", '"',
    "'", "1_0", CANARY, f'"{CANARY}\n{CANARY}"', "é", "\x00", "\ufeff", "99999999999999999999", "1,5",
    "=1+1", " yes ", "True",
)  # fmt: skip


def csv_cells(data: bytes) -> None:
    """Comma-separated files of troublesome cells: read, encoded, and bounded."""
    reader = BytesReader(data)
    names = list(SCHEMA) if reader.below(4) else reader.some((*SCHEMA, CANARY, ""), 6)
    lines = [",".join(names)]
    while reader.left and len(lines) < 9:
        lines.append(",".join(reader.one(_CELLS) for _ in range(reader.one((5, 5, 5, 5, 4, 6)))))
    separator = reader.one(("\n", "\n", "\r\n", "\r"))
    encoding = reader.one(("utf-8", "utf-8", "utf-16", "latin-1"))
    _encode_file(separator.join(lines).encode(encoding, "replace"), ".csv")


def csv_bytes(data: bytes) -> None:
    """Comma-separated files of any bytes."""
    _encode_file(",".join(SCHEMA).encode() + b"\n" + data, ".csv")


def parquet_bytes(data: bytes) -> None:
    """A Parquet file with some bytes changed."""
    _encode_file(_changed(_parquet(), data), ".parquet")


def arrow_bytes(data: bytes) -> None:
    """An Arrow file with some bytes changed."""
    _encode_file(_changed(_arrow(), data), ".arrow")


def _encode_file(content: bytes, suffix: str) -> None:
    with refusing_well(), scratch() as folder:
        (folder / f"t{suffix}").write_bytes(content)
        table = open_table(folder / f"t{suffix}")
        x, y = SchemaEncoder(SCHEMA, target_kind="binary").encode(table)
        known = np.isfinite(x).all(axis=1)
        if np.abs(x[known]).max(initial=0.0) > 1.0 or not set(y[np.isfinite(y)]) <= {0.0, 1.0}:
            raise Violation("an encoded cell is out of bounds")


def _changed(content: bytes, data: bytes) -> bytes:
    reader, out = BytesReader(data), bytearray(content)
    while reader.left:
        out[int.from_bytes(reader.take(2), "little") % len(out)] = reader.take(1).ljust(1, b"\0")[0]
    return bytes(out)


@functools.cache
def _arrow_table() -> pa.Table:
    return pa.table(
        {
            "age": [20.0, 50.0, None],
            "sex": ["Female", "Male", CANARY],
            "group": [1, 2, 3],
            "hours": [10.0, 80.0, 0.0],
            "high": ["no", "yes", "no"],
        }
    )


@functools.cache
def _parquet() -> bytes:
    out = io.BytesIO()
    papq.write_table(_arrow_table(), out)
    return out.getvalue()


@functools.cache
def _arrow() -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_file(out, _arrow_table().schema) as writer:
        writer.write_table(_arrow_table())
    return out.getvalue()


def budgets(data: bytes) -> None:
    """Budgets of any numbers: a conversion never claims more privacy than was declared."""
    reader = BytesReader(data)
    make = reader.one((Budget, Budget.gdp, Budget.zcdp))
    numbers = (reader.real(), reader.real()) if make is Budget and reader.chance() else (reader.real(),)
    with refusing_well():
        budget = make(*numbers)
        if Budget.from_dict(json.loads(json.dumps(budget.to_dict()))) != budget:
            raise Violation("a budget does not survive being written")
        with contextlib.suppress(PrivfitError):
            delta = budget.delta_at(abs(reader.one(TROUBLESOME)))
            if not 0.0 <= delta <= 1.0:
                raise Violation("delta is no probability")
        with contextlib.suppress(PrivfitError):
            if math.isnan(budget.epsilon_at(10.0 ** -reader.below(20))):
                raise Violation("epsilon is not a number")


@functools.cache
def _results() -> tuple[str, ...]:
    """Return a result of each kind of encoder."""
    from privfit import LogisticRegression, PoissonRegressor, logit

    table = {"age": np.linspace(17, 90, 300), "high": np.array(["no", "yes"] * 150)}
    schema = Schema({name: SCHEMA[name] for name in table})
    fits = (
        logit("high ~ age", table, schema=SCHEMA, epsilon=1.0, random_state=1),
        LogisticRegression(schema=schema, random_state=1).fit(table).result_,
        PoissonRegressor(count_bound=9.0, random_state=1)
        .fit(np.linspace(-1, 1, 300).reshape(-1, 1), np.arange(300) % 7)
        .result_,
    )
    return tuple(fit.to_json() for fit in fits)


def result_fields(data: bytes) -> None:
    """Result files with fields replaced, removed or added."""
    reader = BytesReader(data)
    record = json.loads(reader.one(_results()))
    for _ in range(1 + reader.below(3)):
        _spoil(reader, record)
    with refusing_well():
        _use(FitResult.from_json(json.dumps(record)))


def result_encoder(data: bytes) -> None:
    """Result files with other formulas, schemas, names and labels than those of the fit."""
    reader = BytesReader(data)
    record = json.loads(reader.one(_results()))
    kept = record["result"]["encoder"]
    for _ in range(1 + reader.below(3)):
        _spoil(reader, kept)
    if reader.chance() and "formula" in kept:
        kept["formula"] = "high ~ age" + "".join(reader.some(_PIECES, 8))
    if reader.chance() and isinstance(kept.get("schema"), dict):
        kept["schema"][reader.one(("age", "high", reader.text()))] = _plain(_value(reader))
    with refusing_well():
        _use(FitResult.from_json(json.dumps(record)))


def _plain(value: object) -> object:
    """Return what JSON has of a value."""
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        plain = {key: _plain(one) for key, one in inner}
        return plain if isinstance(value, dict) else list(plain.values())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | None) else repr(value)


def _spoil(reader: BytesReader, record: object) -> None:
    while isinstance(record, dict | list) and record:
        key = reader.one(sorted(record)) if isinstance(record, dict) else reader.below(len(record))
        inner = record[key]
        if not isinstance(inner, dict | list) or reader.below(4) == 0:
            record[key] = reader.one(
                (None, True, 0, -1, 1.5, "inf", "nan", "", [], {}, [[]], 10**400, "x", inner)
            )
            if reader.below(4) == 0:
                del record[key]
            return
        record = inner


def _use(result: FitResult) -> None:
    str(result.summary())
    result.conf_int()
    for ask in (result.predict, result.decision_function, result.get_prediction, result.get_margeff):
        with refusing_well():
            str(ask(_small_table()))
    if FitResult.from_json(result.to_json()).to_json() != result.to_json():
        raise Violation("a result does not survive being written")


def result_bytes(data: bytes) -> None:
    """Result files with bytes changed."""
    reader = BytesReader(data)
    text = reader.one(_results())
    with refusing_well():
        _use(FitResult.from_json(_changed(text.encode(), reader.rest()).decode("utf-8", "replace")))


@functools.cache
def _ledger_file() -> bytes:
    with scratch() as folder:
        ledger = Ledger(folder / "l.sqlite")
        ledger.grant("people", Budget(2.0, 1e-6))
        ledger.commit(ledger.reserve("people", [GaussianEvent(0.2)], note="first"))
        ledger.reserve("people", [GaussianEvent(0.1)])
        del ledger
        return (folder / "l.sqlite").read_bytes()


def ledger_bytes(data: bytes) -> None:
    """A ledger with bytes changed: refused, or what it says was spent is not less than it was."""
    whole = _ledger_file()
    changed = _changed(whole, data)
    with scratch() as folder:
        path = folder / "l.sqlite"
        path.write_bytes(changed)
        with refusing_well(rows=False):
            ledger = Ledger(path, timeout=0.2)
            left = ledger.remaining("people")
            if left is not None and changed != whole and left.epsilon_at(1e-6) > _left_before() + 1e-9:
                raise Violation("a changed ledger grants more")


@functools.cache
def _left_before() -> float:
    with scratch() as folder:
        (folder / "l.sqlite").write_bytes(_ledger_file())
        left = Ledger(folder / "l.sqlite").remaining("people")
        return 0.0 if left is None else left.epsilon_at(1e-6)


def ledger_calls(data: bytes) -> None:
    """Calls in any order with any numbers: never more spent than granted."""
    reader = BytesReader(data)
    with scratch() as folder:
        ledger = Ledger(folder / "l.sqlite")
        for _ in range(1 + reader.below(6)):
            with refusing_well(rows=False):
                _call(reader, ledger)
        with refusing_well(rows=False):
            if not ledger.spent("a").within(Budget(1.0, 1e-6)):
                raise Violation("overspent")


def _call(reader: BytesReader, ledger: Ledger) -> None:
    action, name = reader.below(5), reader.one(("a", "a", "a", "", "é", None))
    if action == 0:
        ledger.grant(name, Budget(1.0, 1e-6))  # type: ignore[arg-type]
    elif action == 1:
        ledger.reserve(name, [GaussianEvent(reader.real())])  # type: ignore[arg-type]
    elif action == 2:
        ledger.reserve(name, [PureEvent(reader.real())], note=reader.text())  # type: ignore[arg-type]
    elif action == 3:
        ledger.commit(reader.one((0, 1, 2, -1, 10**30, True, "1")))  # type: ignore[arg-type]
    else:
        ledger.remaining(name)  # type: ignore[arg-type]


_OPTIONS = (
    "fit", "plan", "check", "ledger", "show", "grant", "verify", "--schema", "SCHEMA", "DATA",
    "--model", "logit", "ols", "huber", "poisson", "--epsilon", "1", "0", "nan", "-1", "1e-300",
    "--delta", "2", "--formula", "high ~ age", "--solver", "newton", "auto", "x", "--out", "OUT",
    "--rows", "600", "10", "--seed", "3", "--no-inference", "--help", "--ledger", "LEDGER", "--dataset",
    "d", "--relation", "replace", "--version", "", "\x00", "é", "--", "predict", "report", "RESULT",
    "--intervals", "--output", "p.csv", "p.parquet",
)  # fmt: skip


def command_line(data: bytes) -> None:
    """Command lines of known and unknown words: exit 0, or one line on standard error."""
    reader = BytesReader(data)
    with scratch() as folder:
        shutil.copy(_people(), folder / "people.csv")
        SCHEMA.to_toml(folder / "s.toml")
        (folder / "r.json").write_text(_results()[0])
        places = {"SCHEMA": "s.toml", "DATA": "people.csv", "OUT": "out.json", "LEDGER": "l.sqlite"}
        places |= {"RESULT": "r.json"}
        words = [reader.one(_OPTIONS) for _ in range(1 + reader.below(12))]
        start = reader.one(
            ([], ["fit", "DATA", "--schema", "SCHEMA", "--model", "logit"], ["predict", "RESULT"])
        )
        arguments = [str(folder / places[w]) if w in places else w for w in (*start, *words)]
        with contextlib.chdir(folder):  # words can be taken for names of files to write
            done = CliRunner().invoke(app, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise Violation(f"the command line crashed: {type(done.exception).__name__}") from done.exception
    if done.exit_code not in {0, 1, 2} or CANARY in done.output:
        raise Violation(f"exit {done.exit_code}, or a cell was shown")


@functools.cache
def _people() -> Path:
    path = Path(tempfile.mkdtemp()) / "people.csv"
    rows = [f"{17 + k % 74},Male,{1 + k % 3},{k % 80},{('no', 'yes')[k % 2]}" for k in range(60)]
    path.write_text("\n".join(["age,sex,group,hours,high", *rows, f"20,{CANARY},1,{CANARY},no"]) + "\n")
    return path


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        schema_mapping,
        schema_file,
        formula,
        csv_cells,
        csv_bytes,
        parquet_bytes,
        arrow_bytes,
        budgets,
        result_fields,
        result_encoder,
        result_bytes,
        ledger_bytes,
        ledger_calls,
        command_line,
    )
}
