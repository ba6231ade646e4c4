"""Rules about the code itself that neither the linter nor the type checker knows."""

import ast
import importlib
import inspect
from functools import cache
from pathlib import Path

import pytest

import privfit

SOURCE = Path(privfit.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

LONGEST_MODULE = 400
LONGER_MODULES: set[str] = set()
"""Modules that may be longer, each with its reason. None is."""

RANDOM_MODULES = {"privacy/noise.py", "data/synthetic.py"}


def relative(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def decorators(node: ast.ClassDef) -> set[str]:
    return {ast.unparse(one).split("(")[0].rpartition(".")[2] for one in node.decorator_list}


def test_modules_are_short():
    lines = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path for path, count in lines.items() if count > LONGEST_MODULE} <= LONGER_MODULES


def test_modules_say_what_they_are():
    assert not [relative(path) for path in MODULES if not ast.get_docstring(tree(path))]


@pytest.mark.parametrize("package", ["solvers", "procedures", "losses"])
def test_classes_are_abstract_or_final(package):
    for path in sorted((SOURCE / package).glob("*.py")):
        for node in tree(path).body:
            if not isinstance(node, ast.ClassDef):
                continue
            abstract = any(ast.unparse(base) == "ABC" for base in node.bases)
            assert abstract == node.name.startswith("Abstract"), node.name
            strategy = any(ast.unparse(base).startswith("Abstract") for base in node.bases)
            assert not strategy or "final" in decorators(node), node.name


def test_no_class_derives_from_a_final_or_concrete_strategy():
    for package in ("solvers", "procedures", "losses"):
        for path in sorted((SOURCE / package).glob("*.py")):
            module = importlib.import_module(f"privfit.{package}.{path.stem}")
            for name, thing in inspect.getmembers(module, inspect.isclass):
                if thing.__module__ == module.__name__ and not inspect.isabstract(thing):
                    assert not thing.__subclasses__(), name


def draws(path: Path) -> bool:
    """Return whether a module names NumPy's or Python's generators."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("np.random", "numpy.random"):
            return True
        if isinstance(node, ast.Import) and any(x.name in ("random", "numpy.random") for x in node.names):
            return True
        if isinstance(node, ast.ImportFrom) and node.module in ("random", "numpy.random"):
            return True
        if isinstance(node, ast.ImportFrom) and node.module == "numpy" and "random" in _named(node):
            return True
    return False


def _named(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {one.name for one in node.names}


def _private(dotted_name: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in dotted_name.split("."))


def foreign_private_names(module: ast.Module) -> list[str]:
    """Return what a module imports, or takes as an attribute of an import, that is private elsewhere."""
    found, foreign = [], set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names = {one.name: one.asname or one.name.partition(".")[0] for one in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = {f"{node.module}.{one.name}": one.asname or one.name for one in node.names}
        else:
            continue
        others = {name: local for name, local in names.items() if name.partition(".")[0] != "privfit"}
        found += filter(_private, others)
        foreign |= set(others.values())
    taken = (node for node in ast.walk(module) if isinstance(node, ast.Attribute) and _private(node.attr))
    chains = (chain for chain in map(ast.unparse, taken) if chain.replace(".", "").isidentifier())
    return found + [chain for chain in chains if chain.partition(".")[0] in foreign]


def test_randomness_has_two_homes():
    assert {relative(path) for path in MODULES if draws(path)} == RANDOM_MODULES


def test_no_private_name_of_another_package_is_used():
    assert {relative(path): names for path in MODULES if (names := foreign_private_names(tree(path)))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from sklearn.utils._tags import get_tags",
        "from sklearn.base import _fit_context",
        "import scipy._lib as lib",
        "import numpy as np\nnp._core.umath",
        "from opendp import measurements\nmeasurements.make._inner(1)",
    ],
)
def test_a_private_name_of_another_package_is_found(text):
    assert foreign_private_names(ast.parse(text))
    assert not foreign_private_names(ast.parse(text.replace("_", "")))


def test_public_names_exist_and_are_documented():
    for path in MODULES:
        if path.name == "__main__.py":
            continue
        module = importlib.import_module(dotted(path))
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing):
                assert inspect.getdoc(thing), f"{module.__name__}.{name}"


def test_every_public_definition_is_documented():
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                assert ast.get_docstring(node), f"{relative(path)}: {node.name}"


def test_surface_is_sorted():
    assert list(privfit.__all__) == sorted(privfit.__all__)
