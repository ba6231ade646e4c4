"""From the text of a formula to its terms.

formulaic knows the algebra of formulas: what ``a*b``, ``(a + b)**2`` and ``- 1`` mean, and which factors lose
a level so that the design keeps full rank. It sees stand-in names in place of every column and expression,
and a two-row table of zeros and ones, so that neither code nor a private row ever reaches it.
"""

import re
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pandas as pd
from formulaic import model_matrix
from formulaic.parser.algos import tokenize
from formulaic.parser.types import Token

from privfit.data.schema import Schema
from privfit.errors import FormulaError
from privfit.terms.expressions import column_names, is_comparison
from privfit.terms.factors import CategoricalFactor, Factor, NumericFactor, named_factor, python_factor
from privfit.terms.size import check_size
from privfit.terms.wording import quoted, shortened, undeclared

_HIGHEST_POWER = 4
_OPERATORS = re.compile(r"(?:\*\*|[-+*:/^])+")
_REMEDIES = {
    "~": "a formula has one ~, between the response and its predictors",
    "|": "random effects and formulas of several parts are not supported; join the terms with +",
    "i": "a %in% b is written a:b",
}


@dataclass(frozen=True, slots=True)
class ScopedFactor:
    """A factor in a term; ``reduced`` is True if a categorical one leaves out its reference level."""

    factor: Factor
    reduced: bool


@dataclass(frozen=True, slots=True)
class ParsedFormula:
    """A formula with its columns resolved.

    Parameters
    ----------
    response : str
        Name of the response.
    terms : tuple of tuples of ScopedFactor
        One entry per product of factors, in the order of the design; the empty product is the intercept.
    named : frozenset of str
        Every column that it names, the response and those whose terms are dropped again among them.
    """

    response: str
    terms: tuple[tuple[ScopedFactor, ...], ...]
    named: frozenset[str]


def parse_formula(formula: str, schema: Schema, *, as_stored: bool) -> ParsedFormula:
    """Return what a formula means for tables of this schema.

    Parameters
    ----------
    formula : str
    schema : Schema
    as_stored : bool
        Whether comparisons are numbers wherever they stand, as in results of earlier versions.

    Raises
    ------
    FormulaError
        If it does not parse, names an unknown column, uses what is not allowed on private rows, or has a
        comparison where a number and a factor mean different columns.
    """
    if not isinstance(formula, str):
        raise FormulaError(f"formula must be a text such as 'y ~ a + b', got {type(formula).__name__}")
    tokens = _tokens(formula)
    split = next((k for k, token in enumerate(tokens) if _is_tilde(token)), None)
    if split is None:
        raise FormulaError("formula has no response; write it as 'y ~ a + b'")
    response = _response(tokens[:split], schema)
    right = _without_tilde(tokens[split:])
    if not right:
        raise FormulaError("formula has no right side; write 'y ~ 1' for an intercept alone")
    factors = _Factors(schema, response)
    stood_in = " ".join(_stand_in(token, factors) for token in right)
    _check_numbers(right)
    terms = _terms(stood_in, factors, as_stored=as_stored)
    named = {name for factor in factors.by_name.values() for name in factor_columns(factor)}
    return ParsedFormula(response, terms, frozenset({response, *named}))


def _tokens(formula: str) -> list[Token]:
    try:
        return list(tokenize(formula))
    except Exception:  # its message shows the formula over several lines
        remedy = "close every bracket and quote"
        if "%" in formula:
            remedy += "; % is not supported, compare with the edges: I(x > 1)"
        raise FormulaError(f"formula cannot be read; {remedy}") from None


def _is_tilde(token: Token) -> bool:
    return token.kind is Token.Kind.OPERATOR and token.token.startswith("~")


def _response(tokens: Sequence[Token], schema: Schema) -> str:
    if len(tokens) != 1 or tokens[0].kind is not Token.Kind.NAME:
        written = re.match(r"(?:np\.)?(log1p|log|sqrt)\(", "".join(token.token for token in tokens))
        raise FormulaError(
            "formula: the left side must be one column name; declare a transform of the response in the "
            f"schema, as transform={(written[1] if written else 'log1p')!r}, and labels as its levels"
        )
    name = tokens[0].token
    if name == schema.unit:
        raise FormulaError(
            f"formula: column {quoted(name)} identifies the privacy unit and cannot be the response"
        )
    for held, marked in (("survey weights", schema.weight), ("exposures", schema.exposure)):
        if name == marked:
            raise FormulaError(f"formula: column {quoted(name)} holds the {held} and cannot be the response")
    if name not in schema:
        raise FormulaError(undeclared(name, schema))
    return name


def _without_tilde(tokens: Sequence[Token]) -> list[Token]:
    """Return the right side; the tokenizer joins the tilde with a sign that follows it."""
    rest = tokens[0].token[1:]
    head = [Token(rest, kind="operator")] if rest else []
    return [*head, *tokens[1:]]


@dataclass(frozen=True, slots=True)
class _Factors:
    """The factors of one formula and the names that stand for them."""

    schema: Schema
    response: str
    by_name: dict[str, Factor] = field(default_factory=dict)

    def stand_in(self, factor: Factor) -> str:
        """Return the name for a factor; ``sex`` and ``C(sex)`` are one, under its first spelling."""
        self._check_columns(factor)
        for name, known in self.by_name.items():
            if known == factor or _same_coding(known, factor):
                return name
        name = f"f{len(self.by_name)}"
        self.by_name[name] = factor
        return name

    def all_columns(self) -> str:
        """Return the sum of all columns but the response and those that the schema marks."""
        apart = (self.response, self.schema.unit, self.schema.weight, self.schema.exposure)
        names = [name for name in self.schema if name not in apart]
        if not names:
            raise FormulaError("formula: '.' stands for no column; the schema declares no other one")
        return f"({' + '.join(self.stand_in(named_factor(name, self.schema)) for name in names)})"

    def _check_columns(self, factor: Factor) -> None:
        for name in factor_columns(factor):
            if name == self.response:
                raise FormulaError(
                    f"formula: column {quoted(name)} cannot be both the response and a predictor"
                )


def factor_columns(factor: Factor) -> Iterable[str]:
    """Return the columns that a factor reads."""
    return (factor.name,) if isinstance(factor, CategoricalFactor) else column_names(factor.expression)


def _same_coding(one: Factor, other: Factor) -> bool:
    if isinstance(one, CategoricalFactor) and isinstance(other, CategoricalFactor):
        return (one.name, one.base) == (other.name, other.base)
    return False


def _meaning(factor: Factor) -> object:
    return factor.name if isinstance(factor, CategoricalFactor) else factor.expression


def _check_numbers(tokens: Sequence[Token]) -> None:
    """Allow 0 and 1 as terms, and small whole powers of several terms."""
    text = ["", *(token.token for token in tokens), ""]
    for k, token in enumerate(tokens, start=1):
        if token.kind is not Token.Kind.VALUE or text[k] == ".":
            continue
        if text[k - 1] in ("**", "^"):
            if text[k] not in map(str, range(1, _HIGHEST_POWER + 1)):
                raise FormulaError(
                    f"formula: the power of terms must be a whole number from 1 to {_HIGHEST_POWER}; "
                    "write I(x ** 2) for the square of a column"
                )
            base = tokens[max(k - 3, 0)]
            if base.kind in (Token.Kind.NAME, Token.Kind.PYTHON):
                raise FormulaError(
                    f"formula: the power of the single term {quoted(base.token)} would be the term itself; "
                    "write I(x ** 2) for the square of a column, and (a + b) ** 2 to cross terms"
                )
        elif text[k] not in ("0", "1") or not (_joins(text[k - 1], "+-(") and _joins(text[k + 1], "+-)")):
            raise FormulaError(
                f"formula: {quoted(text[k])} may not be a term; 0 and 1 drop or keep the intercept, and "
                "I(2 * x) multiplies a column"
            )


def _joins(text: str, allowed: str) -> bool:
    return all(character in allowed for character in text)


def _stand_in(token: Token, factors: _Factors) -> str:
    """Return what formulaic gets to see of a token."""
    text = token.token
    if text == "." and token.kind is Token.Kind.VALUE:
        return factors.all_columns()
    match token.kind:
        case Token.Kind.NAME:
            return factors.stand_in(named_factor(text, factors.schema))
        case Token.Kind.PYTHON:
            return factors.stand_in(python_factor(text, factors.schema))
        case Token.Kind.OPERATOR if not _OPERATORS.fullmatch(text):
            unknown = _REMEDIES.get(text[0], "terms are joined by + - * : / and **")
            raise FormulaError(f"formula: the operator {quoted(text)} is not allowed; {unknown}")
        case Token.Kind.CONTEXT if text not in ("(", ")"):
            raise FormulaError("formula: square brackets are not allowed; group terms with ( and )")
        case _:
            return text


def _terms(right: str, factors: _Factors, *, as_stored: bool) -> tuple[tuple[ScopedFactor, ...], ...]:
    """Return the products of factors that span the right side without redundancy."""
    compared = {
        name
        for name, factor in factors.by_name.items()
        if isinstance(factor, NumericFactor) and is_comparison(factor.expression)
    }
    try:
        structure = _structure(right, factors, frozenset())
        if compared and not as_stored:
            _check_comparisons(structure, _structure(right, factors, compared), factors, compared)
    except FormulaError:
        raise
    except Exception as error:
        raise FormulaError(f"formula: {_reason(error, factors)}") from None
    terms = tuple(
        tuple(ScopedFactor(factors.by_name[one.factor.expr], one.reduced) for one in scoped.factors)
        for term in structure
        for scoped in term.scoped_terms
    )
    if not terms:
        raise FormulaError("formula has neither an intercept nor a predictor; write 'y ~ 1' for an intercept")
    _check_distinct({one.factor: None for term in terms for one in term})
    return terms


def _check_distinct(factors: Iterable[Factor]) -> None:
    """Refuse a column twice under different spellings or codings; what was subtracted does not count."""
    seen: list[Factor] = []
    for factor in factors:
        for known in seen:
            if known.label == factor.label or _meaning(known) == _meaning(factor):
                raise FormulaError(
                    f"formula: {quoted(known.label)} and {quoted(factor.label)} are two codings or spellings "
                    "of one column; use the same one throughout"
                )
        seen.append(factor)


def _structure(right: str, factors: _Factors, compared: Set[str]) -> Any:
    """Return formulaic's terms, where those factors have levels that are categorical or ``compared``."""
    kinds = {
        name: name in compared or isinstance(factor, CategoricalFactor)
        for name, factor in factors.by_name.items()
    }
    return _spelled_out(right, tuple(kinds.items()))


@lru_cache(maxsize=64)
def _spelled_out(right: str, kinds: tuple[tuple[str, bool], ...]) -> Any:
    """Return formulaic's terms of a right side, given which of its names are categorical.

    Kept, since many fits are of one formula: to spell it out takes as long as a fit of few rows.
    """
    check_size(right, dict(kinds))
    levels = pd.Categorical(["a", "b"])
    frame = pd.DataFrame({name: levels if kind else [0.0, 1.0] for name, kind in kinds}, index=[0, 1])
    spec: Any = model_matrix(right, frame, context={}, na_action="ignore", output="numpy").model_spec
    return spec.structure


def _check_comparisons(as_numbers: Any, as_factors: Any, factors: _Factors, compared: Set[str]) -> None:
    """Refuse a comparison where R, which takes it for a factor of two levels, makes other columns of it.

    Elsewhere the number 0 or 1 is the one column that is left of the factor.
    """
    for numeric, categorical in zip(as_numbers, as_factors, strict=True):
        if _products(numeric, compared) == _products(categorical, frozenset()):
            continue
        names = [factor.expr for factor in numeric.term.factors]
        labels = {name: factors.by_name[name].label for name in names}
        one = next(name for name in names if name in compared)
        rest = ":".join(label for name, label in labels.items() if name != one)
        raise FormulaError(
            f"formula: R takes {quoted(labels[one])} for a factor, which has other columns there; add "
            f"{quoted(rest) if rest else 'the intercept'} as a term, or write I((x > 1) * 1) for the number "
            "0 or 1"
        )


def _products(term: Any, reduced: Set[str]) -> set[frozenset[tuple[str, bool]]]:
    """Return the products of factors of a term, and whether each is reduced, as those named are."""
    return {
        frozenset((one.factor.expr, one.reduced or one.factor.expr in reduced) for one in scoped.factors)
        for scoped in term.scoped_terms
    }


def _reason(error: Exception, factors: _Factors) -> str:
    """Return formulaic's first line, with labels for the names that stand for them."""
    line = (str(error).splitlines() or [""])[0]

    def label(match: re.Match[str]) -> str:
        factor = factors.by_name.get(match.group())
        return match.group() if factor is None else shortened(factor.label)

    read = re.sub(r"\bf\d+\b", label, line).rstrip(".") or "it cannot be read"
    return f"{' '.join(read.split())}; terms are joined by + - * : / and ** and grouped by ( )"
