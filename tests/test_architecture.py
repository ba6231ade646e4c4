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
    return False


def test_randomness_has_two_homes():
    assert {relative(path) for path in MODULES if draws(path)} == RANDOM_MODULES


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
