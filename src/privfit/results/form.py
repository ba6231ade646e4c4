"""The public form of a fitted model: what its coefficients act on, and how a mean follows."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from privfit.errors import InvalidArgument
from privfit.inference.effects import Link
from privfit.results.spelling import is_in_other_words, is_spelled


@dataclass(frozen=True, slots=True)
class LearnedRange:
    """Bounds of a raw column that were learned within the budget of a fit, which clamped what lay beyond."""

    name: str
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Held:
    """A bound to which residuals, of either sign, or counts beyond it are moved, in units of the response.

    Parameters
    ----------
    what : {"residuals", "counts"}
    at : float
    possible : float
        The largest ones that the declared range allows; ``inf`` where none is declared.
    """

    what: Literal["residuals", "counts"]
    at: float
    possible: float


@dataclass(frozen=True, slots=True)
class ModelForm:
    """Public facts about the model behind a result.

    Parameters
    ----------
    columns, terms : tuple of str
        Of each of the p columns of the design: its name and the term of the formula that it belongs to.
    link : {"identity", "log", "logit", "none"}
        How the mean follows from the linear predictor.
    classes : tuple of str
        Labels of a response with classes, the reference first; empty otherwise.
    centers, half_widths : tuple of float
        Public scaling of each column of the design, as in `privfit.data.design.DesignColumn`: what the
        encoder of new rows must repeat. Empty where it is not known.
    quantile : float or None
        Which quantile of the response the linear predictor is of, in (0, 1); None: its mean, or none.
    learned : tuple of LearnedRange
        Bounds that no schema declared.
    ordered : bool
        Whether the rows that were fitted had the predictors in the order of the schema, as far as they had
        names. An array of covariates is in that order; where rows were in another it is refused.
    hiding : tuple of str
        Terms that noise hides as a whole, as released matrices show, so that other coefficients are given up.
    held : Held or None
        Bound of residuals or counts that is not of the caller's choice; None where all are taken as they are.
    full : float or None
        How far out in the predictors rows may be and count in full, over how far usual rows are; None where
        no row seems to be farther, or that is not known.

    Raises
    ------
    InvalidArgument
        If these do not go together.
    """

    columns: tuple[str, ...]
    terms: tuple[str, ...]
    link: Link
    classes: tuple[str, ...] = ()
    centers: tuple[float, ...] = ()
    half_widths: tuple[float, ...] = ()
    quantile: float | None = None
    learned: tuple[LearnedRange, ...] = ()
    ordered: bool = True
    hiding: tuple[str, ...] = ()
    held: Held | None = None
    full: float | None = None

    def __post_init__(self) -> None:
        p = len(self.columns)
        if p == 0 or len(self.terms) != p or {len(self.centers), len(self.half_widths)} not in ({0}, {p}):
            raise InvalidArgument("columns, terms, centers and half_widths must have one entry per column")
        count = len(self.classes)
        if not (count > 1 if self.link == "logit" else count == 0 or (self.link == "none" and count == 2)):
            raise InvalidArgument(
                "classes must hold two or more labels for link='logit', none or two for 'none', and none else"
            )
        if not set(self.hiding) <= set(self.terms):
            raise InvalidArgument("hiding must name terms of the model")
        if self.quantile is not None and not (self.link == "identity" and 0.0 < self.quantile < 1.0):
            raise InvalidArgument("quantile must lie between 0 and 1, and goes with link='identity' alone")

    def positions(self, term: str) -> list[int]:
        """Return which coefficients belong to a term, for every class."""
        count = max(len(self.classes) - 1, 1)
        each = [k for k, name in enumerate(self.terms) if name == term]
        return [c * len(self.terms) + k for c in range(count) for k in each]

    def positions_of(self, terms: tuple[str, ...]) -> list[int]:
        """Return which coefficients belong to any of these terms, or raise `InvalidArgument`.

        They may be spelled as in the formula: factors in backquotes, spaced and ordered otherwise.
        """
        known_terms = dict.fromkeys(self.terms)
        meant = [known for term in terms for known in _meant(term, known_terms)]
        if not terms or len(meant) < len(terms):
            raise InvalidArgument(f"terms must name terms of the model: {', '.join(known_terms)}")
        return [k for term in dict.fromkeys(meant) for k in self.positions(term)]

    @property
    def of_response(self) -> str:
        """What is predicted of the response, or of the indicator of a class: ``mean``, ``quantile(0.9)``."""
        return "mean" if self.quantile is None else f"quantile({self.quantile:g})"

    @property
    def outputs(self) -> tuple[str, ...]:
        """What is predicted: as `of_response`, or the probability of every class (of two: of the second)."""
        if not self.classes:
            return (self.of_response,)
        shown = self.classes[1:] if len(self.classes) == 2 else self.classes
        return tuple(f"P({label})" for label in shown)


def _meant(term: object, terms: Iterable[str]) -> list[str]:
    """Return the terms that are spelled so, or the only one that is in other words."""
    as_it_is = [known for known in terms if is_spelled(known, term)]
    otherwise = [] if as_it_is else [known for known in terms if is_in_other_words(known, term)]
    return as_it_is or (otherwise if len(otherwise) == 1 else [])
