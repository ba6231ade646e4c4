"""Small changes to a module's syntax tree: what a slip of the pen could have written instead."""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Change = Callable[[ast.AST], ast.AST]

SILENT = ("describe", "summary", "label", "unit_in_words")
"""Functions that return words."""

ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
}

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.Gt),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}

CALLS = {"min": "max", "max": "min", "floor": "ceil", "ceil": "floor", "minimum": "maximum",
         "maximum": "minimum", "log1p": "expm1", "expm1": "log1p", "all": "any", "any": "all"}  # fmt: skip

DROPPED_CALLS = ("sqrt", "nextafter", "clip", "abs", "hypot")
"""Calls that are replaced by their first argument."""


@dataclass(frozen=True)
class Mutant:
    """One change.

    Parameters
    ----------
    number : int
        Position among the mutants of the module.
    line : int
    function : str
        Qualified name of the function or class around it; "" at the top.
    before, after : str
        The expression, and what it becomes.
    """

    number: int
    line: int
    function: str
    before: str
    after: str


class _Places(ast.NodeVisitor):
    """Finds expressions that can be changed, leaving out words, types and error messages."""

    def __init__(self) -> None:
        self.found: list[tuple[ast.AST, str]] = []
        self._names: list[str] = []

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            self._definition(node)
            return
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None and "TypeAlias" not in ast.unparse(node.annotation):
                self.visit(node.value)
            return
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in {"__all__", "__slots__"}:
            return
        self.found.append((node, ".".join(self._names)))
        self.generic_visit(node)

    def _definition(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        if node.name in SILENT or node.name == "__repr__":
            return
        self._names.append(node.name)
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *node.args.kw_defaults):
                if default is not None:
                    self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()


def _binary(node: ast.BinOp) -> Iterator[Change]:
    swapped = ARITHMETIC.get(type(node.op))
    if swapped is not None:
        yield lambda one: _with(one, op=swapped())
    if isinstance(node.op, ast.Add | ast.Mult) and not isinstance(node.right, ast.Constant):
        yield lambda one: one.left  # type: ignore[attr-defined]


def _constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield lambda one: _with(one, value=not value)
    elif isinstance(value, int):
        yield lambda one: _with(one, value=value + 1)
    elif isinstance(value, float):
        yield lambda one: _with(one, value=2.0 * value if value else 1.0)
        if value:
            yield lambda one: _with(one, value=0.5 * value)


def _call(node: ast.Call) -> Iterator[Change]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in CALLS:
        yield lambda one: _renamed(one, CALLS[name])
    if name in DROPPED_CALLS and node.args:
        yield lambda one: one.args[0]  # type: ignore[attr-defined]


def _compare(node: ast.Compare) -> Iterator[Change]:
    for k, operator in enumerate(node.ops):
        for other in COMPARISONS.get(type(operator), ()):

            def change(one: ast.AST, k: int = k, other: type[ast.cmpop] = other) -> ast.AST:
                one.ops[k] = other()  # type: ignore[attr-defined]
                return one

            yield change


def changes(node: ast.AST) -> Iterator[Change]:
    """Return the changes that can be made to a node."""
    match node:
        case ast.BinOp():
            yield from _binary(node)
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield lambda one: one.operand  # type: ignore[attr-defined]
        case ast.Compare():
            yield from _compare(node)
        case ast.BoolOp():
            other = ast.Or if isinstance(node.op, ast.And) else ast.And
            yield lambda one: _with(one, op=other())
        case ast.Constant():
            yield from _constant(node)
        case ast.Call():
            yield from _call(node)
        case ast.IfExp():
            yield lambda one: _with(one, body=one.orelse, orelse=one.body)  # type: ignore[attr-defined]
        case ast.If(body=[ast.Raise(), *_]):
            yield lambda one: _with(one, test=ast.Constant(value=False))
        case ast.AugAssign() if type(node.op) in ARITHMETIC:
            yield lambda one: _with(one, op=ARITHMETIC[type(one.op)]())  # type: ignore[attr-defined]
        case ast.Attribute(attr="inf"):
            yield lambda one: ast.UnaryOp(op=ast.USub(), operand=one)  # type: ignore[arg-type]
        case _:
            pass


def mutants(source: str) -> list[Mutant]:
    """Return all mutants of a module."""
    places, found = _places(ast.parse(source)), []
    for node, function in places:
        for change in changes(node):
            after = change(copy.deepcopy(node))
            line = getattr(node, "lineno", 0)
            found.append(Mutant(len(found), line, function, _short(node), _short(after)))
    return found


def mutated(source: str, number: int) -> ast.Module:
    """Return the tree of the module with the change of this number."""
    tree, count = ast.parse(source), 0
    for node, _ in _places(tree):
        for change in changes(node):
            if count == number:
                changed = _Replace(node, change(copy.deepcopy(node))).visit(tree)
                return ast.fix_missing_locations(_Uncached().visit(changed))
            count += 1
    raise ValueError(number)


class _Uncached(ast.NodeTransformer):
    """Has compiled functions compiled anew: what Numba keeps is that of the file, with no change in it."""

    def visit_keyword(self, node: ast.keyword) -> ast.keyword:
        return ast.keyword("cache", ast.Constant(False)) if node.arg == "cache" else node


def _places(tree: ast.Module) -> list[tuple[ast.AST, str]]:
    places = _Places()
    for statement in tree.body:
        places.visit(statement)
    return places.found


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._old:
            return ast.copy_location(self._new, node)
        return self.generic_visit(node)


def _short(node: ast.AST) -> str:
    shown = node.test if isinstance(node, ast.If) else node
    return " ".join(ast.unparse(shown).split())


def _with(node: ast.AST, **fields: object) -> ast.AST:
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _renamed(node: ast.AST, name: str) -> ast.AST:
    function = node.func  # type: ignore[attr-defined]
    return _with(
        node, func=_with(function, **{"attr" if isinstance(function, ast.Attribute) else "id": name})
    )
