"""How many terms a formula spells out, found before any of them is.

``a * b * c * ...`` doubles with every name, so that a short text could ask for more memory than there is.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from formulaic.parser import DefaultFormulaParser
from formulaic.parser.types import ASTNode, Token

from privfit.errors import FormulaError

MOST_COLUMNS = 100_000
"""Of a design, and so terms of a formula; a square matrix of so many coefficients has 80 GB."""
_MOST_PRODUCTS = 10**6
"""That a power multiplies out, most of which are the same."""
_MOST_FACTORS = 10
"""Categorical ones in one term: the time to find which of them lose a level grows by 4 with each."""


@dataclass(frozen=True, slots=True)
class Size:
    """Of a part of a formula: bounds on its terms, and on the categorical factors in one of them."""

    terms: int
    factors: int


def check_size(right: str, is_categorical: Mapping[str, bool]) -> None:
    """Raise `FormulaError` for a right side that spells out too many terms, or too long ones.

    Parameters
    ----------
    right : str
        With a name in place of each factor.
    is_categorical : mapping of str to bool
        Which of these names stand for categorical factors.

    Raises
    ------
    FormulaError
        As said; what formulaic raises where the text is no formula goes through.
    """
    tree = DefaultFormulaParser().get_ast(right)
    most = Size(2 ** min(len(is_categorical), 64), sum(is_categorical.values()))
    sizes: dict[int, Size] = {}
    for node in _inner_first(tree):
        operands = [
            sizes[id(part)] if isinstance(part, ASTNode) else _leaf(part, is_categorical)
            for part in node.args
        ]
        found = _SIZES.get(str(node.operator), _sum)(operands, node)
        if found.terms > MOST_COLUMNS:
            raise FormulaError(
                f"formula: it stands for more than {MOST_COLUMNS} terms; cross fewer columns with * or **"
            )
        sizes[id(node)] = Size(min(found.terms, most.terms), min(found.factors, most.factors))
        if sizes[id(node)].factors > _MOST_FACTORS:
            raise FormulaError(
                f"formula: a term may cross at most {_MOST_FACTORS} categorical columns; cross fewer"
            )


def _inner_first(tree: object) -> Sequence[ASTNode]:
    """Return the nodes of a tree, each after those in it. A long sum is a deep tree."""
    nodes, waiting = [], [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ASTNode):
            nodes.append(node)
            waiting.extend(node.args)
    return nodes[::-1]


def _leaf(part: object, is_categorical: Mapping[str, bool]) -> Size:
    return Size(1, int(is_categorical.get(part.token, False)) if isinstance(part, Token) else 0)


def _sum(parts: Sequence[Size], _: ASTNode) -> Size:
    return Size(sum(part.terms for part in parts), max((part.factors for part in parts), default=0))


def _product(parts: Sequence[Size], _: ASTNode) -> Size:
    one, other = parts
    return Size(one.terms * other.terms, one.factors + other.factors)


def _crossing(parts: Sequence[Size], node: ASTNode) -> Size:
    both = _product(parts, node)
    return Size(both.terms + sum(part.terms for part in parts), both.factors)


def _nesting(parts: Sequence[Size], _: ASTNode) -> Size:
    parents, nested = parts
    return Size(parents.terms + nested.terms, parents.terms * parents.factors + nested.factors)


def _power(parts: Sequence[Size], node: ASTNode) -> Size:
    exponent, base = int(str(list(node.args)[1])), parts[0]
    products = base.terms**exponent
    different = math.comb(base.terms + exponent - 1, exponent)
    return Size(different if products <= _MOST_PRODUCTS else products, base.factors * exponent)


_SIZES: Mapping[str, Callable[[Sequence[Size], ASTNode], Size]] = {
    ":": _product,
    "*": _crossing,
    "/": _nesting,
    "**": _power,
    "^": _power,
}
"""Operators that multiply terms; all others join them."""
