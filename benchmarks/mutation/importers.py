"""Which modules of privfit import which, from their source."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = "privfit"


@cache
def all_modules(source: Path) -> tuple[str, ...]:
    """Return the names of all modules under a folder of sources, those that are run as programs aside."""
    files = sorted((source / PACKAGE).rglob("*.py"))
    return tuple(_name(source, file) for file in files if file.stem != "__main__")


def importers(source: Path, module: str) -> set[str]:
    """Return a module and all that import it at some time, directly or by others."""
    found, fresh = {module}, {module}
    while fresh:
        fresh = {name for name, used in _imports(source).items() if used & fresh} - found
        found |= fresh
    return found


@cache
def _imports(source: Path) -> dict[str, set[str]]:
    """Return what each module imports, packages that it is in among them."""
    known, found = set(all_modules(source)), {}
    for name in known:
        path = source / Path(*name.split("."))
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        named = set(_named(ast.parse(file.read_text(encoding="utf-8"))))
        found[name] = {one for used in (*named, name) for one in _with_packages(used)} & known - {name}
    return found


def _named(tree: ast.AST) -> Iterator[str]:
    """Return what may be modules in import statements, those for type checkers aside."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.Import():
                yield from (one.name for one in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield from (f"{module}.{one.name}" for one in node.names)
            case _:
                yield from _named(node)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:k]) for k in range(1, len(parts) + 1))


def _name(source: Path, file: Path) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
