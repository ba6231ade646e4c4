"""Compiled functions free an array after the last line that names it; an address does not hold it."""

import ast
from pathlib import Path

import pytest

import privfit

SOURCES = sorted(Path(privfit.__file__).parent.rglob("*.py"))


def takes_address(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "ctypes" and isinstance(node.value, ast.Name)


def addressed(tree: ast.AST) -> set[str]:
    """Return the arrays whose address is taken."""
    return {node.value.id for node in ast.walk(tree) if takes_address(node)}


def named(tree: ast.AST) -> set[str]:
    """Return what is named other than for its address."""
    apart = {id(node.value) for node in ast.walk(tree) if takes_address(node)}
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in apart)
    return {node.id for node in names if isinstance(node.ctx, ast.Load)}


def follows(function: ast.FunctionDef, array: str) -> set[str]:
    """Return the variables that an array's address is part of."""
    found, before = set(), None
    while before != found:
        before = set(found)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and (array in addressed(node.value) or found & named(node.value)):
                targets = [one for target in node.targets for one in ast.walk(target)]
                found |= {one.id for one in targets if isinstance(one, ast.Name)}
    return found


def released_early(function: ast.FunctionDef) -> set[str]:
    """Return own arrays that are not named in or after the last statement that their address is used in."""
    early = set()
    for array in addressed(function) - {argument.arg for argument in function.args.args}:
        places = follows(function, array)
        last = max(
            k for k, line in enumerate(function.body) if places & named(line) or array in addressed(line)
        )
        if not any(array in named(line) for line in function.body[last:]):
            early.add(array)
    return early


def functions(text: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_arrays_whose_address_is_taken_live_as_long_as_it_is_used(path):
    for function in functions(path.read_text()):
        assert released_early(function) == set(), function.name


def test_the_test_finds_arrays_that_are_released():
    text = """
def work(x):
    zeros, sums, used = np.zeros(8), np.zeros(8), np.zeros(8)
    none, target = np.int64(zeros.ctypes.data), sums.ctypes.data
    further = target + used.ctypes.data
    for i in range(8):
        used[i] = x[i]
    for i in range(8):
        add(x.ctypes.data, none, further)
    return sums
"""
    assert released_early(functions(text)[0]) == {"zeros", "used"}
