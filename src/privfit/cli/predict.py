"""``privfit predict``."""

import io
from pathlib import Path

import pandas as pd
import typer

from privfit._checks import coverage
from privfit._progress import running
from privfit.cli.inputs import read_result, read_table
from privfit.cli.output import check_writable
from privfit.cli.request import TextFile
from privfit.data.files import PARQUET_SUFFIXES
from privfit.data.tables import Table
from privfit.errors import InvalidArgument
from privfit.results import FitResult
from privfit.results.archive import write_atomically
from privfit.results.regression import PUBLIC, scaled_notes


def run_predict(result: Path, file: TextFile, *, level: float | None, out: Path | None) -> None:
    """Write a line of predictions for each row of a table, as CSV or Parquet; to standard output as CSV.

    What there is to say about them is printed beside: to standard error where they go to standard output.

    Parameters
    ----------
    result : Path
        JSON that ``fit --out`` wrote.
    file : TextFile
        The table.
    level : float or None
        Coverage of intervals, or None for predictions without standard errors.
    out : Path or None
    """
    check_writable(out, option="--out", inputs=(result, file.path))
    if out is not None and out.suffix.lower() not in (".csv", *PARQUET_SUFFIXES):
        raise InvalidArgument("--out must end in .csv or .parquet, which says how predictions are written")
    if level is not None:
        coverage(level)
    found = read_result(result)
    with running("predicting"):
        # all columns, if the result cannot say which it needs: to predict it will then refuse
        table = read_table(file, None if found.encoder is None else found.encoder.needed[:-1])
        predictions, notes = _means(found, table) if level is None else _intervals(found, table, level)
    _write(predictions, out)
    for line in (found.statement.mark, *notes, PUBLIC):
        if line is not None:
            typer.echo(line, err=out is None)


def _means(found: FitResult, table: Table) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return means, quantiles, probabilities or classes, a column for each that there are."""
    predicted = found.predict(table)
    if isinstance(predicted, pd.DataFrame):
        return predicted, ()
    classes = found.form is None or found.form.link == "none"
    notes = () if found.encoder is None else scaled_notes(found.encoder)
    return predicted.to_frame(predicted.name if classes else _outputs(found)[0]), notes


def _intervals(found: FitResult, table: Table, level: float) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return what is predicted with standard errors and ends of intervals, all of a row in a line."""
    predicted = found.get_prediction(table)
    frame, outputs = predicted.summary_frame(level), _outputs(found)
    columns = {}
    for k, output in enumerate(outputs):
        of_output = frame.iloc[k :: len(outputs)]
        columns[output] = of_output["mean"].to_numpy()
        columns[f"{output} std err"] = of_output["mean_se"].to_numpy()
        columns[f"{output} lower"] = of_output["mean_ci_lower"].to_numpy()
        columns[f"{output} upper"] = of_output["mean_ci_upper"].to_numpy()
    return pd.DataFrame(columns), predicted.notes


def _outputs(found: FitResult) -> tuple[str, ...]:
    assert found.form is not None  # noqa: S101 -- or there would be no prediction
    return found.form.outputs


def _write(predictions: pd.DataFrame, out: Path | None) -> None:
    if out is not None and out.suffix.lower() in PARQUET_SUFFIXES:
        content = io.BytesIO()
        predictions.to_parquet(content, index=False)
        write_atomically(out, content.getvalue())
        return
    text = predictions.to_csv(index=False, lineterminator="\n", na_rep="nan")
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(out, text)
