"""Everything that a fit leaves behind: objects, bytes, output, log records, warnings, files."""

import gc
import io
import logging
import pickle
import sys
import warnings
import weakref
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import numpy as np

from privfit.data.source import ArraySource

from .walk import lines_of, surfaces

_written: list[str] = []
_watching = False


def _watch(event, arguments):
    if not _watching:
        return
    if event == "open":
        path, mode, flags = arguments
        writes = isinstance(mode, str) and any(letter in mode for letter in "wax+")
        if writes or (isinstance(flags, int) and flags & 3):
            _written.append(str(path))
    elif event in ("sqlite3.connect", "os.mkdir", "os.link", "os.rename", "os.symlink", "subprocess.Popen"):
        _written.append(f"{event} {arguments[0]}")


sys.addaudithook(_watch)  # a hook cannot be taken away again; the flag switches it off


@contextmanager
def watched():
    """Collect what is opened for writing."""
    global _watching  # noqa: PLW0603
    _written.clear()
    _watching = True
    try:
        yield _written
    finally:
        _watching = False


@contextmanager
def rows_of_fits(monkeypatch):
    """Collect weak references to all arrays of encoded rows."""
    references, made = [], ArraySource.__init__

    def note(source):
        block = source._block
        rows = (block.x,) if isinstance(block.x, np.ndarray) else (block.x.numbers, block.x.codes)
        others = [one for one in (block.caps, block.offset) if one is not None]
        arrays = (*rows, block.y, block.weight, *(block.parts or ()), *others)
        references.extend(weakref.ref(array) for array in arrays)

    def noted(source, *args, **kwargs):
        made(source, *args, **kwargs)
        note(source)

    def noting(change):
        def changed(source, *args, **kwargs):
            other = change(source, *args, **kwargs)
            note(other)
            return other

        return changed

    with monkeypatch.context() as patch:
        patch.setattr(ArraySource, "__init__", noted)
        for name in ("reweighted", "exposed"):
            patch.setattr(ArraySource, name, noting(getattr(ArraySource, name)))
        yield references


class _Handler(logging.Handler):
    def __init__(self, records):
        super().__init__(level=0)
        self.records = records

    def emit(self, record):
        self.records.append(f"{record.name} {record.levelname} {record.getMessage()}")


@contextmanager
def listening(records):
    """Collect the records of all loggers, whatever their level."""
    root, handler = logging.getLogger(), _Handler(records)
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)


@contextmanager
def only_new_objects():
    """Collect what was left in between; what was there before is never searched again."""
    gc.freeze()
    yield
    gc.collect()


def observe(monkeypatch, fit):
    """Return all that ``fit()`` leaves behind, by name; it returns an estimator or a result."""
    out, err, records = io.StringIO(), io.StringIO(), []
    with (
        only_new_objects(),
        warnings.catch_warnings(record=True) as caught,
        redirect_stdout(out),
        redirect_stderr(err),
        listening(records),
        rows_of_fits(monkeypatch) as rows,
        watched() as written,
    ):
        warnings.simplefilter("always")
        fitted = fit()
    result = getattr(fitted, "result_", fitted)
    return {
        "objects": lines_of(fitted),
        "pickle": pickle.dumps(fitted),
        "repr": repr(fitted),
        **surfaces(result),
        "stdout": out.getvalue(),
        "stderr": err.getvalue(),
        "log": records,
        "warnings": [f"{one.category.__name__} {one.message}" for one in caught],
        "written": list(written),
        "rows alive": sum(reference() is not None for reference in rows),
    }


def differences(first, second):
    """Return the names of what differs."""
    return [name for name in first if first[name] != second[name]]
