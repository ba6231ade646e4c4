"""What a command line asks for, checked for sense before anything is opened."""

import csv
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

import typer

ANY_ROWS = 10**9
"""Stands for a number of rows that is still looked for, or not yet read; larger than any that is refused."""


@dataclass(frozen=True, slots=True)
class BudgetText:
    """The options that state a budget, as they were typed.

    Raises
    ------
    typer.BadParameter
        If the budget is stated twice.
    """

    epsilon: float | None
    delta: float | None
    mu: float | None
    rho: float | None

    def __post_init__(self) -> None:
        pair = self.epsilon is not None or self.delta is not None
        if sum([pair, self.mu is not None, self.rho is not None]) > 1:
            raise typer.BadParameter("give the budget once: --epsilon and --delta, or --mu, or --rho")


PRIVATE = "private"
"""The ``--scale`` that is bought."""

_USUAL_SHARE = 0.1

_TAKERS = {
    "quantile": ("quantile",),
    "residual_bound": ("ols",),
    "threshold": ("huber",),
    "scale": ("huber",),
    "smoothing_width": ("quantile", "svm"),
    "predictor_bound": ("poisson",),
}
"""The models that take a constant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantsText:
    """The options that state a constant of a model, as they were typed; None for the usual one."""

    quantile: float | None = None
    residual_bound: float | None = None
    threshold: float | None = None
    scale: float | None = None
    smoothing_width: float | None = None
    predictor_bound: float | None = None

    def check(self, model: str) -> None:
        """Raise `typer.BadParameter` for one that a model does not take."""
        for one in fields(self):
            takers = _TAKERS[one.name]
            if getattr(self, one.name) is not None and model not in takers:
                option = one.name.replace("_", "-")
                raise typer.BadParameter(f"--{option} goes with --model {' or '.join(takers)}; leave it out")


def split_scale(scale: str | None, share: float | None) -> tuple[float | None, float | None]:
    """Return the residual scale that ``--scale`` states, or the part of the budget that buys scales.

    Raises
    ------
    typer.BadParameter
        If it is neither a number nor "private", or there is a part for nothing.
    """
    if scale == PRIVATE:
        return None, _USUAL_SHARE if share is None else share
    if share is not None:
        raise typer.BadParameter("--scale-share goes with --scale private")
    try:
        return None if scale is None else float(scale), None
    except ValueError:
        raise typer.BadParameter(f"--scale is a number or {PRIVATE!r}, got {scale!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The options of ``fit`` and ``plan`` as they were typed; see `privfit.cli.options`.

    ``share`` is the part of the budget by which missing bounds are learned, None where the schema has all.

    Raises
    ------
    typer.BadParameter
        If two options contradict each other.
    """

    schema: Path
    model: str
    formula: str | None
    target: str | None
    solver: str
    l2: float
    inference: bool
    level: float
    budget: BudgetText
    relation: str
    n_rows: int | None
    ledger: Path | None
    dataset: str | None
    seed: int | None
    constants: ConstantsText = field(default_factory=ConstantsText)
    share: float | None = None
    unit: str | None = None
    rows_per_unit: int = 1
    weights: str | None = None
    exposure: str | None = None

    def __post_init__(self) -> None:
        self.constants.check(self.model)
        if self.exposure is not None and self.model != "poisson":
            raise typer.BadParameter("--exposure goes with --model poisson; leave it out")
        if self.formula is not None and self.target is not None:
            raise typer.BadParameter("--formula names the response; leave --target out")
        _need_both(self.ledger, self.dataset)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookRequest:
    """The options of ``bounds`` as they were typed; see `privfit.cli.options`.

    Raises
    ------
    typer.BadParameter
        If two options contradict each other.
    """

    schema: Path
    budget: BudgetText
    relation: str
    n_rows: int | None
    unit: str | None
    rows_per_unit: int
    weights: str | None
    ledger: Path | None
    dataset: str | None
    seed: int | None

    def __post_init__(self) -> None:
        _need_both(self.ledger, self.dataset)


def _need_both(ledger: Path | None, dataset: str | None) -> None:
    if (ledger is None) != (dataset is None):
        raise typer.BadParameter("--ledger and --dataset go together")


@dataclass(frozen=True, slots=True)
class TargetText:
    """The number of rows of a plan, or what the number is to be found for; with both, epsilon is.

    Raises
    ------
    typer.BadParameter
        If neither is given, or two targets are.
    """

    rows: int | None
    width: float | None
    power: float | None
    effect: float | None
    coefficient: str | None

    def __post_init__(self) -> None:
        if (self.power is None) != (self.effect is None):
            raise typer.BadParameter("--power and --effect go together")
        if self.width is not None and self.power is not None:
            raise typer.BadParameter("give one target: --width, or --power with --effect")
        if self.rows is None and not self.wanted:
            raise typer.BadParameter("give --rows, or a target: --width, or --power with --effect")
        if self.coefficient is not None and not self.wanted:
            raise typer.BadParameter("--coefficient says what --width or --power is about; leave it out")

    @property
    def wanted(self) -> bool:
        """Whether there is a target."""
        return self.width is not None or self.power is not None

    def check(self, budget: BudgetText) -> None:
        """Raise `typer.BadParameter` if epsilon is to be found and is stated."""
        stated = (budget.epsilon, budget.mu, budget.rho)
        if self.rows is not None and self.wanted and any(value is not None for value in stated):
            raise typer.BadParameter(
                "--rows and a target ask for the epsilon that is needed; leave --epsilon, --mu and --rho "
                "out, or --rows"
            )


@dataclass(frozen=True, slots=True)
class TextFile:
    """A data file and, if it is CSV, how it is laid out."""

    path: Path
    sep: str
    header: bool
    columns: tuple[str, ...] | None
    cache: Path | None = None

    @classmethod
    def read(
        cls, path: Path, sep: str, *, no_header: bool, columns: str | None, cache: Path | None = None
    ) -> Self:
        """Return the layout that the options describe."""
        names = None if columns is None else _names(columns)
        if (names is None) != (not no_header):
            raise typer.BadParameter("--no-header and --columns go together")
        return cls(path, "\t" if sep == "\\t" else sep, not no_header, names, cache)

    @classmethod
    def of_reference(
        cls, path: Path | None, sep: str, *, no_header: bool, columns: str | None
    ) -> Self | None:
        """Return the layout of the reference table of a plan, None if there is none."""
        if path is not None:
            return cls.read(path, sep, no_header=no_header, columns=columns)
        if sep != "," or no_header or columns is not None:
            raise typer.BadParameter("--sep, --no-header and --columns say how --reference is laid out")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuessesText:
    """The options that state what a plan assumes of a table, as they were typed."""

    mean: float | None
    residual_sd: float | None
    sd: dict[str, float] | None
    center: dict[str, float] | None
    mean_weight: float | None
    mean_rows: float | None
    intraclass: float | None
    reference: TextFile | None


def _names(text: str) -> tuple[str, ...]:
    """Return names with commas between them, as a line of a CSV file has them."""
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), ()))


def by_column(given: list[str] | None, *, option: str) -> dict[str, float] | None:
    """Return the numbers of columns that were typed as ``COLUMN=NUMBER``, None without any.

    Raises
    ------
    typer.BadParameter
        If one is no such text, or names a column again.
    """
    found: dict[str, float] = {}
    for text in given or ():
        before, _, number = text.rpartition("=")
        name = before.strip()
        if not name or name in found:
            raise typer.BadParameter(f"{option} is COLUMN=NUMBER, once for each column; got {text!r}")
        try:
            found[name] = float(number)
        except ValueError:
            raise typer.BadParameter(f"{option} is COLUMN=NUMBER, got {text!r}") from None
    return found or None


_USUAL_LEVEL = 0.95


def fitted_level(level: float | None, *, inference: bool) -> float:
    """Return the coverage of the intervals of a fit, or raise `typer.BadParameter` if it will have none."""
    if not inference and level is not None:
        raise typer.BadParameter("--level is of intervals, and --no-inference buys none; leave one out")
    return _USUAL_LEVEL if level is None else level


def interval_level(level: float | None, *, intervals: bool) -> float | None:
    """Return the coverage of intervals, None without them, or raise `typer.BadParameter`."""
    if not intervals and level is not None:
        raise typer.BadParameter("--level goes with --intervals")
    return _USUAL_LEVEL if intervals and level is None else level
