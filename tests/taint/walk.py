"""All that can be reached from an object, as plain lines, for comparison."""

import functools
import hashlib
import types
from dataclasses import is_dataclass

import numpy as np
import pandas as pd

from privfit.results.learned_bounds import LearnedBounds

_PLAIN = (type(None), bool, int, str, bytes, complex)
_OPAQUE = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, property)


def lines_of(thing):
    """Return one line for every number, text or array that is reachable, with the way to it."""
    found = []
    _walk(thing, "", found, {})
    return found


def _walk(thing, path, found, seen):
    if isinstance(thing, _PLAIN):
        found.append(f"{path}: {thing!r}")
    elif isinstance(thing, float):
        found.append(f"{path}: {float(thing).hex()}")
    elif isinstance(thing, np.ndarray | np.generic):
        _array(np.asarray(thing), path, found, seen)
    elif id(thing) in seen:
        found.append(f"{path}: see {seen[id(thing)][0]}")
    else:
        seen[id(thing)] = (path, thing)  # held, so that no other object gets its number
        for name, part in _parts(thing):
            _walk(part, f"{path}/{name}", found, seen)


def _array(array, path, found, seen):
    if array.dtype == object:
        for k, part in enumerate(array.ravel().tolist()):
            _walk(part, f"{path}[{k}]", found, seen)
        return
    digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    found.append(f"{path}: {array.dtype} {array.shape} {digest} {array.ravel()[:3].tolist()}")
    if isinstance(array.base, np.ndarray):
        _array(array.base, f"{path}.base", found, seen)


def _parts(thing):
    """Return the parts of an object: entries, attributes, closures, slots."""
    yield "type", f"{type(thing).__module__}.{type(thing).__qualname__}"
    if isinstance(thing, _OPAQUE):
        yield "name", getattr(thing, "__qualname__", getattr(thing, "__name__", ""))
        return
    yield from _entries(thing)
    yield from _called(thing)
    for name, part in sorted(getattr(thing, "__dict__", {}).items()):
        yield f".{name}", part
    for cls in type(thing).__mro__:
        for slot in _slots(cls):
            if hasattr(thing, slot):
                yield f".{slot}", getattr(thing, slot)
    if is_dataclass(thing):
        yield "repr", repr(thing)


def _entries(thing):
    if isinstance(thing, dict | types.MappingProxyType):
        for key, part in thing.items():
            yield f"[{key!r}]", part
    elif isinstance(thing, list | tuple):
        for k, part in enumerate(thing):
            yield f"[{k}]", part
    elif isinstance(thing, set | frozenset):
        for k, part in enumerate(sorted(thing, key=repr)):
            yield f"{{{k}}}", part
    elif isinstance(thing, pd.DataFrame | pd.Series):
        yield "frame", thing.to_dict()
    elif isinstance(thing, pd.Index):
        yield "index", list(thing)


def _called(thing):
    if isinstance(thing, types.FunctionType):
        yield "name", thing.__qualname__
        for k, cell in enumerate(thing.__closure__ or ()):
            yield f"closure[{k}]", cell.cell_contents
        yield "defaults", thing.__defaults__
    elif isinstance(thing, types.MethodType):
        yield "self", thing.__self__
    elif isinstance(thing, functools.partial):
        yield "partial", (thing.func, thing.args, thing.keywords)


def _slots(cls):
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    return [f"_{cls.__name__.lstrip('_')}{n}" if n.startswith("__") else n for n in names if n[:2] != "__"]


def surfaces(result):
    """Return everything that a result, or bounds that were learned, can print or write."""
    summary = result.summary()
    shown = {
        "repr": repr(result),
        "html": result._repr_html_(),
        "text": summary.as_text(),
        "page": summary.as_html(),
        "latex": summary.as_latex(),
        "summary": repr(summary),
    }
    if isinstance(result, LearnedBounds):
        return shown | {"bounds": result.bounds.to_json(double_precision=15), "draft": repr(result.draft)}
    shown["json"] = result.to_json()
    if result.cov_sampling is not None:
        shown |= {
            "interval": result.conf_int().to_json(double_precision=15),
            "covariance": result.cov_params().to_json(double_precision=15),
            "test": repr(result.wald_test(np.eye(len(result.names))[:1])),
        }
    return shown
