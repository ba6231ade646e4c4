"""``privfit fit``."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from privfit._progress import running
from privfit.cli.output import check_all_writable, counted, deliver, write_html
from privfit.cli.prepare import prepare
from privfit.cli.request import Request, TextFile
from privfit.data.cache import RowCache
from privfit.estimators.fit import fit


@counted()
def run_fit(
    request: Request, file: TextFile, *, out: Path | None, html: Path | None, report: Path | None
) -> None:
    """Fit, write the files that were asked for, and print the summary.

    Everything that can be refused is refused before the fit spends. Afterwards a disk or a reader that fails
    stops that output alone.
    """
    outputs = {"--out": out, "--html": html, "--report": report}
    check_all_writable(outputs, inputs=(file.path, request.schema, request.ledger))
    with running("fitting"):
        prepared = prepare(request)
        rows = prepared.open(file) if file.cache is None else _cached(file, file.cache)
        prepared = prepared.within_learned_bounds(rows)
        result, _ = fit(prepared.model, prepared.encoder, rows, prepared.options)
    writes: list[Callable[[], object]] = []
    if out is not None:
        writes.append(partial(result.to_json, out))
    if html is not None:
        writes.append(partial(write_html, result, html, request.level))
    if report is not None:
        writes.append(partial(result.report, report, request.level))
    deliver(result.summary(request.level).as_text(), *writes)


def _cached(file: TextFile, folder: Path) -> RowCache:
    return RowCache(file.path, folder=folder, columns=file.columns, header=file.header, sep=file.sep)
