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
import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from privfit.data.declarations import CategoricalColumn, Level, NumericColumn
from privfit.data.schema import Schema, suggestion
from privfit.errors import FormulaError
from privfit.formula import functions
from privfit.formula.expressions import Apply, Expression, LevelTest, Number, Variable
from privfit.formula.functions import CALLABLE, Function, integer_power


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

_QUOTED = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|`([^`]*)`""")
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
_REFUSED_CALLS = (
    dict.fromkeys(("center", "scale", "standardize", "poly", "hashed"), _LEARNS)
    | dict.fromkeys(("lag", "rank", "mean", "median", "sum", "cumsum", "std", "var", "min", "max"), _MIXES)
    | dict.fromkeys(("bs", "cr", "cs", "cc", "te"), _HINGES)
)
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
    ast.FloorDiv: ("//", "compare with the edges: I(x > 1)"),
    ast.Mod: ("%", "compare with the edges: I(x > 1)"),
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
    node, quoted = _parse(text)
    translator = _Translator(schema, quoted)
    try:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "C":
            return translator.coding(node)
        return NumericFactor(translator.text(node), translator.expression(node))
    except RecursionError:
        pass
    raise FormulaError("formula: an expression is nested too deeply; simplify it")


def _parse(text: str) -> tuple[ast.expr, dict[str, str]]:
    """Return the syntax tree, and the columns behind the names that stand for backticked ones."""
    prefix = "quoted_"
    while prefix in text:
        prefix += "_"
    quoted: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        if match.group(1) is not None:  # a text, in which a backtick is a character
            return match.group(1)
        quoted[f"{prefix}{len(quoted)}"] = match.group(2)
        return f" {prefix}{len(quoted) - 1} "

    plain = _QUOTED.sub(stand_in, text).strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on backslashes in texts
            return ast.parse(plain, mode="eval").body, quoted
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass
    raise FormulaError(
        f"formula: {_shortened(text)!r} is not an expression; check its brackets and operators"
    )


@dataclass(frozen=True, slots=True)
class _Translator:
    """From allowed nodes of Python's syntax tree to expressions on the columns of a schema."""

    schema: Schema
    quoted: Mapping[str, str]

    def text(self, node: ast.AST) -> str:
        """Return how the node is written, spaced as formulaic does."""
        written = " ".join(ast.unparse(node).split("\n"))
        for stand_in, name in self.quoted.items():
            written = re.sub(rf"\b{stand_in}\b", lambda _, name=name: f"`{name}`", written)
        return written

    def expression(self, node: ast.expr) -> Expression:
        """Return the expression behind a node, or raise `FormulaError`."""
        match node:
            case ast.Constant():
                return Number(self._number(node))
            case ast.Name():
                return self._variable(node)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.expression(operand)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return Apply(functions.NEGATIVE, (self.expression(operand),), self.text(node))
            case ast.BinOp(op=ast.Pow()):
                return self._power(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                operands = self.expression(left), self.expression(right)
                return Apply(_OPERATORS[type(op)], operands, self.text(node))
            case ast.Compare():
                return self._comparison(node)
            case ast.Call():
                return self._call(node)
            case ast.BinOp(op=op) | ast.UnaryOp(op=op):
                self._refuse(node, op)
            case _:
                self._refuse(node, node)

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
                f"formula: C({name}) needs a categorical column; declare {name!r} in the schema with levels"
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
            f"formula: {self._shown(node)} is no coding that privfit knows; write contr.treatment('base')"
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
        return self.quoted.get(node.id, node.id)

    def _variable(self, node: ast.Name) -> Variable:
        name = self._column_name(node)
        if isinstance(_declared(name, self.schema), NumericColumn):
            return Variable(name)
        raise FormulaError(
            f"formula: {name!r} is categorical and cannot enter arithmetic; write {name} or C({name}), "
            f"or compare it with a level: I({name} == ...)"
        )

    def _power(self, node: ast.BinOp) -> Expression:
        base, exponent = self.expression(node.left), self.expression(node.right)
        value = _constant(exponent)
        if value is not None and value.is_integer() and abs(value) <= 2**53:
            return Apply(integer_power(int(value)), (base,), self.text(node))
        return Apply(functions.POWER, (base, exponent), self.text(node))

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
        near = suggestion(str(value), map(str, column.levels))
        raise FormulaError(f"formula: {self._shown(node)} is no level of {name!r} in the schema{near}")

    def _call(self, node: ast.Call) -> Expression:
        name = _function_name(node.func)
        if name == "C":
            raise FormulaError("formula: C(...) is a term of its own; join it to others with + * or :")
        if name == "I" and len(node.args) == 1 and not node.keywords:
            return self.expression(node.args[0])
        function = CALLABLE.get(name or "")
        if function is None:
            known = f"known functions are I, C, {', '.join(CALLABLE)}"
            raise FormulaError(
                f"formula: the call {self._shown(node.func)}(...) is not allowed on private rows; "
                f"{_REFUSED_CALLS.get(name or '', known)}"
            )
        if node.keywords or len(node.args) != function.arity:
            count = "one argument" if function.arity == 1 else "two arguments"
            raise FormulaError(f"formula: {function.name} takes {count} without a name; rewrite the call")
        return Apply(function, tuple(self.expression(one) for one in node.args), self.text(node))

    def _refuse(self, node: ast.AST, kind: ast.AST) -> NoReturn:
        described = (
            type(kind).__name__,
            "a formula knows columns, numbers, + - * / **, comparisons and calls",
        )
        what, remedy = _REFUSED_NODES.get(type(kind), described)
        raise FormulaError(
            f"formula: {self._shown(node)} uses {what}, which is not allowed on private rows; {remedy}"
        )

    def _shown(self, node: ast.AST) -> str:
        return repr(_shortened(self.text(node)))


def _declared(name: str, schema: Schema) -> NumericColumn | CategoricalColumn:
    if name not in schema:
        raise FormulaError(f"formula: column {name!r} is not in the schema{suggestion(name, schema)}")
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


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
