"""Options that commands share: names and help."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

SOLVERS = (
    "adassp",
    "auto",
    "clipped-gradient-descent",
    "empirical-bayes",
    "exponential-mechanism",
    "gradient-descent",
    "newton",
    "noisy-sgd",
    "non-private",
    "objective-perturbation",
    "online-to-batch",
    "output-perturbation",
    "projected-gradient-descent",
    "random-round",
    "regularised-exponential-mechanism",
    "sufficient-statistics",
    "whitened",
    "whitened-objective-perturbation",
)
"""The names in `privfit.solvers.BY_NAME`, spelled out so that ``--help`` need not import them."""

PathOption = partial(typer.Option, readable=False)
"""Options of paths: what opens a file refuses one that may not be read, as one that is absent."""

PathArgument = partial(typer.Argument, readable=False)

_MODEL, _PRIVACY, _FILE, _OUTPUT, _TARGET = "Model", "Privacy", "Data file", "Output", "Target"


class ModelName(StrEnum):
    """The models that the command line knows."""

    LOGIT = "logit"
    OLS = "ols"
    HUBER = "huber"
    SVM = "svm"
    QUANTILE = "quantile"
    POISSON = "poisson"


class RelationName(StrEnum):
    """Neighbouring relations."""

    REPLACE = "replace"
    ADD_REMOVE = "add_remove"


DataFile = Annotated[
    Path,
    PathArgument(help="CSV (also .gz, .bz2, .zst), Parquet file or folder, or Arrow file."),
]
SchemaFile = Annotated[
    Path,
    PathOption("--schema", help="TOML file with the public bounds and levels of the columns."),
]
DraftFile = Annotated[
    Path,
    PathOption("--schema", help="TOML file with what is known of the columns; bounds may be missing."),
]

Formula = Annotated[
    str | None,
    typer.Option(
        help='Such as "y ~ a + C(b)". Without it: all columns of the schema.', rich_help_panel=_MODEL
    ),
]
TargetName = Annotated[
    str | None,
    typer.Option("--target", help="Response, if the schema marks none.", rich_help_panel=_MODEL),
]
Model = Annotated[ModelName, typer.Option(help="Regression model.", rich_help_panel=_MODEL)]
Quantile = Annotated[
    float | None,
    typer.Option(help="Which quantile, for --model quantile. Default 0.5.", rich_help_panel=_MODEL),
]
ResidualBound = Annotated[
    float | None,
    typer.Option(
        help="Largest residual that counts in full, for --model ols, in units of the response.",
        rich_help_panel=_MODEL,
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Residual scales beyond which rows pull no harder, for --model huber. Default 1.345.",
        rich_help_panel=_MODEL,
    ),
]
_RESIDUALS = "Public residual scale, for --model huber, in units of the response. Default: estimated."
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|private",
        help=f"{_RESIDUALS} With 'private' bounds that the schema leaves open are learned first, within the "
        "same budget.",
        rich_help_panel=_MODEL,
    ),
]
ScaleShare = Annotated[
    float | None,
    typer.Option(help="Part of the squared budget for --scale private. Default 0.1.", rich_help_panel=_MODEL),
]
_SMOOTHING = "Width that smooths the loss, for --model quantile (units of the response) or svm (margin)."
Smoothing = Annotated[
    float | None,
    typer.Option("--smoothing-width", "--width", help=_SMOOTHING, rich_help_panel=_MODEL),
]
PlannedSmoothing = Annotated[
    float | None, typer.Option("--smoothing-width", help=_SMOOTHING, rich_help_panel=_MODEL)
]
PredictorBound = Annotated[
    float | None,
    typer.Option(help="Largest log mean taken as it is, for --model poisson.", rich_help_panel=_MODEL),
]
Solver = Annotated[str, typer.Option(help=f"One of {', '.join(SOLVERS)}.", rich_help_panel=_MODEL)]
Ridge = Annotated[
    float, typer.Option("--l2", help="Ridge weight on the scaled columns.", rich_help_panel=_MODEL)
]
NoInference = Annotated[
    bool, typer.Option("--no-inference", help="Buy no standard errors.", rich_help_panel=_MODEL)
]
Level = Annotated[float, typer.Option(help="Coverage of the intervals.", rich_help_panel=_MODEL)]
FittedLevel = Annotated[
    float | None,
    typer.Option("--level", help="Coverage of the intervals. Default 0.95.", rich_help_panel=_MODEL),
]

Epsilon = Annotated[
    float | None,
    typer.Option(help="Budget; smaller is safer and noisier. Default 1.", rich_help_panel=_PRIVACY),
]
LookEpsilon = Annotated[
    float | None,
    typer.Option("--epsilon", help="Budget for all columns together. Default 0.1.", rich_help_panel=_PRIVACY),
]
Delta = Annotated[
    float | None,
    typer.Option(help="Probability of failure of epsilon. Default 1e-6.", rich_help_panel=_PRIVACY),
]
Mu = Annotated[float | None, typer.Option(help="Budget as Gaussian DP, instead.", rich_help_panel=_PRIVACY)]
Rho = Annotated[
    float | None, typer.Option(help="Budget as zero-concentrated DP, instead.", rich_help_panel=_PRIVACY)
]
Relation = Annotated[
    RelationName, typer.Option(help="What neighbouring tables differ in.", rich_help_panel=_PRIVACY)
]
PublicRows = Annotated[
    int | None,
    typer.Option("--n-rows", help="Public number of rows, for add_remove.", rich_help_panel=_PRIVACY),
]
Unit = Annotated[
    str | None,
    typer.Option(help="Column that identifies a person with several rows.", rich_help_panel=_PRIVACY),
]
RowsPerUnit = Annotated[
    int,
    typer.Option(help="Rows of a person up to which all rows count alike.", rich_help_panel=_PRIVACY),
]
Weights = Annotated[
    str | None,
    typer.Option(help="Column of survey weights, bounded by the schema.", rich_help_panel=_MODEL),
]
Exposure = Annotated[
    str | None,
    typer.Option(help="Column of the exposures of counts, bounded by the schema.", rich_help_panel=_MODEL),
]
LedgerFile = Annotated[
    Path | None,
    PathOption("--ledger", help="Ledger in which the spend is reserved first.", rich_help_panel=_PRIVACY),
]
Dataset = Annotated[
    str | None, typer.Option(help="Name of the data set in the ledger.", rich_help_panel=_PRIVACY)
]
Seed = Annotated[
    int | None,
    typer.Option(help="Repeatable noise, for tests: the result is NOT PRIVATE.", rich_help_panel=_PRIVACY),
]

Separator = Annotated[str, typer.Option("--sep", help="Separator of a CSV file.", rich_help_panel=_FILE)]
NoHeader = Annotated[
    bool,
    typer.Option("--no-header", help="The first line holds no names; give --columns.", rich_help_panel=_FILE),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Names of the columns, separated by commas.", rich_help_panel=_FILE),
]

Cache = Annotated[
    Path | None,
    PathOption(
        help="For a file larger than memory: encode it into files in this folder, or use those that are "
        "there. They hold private rows and stay there. With --scale private each fit adds files of its own.",
        rich_help_panel=_FILE,
    ),
]

OutFile = Annotated[
    Path | None,
    PathOption("--out", help="Write the result as JSON.", rich_help_panel=_OUTPUT),
]
HtmlFile = Annotated[
    Path | None,
    PathOption("--html", help="Write the summary as HTML.", rich_help_panel=_OUTPUT),
]
ReportFile = Annotated[
    Path | None,
    PathOption("--report", help="Write summary, plot and releases as HTML.", rich_help_panel=_OUTPUT),
]
SchemaOut = Annotated[
    Path | None,
    PathOption("--out", help="Write the schema as TOML.", rich_help_panel=_OUTPUT),
]
ResultFile = Annotated[Path, PathArgument(help="Result that fit --out wrote, as JSON.")]
Intervals = Annotated[
    bool, typer.Option("--intervals", help="Add standard errors and intervals of what is predicted.")
]
IntervalLevel = Annotated[
    float | None, typer.Option("--level", help="Coverage of the intervals. Default 0.95.")
]
PredictionFile = Annotated[
    Path | None,
    PathOption(
        "--out",
        "--output",
        help="Write predictions as CSV or Parquet, by its suffix. Default: CSV to standard output.",
        rich_help_panel=_OUTPUT,
    ),
]
PlannedRows = Annotated[
    int | None,
    typer.Option(
        "--rows",
        help="Number of rows (or of values of --unit) that the table has, or will have.",
    ),
]
Width = Annotated[
    float | None,
    typer.Option(
        help="Find the rows, or with --rows the epsilon, for an interval this wide.", rich_help_panel=_TARGET
    ),
]
Power = Annotated[
    float | None,
    typer.Option(help="Find them for this chance to find --effect.", rich_help_panel=_TARGET),
]
Effect = Annotated[
    float | None, typer.Option(help="Coefficient to be found, in raw units.", rich_help_panel=_TARGET)
]
Coefficient = Annotated[
    str | None, typer.Option(help="Which coefficient the target is about.", rich_help_panel=_TARGET)
]
Reference = Annotated[
    Path | None,
    PathOption(
        help="Public or synthetic table whose rows stand in for yours.", rich_help_panel="Assumptions"
    ),
]
MeanResponse = Annotated[
    float | None,
    typer.Option("--mean", help="Guess of the mean response, or base rate.", rich_help_panel="Assumptions"),
]
ResidualSd = Annotated[
    float | None,
    typer.Option(
        "--residual-sd",
        help="Guess of the residual standard deviation of a numeric response.",
        rich_help_panel="Assumptions",
    ),
]
Sd = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=NUMBER",
        help="Guess of a column's standard deviation, after its transform. May be repeated.",
        rich_help_panel="Assumptions",
    ),
]
Center = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN=NUMBER",
        help="Guess of a column's middle, before its transform. May be repeated.",
        rich_help_panel="Assumptions",
    ),
]
MeanWeight = Annotated[
    float | None,
    typer.Option("--mean-weight", help="Guess of the mean survey weight.", rich_help_panel="Assumptions"),
]
MeanRows = Annotated[
    float | None,
    typer.Option(
        "--mean-rows", help="Guess of the mean number of rows of a person.", rich_help_panel="Assumptions"
    ),
]
Intraclass = Annotated[
    float | None,
    typer.Option(
        "--intraclass",
        help="Guess of the intraclass correlation of a person's rows, 1 by default: all alike.",
        rich_help_panel="Assumptions",
    ),
]
PlanFile = Annotated[
    Path | None,
    PathOption("--out", help="Write the plan as JSON.", rich_help_panel=_OUTPUT),
]

LedgerPath = Annotated[Path, PathArgument(help="Ledger file.")]
GrantEpsilon = Annotated[float | None, typer.Option("--epsilon", help="Budget, with --delta.")]
GrantDelta = Annotated[
    float | None, typer.Option("--delta", help="Probability of failure of epsilon; 0 for a pure budget.")
]
LedgerExport = Annotated[Path | None, PathOption("--out", help="File to write.")]
AuditFile = Annotated[Path | None, PathOption("--out", help="Write the finding as JSON.")]
