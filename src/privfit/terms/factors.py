"""The factors of a formula: what one name or one Python expression means, by a list of what is allowed.

Nothing here, and nothing after it, runs the text of a formula. Python's parser turns it into a syntax tree;
the few kinds of node that work on one row become an `Expression`, and every other kind is refused. So a row
cannot influence another row's design, and a formula cannot run code.

What a name means:

* A column name that stands alone is the column as the schema declares it. A numeric column is clamped, and
  transformed where a ``transform`` is declared; it is then labelled ``log1p(gain)``. A categorical column
  is a block of indicators.
* Inside a call or arithmetic, a numeric column is its clamped cells in the raw unit: ``np.sqrt(gain)`` and
  ``I(gain ** 2)`` do not depend on the declared transform. A categorical column may only be compared with one
  of its levels: ``I(sex == "Male")``.
"""

import ast
import keyword
import math
import re
import unicodedata
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from privfit.data.declarations import CategoricalColumn, Level, NumericColumn
from privfit.data.schema import Schema, suggestion
from privfit.errors import FormulaError
from privfit.terms import functions
from privfit.terms.expressions import Apply, Expression, LevelTest, Number, Variable
from privfit.terms.functions import CALLABLE, Function, integer_power
from privfit.terms.wording import quoted, shortened, undeclared


@dataclass(frozen=True, slots=True)
class NumericFactor:
    """One number per row."""

    label: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class CategoricalFactor:
    """One level per row.

    Parameters
    ----------
    label : str
        As in the names of design columns: ``sex``, ``C(sex)``.
    name : str
        The column.
    base : int
        Code of the reference level.
    """

    label: str
    name: str
    base: int


Factor: TypeAlias = NumericFactor | CategoricalFactor

_DEEPEST = 60
"""Levels of a syntax tree; what works on the tree calls itself, and Python bounds the depth of calls."""
_NAMES = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`([^`]*)`|((?:\w|[^\x00-\x7f])+)""")
"""Texts, columns in backticks, and words."""
_OPERATORS: Mapping[type[ast.AST], Function] = {
    ast.Add: functions.ADD,
    ast.Sub: functions.SUBTRACT,
    ast.Mult: functions.MULTIPLY,
    ast.Div: functions.DIVIDE,
    ast.Lt: functions.LESS,
    ast.LtE: functions.LESS_EQUAL,
    ast.Gt: functions.GREATER,
    ast.GtE: functions.GREATER_EQUAL,
    ast.Eq: functions.EQUAL,
    ast.NotEq: functions.NOT_EQUAL,
}
_LEARNS = "it would learn from private rows, and privfit scales columns by the schema anyway; drop it"
_MIXES = "it would mix private rows; drop it"
_HINGES = "its knots would be learnt from private rows; write hinges such as np.maximum(x - 40, 0)"
_POLYNOMIALS = "it would learn from private rows; write x + I(x ** 2)"
_ABSENT = "it is not supported"
_OFFSETS = f"{_ABSENT}; the logarithm of an exposure is known of with exposure=<its column>"
_EDGES = "compare with the edges: I(x > 1)"
_REFUSED_CALLS = {
    name: why
    for names, why in (
        ("center scale standardize hashed", _LEARNS),
        ("poly", _POLYNOMIALS),
        ("lag shift roll diff rank sort mean median quantile sum cumsum std var min max", _MIXES),
        ("bs cr cs cc te ns s", _HINGES),
        ("offset", _OFFSETS),
        ("factor as_factor", f"{_ABSENT}; write C(x)"),
        ("relevel", f"{_ABSENT}; write C(x, Treatment('b'))"),
        ("Q", f"{_ABSENT}; write the name in backticks"),
        ("cut digitize floor ceil round mod", f"{_ABSENT}; {_EDGES}"),
        ("where ifelse", f"{_ABSENT}; multiply by a comparison: I((x > 1) * x)"),
    )
    for name in names.split()
}
_LOGIC = "multiply comparisons instead: I((x > 1) * (x < 2))"
_REFUSED_NODES: Mapping[type[ast.AST], tuple[str, str]] = {
    ast.Attribute: ("an attribute", "call a function as np.log(x)"),
    ast.Subscript: ("indexing", "a formula works on whole columns, row by row"),
    ast.BoolOp: ("and/or", _LOGIC),
    ast.BitAnd: ("&", _LOGIC),
    ast.BitOr: ("|", _LOGIC),
    ast.Not: ("not", _LOGIC),
    ast.Invert: ("~", _LOGIC),
    ast.Lambda: ("a lambda", "write the arithmetic itself"),
    ast.IfExp: ("if/else", "multiply by a comparison: I((x > 1) * x)"),
    ast.FloorDiv: ("//", _EDGES),
    ast.Mod: ("%", _EDGES),
    ast.BitXor: ("^", "write ** for a power: I(x ** 2)"),
}


def named_factor(name: str, schema: Schema) -> Factor:
    """Return the factor that a bare column name stands for."""
    column = _declared(name, schema)
    if isinstance(column, CategoricalColumn):
        return CategoricalFactor(name, name, 0)
    label = column.label(name)
    variable = Variable(name)
    if column.transform is None:
        return NumericFactor(label, variable)
    return NumericFactor(label, Apply(CALLABLE[column.transform], (variable,), label))


def python_factor(text: str, schema: Schema) -> Factor:
    """Return the factor that a Python expression in a formula stands for; the text is never run.

    Raises
    ------
    FormulaError
        If a part of it is not on the list of what is allowed; the message names the part and the remedy.
    """
    node, stand_ins = _parse(text, schema)
    if _depth(node) > _DEEPEST:
        raise FormulaError(f"formula: {quoted(text)} is nested too deeply; simplify it")
    translator = _Translator(schema, stand_ins)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C":
        return translator.coding(node)
    return NumericFactor(translator.text(node), translator.expression(node))


def _depth(node: ast.AST) -> int:
    depth, generation = 0, [node]
    while generation:
        generation = [child for one in generation for child in ast.iter_child_nodes(one)]
        depth += 1
    return depth


def _parse(text: str, schema: Schema) -> tuple[ast.expr, dict[str, str]]:
    """Return the syntax tree, and the columns behind names that stand for them.

    These are columns in backticks, and those whose names Python would change: to it both letters mu are one.
    """
    prefix = "quoted_"
    while prefix in text:
        prefix += "_"
    stand_ins: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        text, quoted_name, word = match.groups()
        same = word is not None and (word not in schema or unicodedata.is_normalized("NFKC", word))
        if text is not None or same:  # in a text a backtick is a character
            return match.group()
        stand_ins[f"{prefix}{len(stand_ins)}"] = quoted_name if word is None else word
        return f" {prefix}{len(stand_ins) - 1} "

    plain = _NAMES.sub(stand_in, text).strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on backslashes in texts
            return ast.parse(plain, mode="eval").body, stand_ins
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    remedy = "check its brackets and operators"
    for word in re.findall(r"\w+", plain):
        if keyword.iskeyword(word) and word in schema:
            remedy = f"write the column {word!r} in backticks, as it is a word of Python"
    raise FormulaError(f"formula: {quoted(text)} is not an expression; {remedy}")


@dataclass(frozen=True, slots=True)
class _Translator:
    """From allowed nodes of Python's syntax tree to expressions on the columns of a schema."""

    schema: Schema
    stand_ins: Mapping[str, str]

    def text(self, node: ast.AST) -> str:
        """Return how the node is written, spaced as formulaic does."""
        written = " ".join(ast.unparse(node).split("\n"))
        for stand_in, name in self.stand_ins.items():
            written = re.sub(rf"\b{stand_in}\b", lambda _, name=name: f"`{name}`", written)
        return written

    def expression(self, node: ast.expr) -> Expression:
        """Return the expression behind a node, or raise `FormulaError`."""
        match node:
            case ast.Constant():
                made = Number(self._number(node))
            case ast.Name():
                made = self._variable(node)
            case ast.Call():
                made = self._call(node)
            case ast.Compare():
                made = self._comparison(node)
            case ast.BinOp():
                made = self._arithmetic(node)
            case ast.UnaryOp():
                made = self._signed(node)
            case _:
                self._refuse(node, node)
        return made

    def coding(self, node: ast.Call) -> CategoricalFactor:
        """Return the factor behind ``C(column)`` or ``C(column, contr.treatment("base"))``."""
        if not 1 <= len(node.args) <= 2 or node.keywords or not isinstance(node.args[0], ast.Name):
            raise FormulaError(
                f"formula: {self._shown(node)} must be C(column) or C(column, contr.treatment('base')); "
                "levels come from the schema"
            )
        name = self._column_name(node.args[0])
        column = _declared(name, self.schema)
        if isinstance(column, NumericColumn):
            raise FormulaError(
                f"formula: {self._shown(node)} needs a categorical column; declare levels of {quoted(name)} "
                "in the schema"
            )
        base = 0 if len(node.args) == 1 else self._code(self._base(node.args[1]), name, column)
        return CategoricalFactor(self.text(node), name, base)

    def _base(self, node: ast.expr) -> ast.expr:
        """Return the node of the reference level in ``contr.treatment(...)`` or ``Treatment(...)``."""
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("contr.treatment", "Treatment"):
            values = [*node.args, *(k.value for k in node.keywords if k.arg in ("base", "reference"))]
            if len(values) == 1 and len(node.args) + len(node.keywords) == 1:
                return values[0]
        raise FormulaError(
            f"formula: the coding {self._shown(node)} is not supported; levels are compared with a "
            "reference, the first one or C(column, contr.treatment('base'))"
        )

    def _number(self, node: ast.Constant) -> float:
        if type(node.value) in (int, float):
            try:
                value = float(node.value)  # type: ignore[arg-type]
            except OverflowError:
                value = math.inf
            if math.isfinite(value):
                return value
            raise FormulaError("formula: a number is too large; numbers must be finite")
        raise FormulaError(
            f"formula: {self._shown(node)} is no number; a text may only be compared with a categorical "
            "column, as in I(sex == 'Male')"
        )

    def _column_name(self, node: ast.Name) -> str:
        return self.stand_ins.get(node.id, node.id)

    def _variable(self, node: ast.Name) -> Variable:
        name = self._column_name(node)
        if isinstance(_declared(name, self.schema), NumericColumn):
            return Variable(name)
        raise FormulaError(
            f"formula: {quoted(name)} is categorical and cannot enter arithmetic; let it stand alone, or "
            "compare it with a level, as in I(sex == 'Male')"
        )

    def _signed(self, node: ast.UnaryOp) -> Expression:
        if not isinstance(node.op, ast.UAdd | ast.USub):
            self._refuse(node, node.op)
        operand = self.expression(node.operand)
        if isinstance(node.op, ast.UAdd):
            return operand
        return Apply(functions.NEGATIVE, (operand,), self.text(node))

    def _arithmetic(self, node: ast.BinOp) -> Expression:
        function = functions.POWER if isinstance(node.op, ast.Pow) else _OPERATORS.get(type(node.op))
        if function is None:
            self._refuse(node, node.op)
        left, right = self.expression(node.left), self.expression(node.right)
        if function is functions.POWER:
            exponent = _constant(right)
            if exponent is not None and exponent.is_integer() and abs(exponent) <= 2**53:
                return Apply(integer_power(int(exponent)), (left,), self.text(node))
        return Apply(function, (left, right), self.text(node))

    def _comparison(self, node: ast.Compare) -> Expression:
        if len(node.ops) > 1:
            raise FormulaError(f"formula: {self._shown(node)} chains comparisons; {_LOGIC}")
        left, op, right = node.left, node.ops[0], node.comparators[0]
        if type(op) not in _OPERATORS:
            self._refuse(node, op)
        for one, other in ((left, right), (right, left)):
            column = self._categorical(one)
            if column is not None and isinstance(op, ast.Eq | ast.NotEq):
                name, declared = column
                return LevelTest(name, self._code(other, name, declared), isinstance(op, ast.Eq))
        operands = self.expression(left), self.expression(right)
        return Apply(_OPERATORS[type(op)], operands, self.text(node))

    def _categorical(self, node: ast.expr) -> tuple[str, CategoricalColumn] | None:
        if isinstance(node, ast.Name):
            name = self._column_name(node)
            column = _declared(name, self.schema)
            if isinstance(column, CategoricalColumn):
                return name, column
        return None

    def _code(self, node: ast.expr, name: str, column: CategoricalColumn) -> int:
        value = _level(node)
        for code, level in enumerate(column.levels):
            same_kind = isinstance(level, bool) == isinstance(value, bool)
            if value is not None and same_kind and level == value:
                return code
        if isinstance(value, str) and isinstance(column.levels[0], str):
            hint = suggestion(value, map(str, column.levels))
        else:
            hint = f"; its levels are {shortened(', '.join(map(repr, column.levels)))}"
        raise FormulaError(f"formula: {self._shown(node)} is no level of {quoted(name)} in the schema{hint}")

    def _call(self, node: ast.Call) -> Expression:
        name = _function_name(node.func)
        if name == "C":
            raise FormulaError("formula: C(...) is a term of its own; join it to others with + * or :")
        function = CALLABLE.get(name or "")
        if function is None and name != "I":
            last = node.func.attr if isinstance(node.func, ast.Attribute) else name
            known = f"it is not known; known functions are I, C, {', '.join(CALLABLE)}"
            raise FormulaError(
                f"formula: the call {self._shown(node.func)}(...) is refused: "
                f"{_REFUSED_CALLS.get(last or '', known)}"
            )
        arity = 1 if function is None else function.arity
        if node.keywords or len(node.args) != arity:
            count = "one argument" if arity == 1 else "two arguments"
            raise FormulaError(f"formula: {name} takes {count}, without a keyword; rewrite the call")
        arguments = tuple(self.expression(one) for one in node.args)
        return arguments[0] if function is None else Apply(function, arguments, self.text(node))

    def _refuse(self, node: ast.AST, kind: ast.AST) -> NoReturn:
        described = (
            type(kind).__name__,
            "a formula knows columns, numbers, + - * / **, comparisons and calls",
        )
        what, remedy = _REFUSED_NODES.get(type(kind), described)
        raise FormulaError(f"formula: {self._shown(node)} uses {what}, which is not supported; {remedy}")

    def _shown(self, node: ast.AST) -> str:
        return quoted(self.text(node))


def _declared(name: str, schema: Schema) -> NumericColumn | CategoricalColumn:
    if name == schema.unit:
        raise FormulaError(
            f"formula: column {quoted(name)} identifies the privacy unit and cannot be a predictor"
        )
    if name not in schema:
        raise FormulaError(undeclared(name, schema))
    return schema[name]


def _function_name(node: ast.expr) -> str | None:
    """Return ``log`` for ``log`` and ``np.log``, None for anything but such a name."""
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("np", "numpy")
    ):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _constant(expression: Expression) -> float | None:
    match expression:
        case Number(value):
            return value
        case Apply(function, (Number(value),)) if function is functions.NEGATIVE:
            return -value
        case _:
            return None


def _level(node: ast.expr) -> Level | None:
    """Return the level that a node spells, or None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _level(node.operand)
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool):
        return node.value
    return None
