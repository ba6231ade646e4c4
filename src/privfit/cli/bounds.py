"""``privfit bounds``: bounds that no public fact tells, learned with privacy."""

from functools import partial
from pathlib import Path

from privfit.cli.budget import budget_from
from privfit.cli.output import check_writable, counted, deliver
from privfit.cli.prepare import existing_ledger
from privfit.cli.request import LookRequest, TextFile
from privfit.estimators.learned import EPSILON, learn_bounds


@counted()
def run_bounds(request: LookRequest, file: TextFile, *, out: Path | None) -> None:
    """Print the bounds, and write the schema that holds them if asked for.

    Columns that noise hides are written without bounds: the file is then a draft as the one before.
    """
    check_writable(out, option="--out", inputs=(file.path, request.schema, request.ledger))
    learned = learn_bounds(
        file.path,
        request.schema,
        budget=budget_from(request.budget, usual=EPSILON),
        relation=request.relation,
        n_rows=request.n_rows,
        unit=request.unit,
        rows_per_unit=request.rows_per_unit,
        weights=request.weights,
        ledger=existing_ledger(request.ledger),
        dataset=request.dataset,
        random_state=request.seed,
        columns=file.columns,
        header=file.header,
        sep=file.sep,
    )
    writes = () if out is None else (partial(learned.to_toml, out),)
    deliver(learned.summary().as_text(), *writes)
