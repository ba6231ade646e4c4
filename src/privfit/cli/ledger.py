"""``privfit ledger``: grant, show, verify, export."""

import json
from pathlib import Path

import typer

from privfit.cli.budget import explicit_budget
from privfit.cli.output import check_writable
from privfit.cli.request import BudgetText
from privfit.data.schema import Schema
from privfit.estimators.reserved import SEEDED
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import Ledger, check_name
from privfit.privacy.ledger_file import need_ledger
from privfit.privacy.words import cost_in_words, neighbours_in_words, remainder_in_words
from privfit.results.archive import write_atomically


def run_grant(path: Path, dataset: str, budget: BudgetText, schema: Path | None) -> None:
    """Grant a budget, in a new ledger if there is none."""
    granted = explicit_budget(budget)
    declared = None if schema is None else Schema.from_toml(schema)
    check_name(dataset)  # before a file is made
    ledger = Ledger(path)
    ledger.grant(dataset, granted, schema=declared)
    typer.echo(f"Dataset {dataset!r}: {granted.describe()} granted.")
    typer.echo(_head(ledger.verify().head))


def run_show(path: Path) -> None:
    """Print the account of every data set."""
    ledger = _open(path)
    exported = ledger.export()
    lines = []
    for grant in exported["grants"]:
        name, granted = grant["dataset"], Budget.from_dict(grant["budget"])
        spends = [spend for spend in exported["reservations"] if spend["dataset"] == name]
        unfinished = sum(spend["committed_at"] is None for spend in spends)
        seeded = sum(spend["note"].endswith(SEEDED) for spend in spends)
        changes = {neighbours_in_words(spend["relation"], spend["unit"]) for spend in spends}
        pinned = "" if grant["schema"] is None else ", for one schema only"
        lines += [
            f"Dataset {name!r}",
            f"  granted   {granted.describe()}{pinned}",
            f"  spent     {cost_in_words(ledger.spent(name), granted)}",
            f"  left      {remainder_in_words(ledger.remaining(name), granted)}",
            *(f"  hidden    {change}" for change in sorted(changes)),
            f"  analyses  {len(spends)}, of which {unfinished} unfinished or crashed",
            *([f"  seeded    {seeded} of them, so not private: do not release"] if seeded else ()),
        ]
    typer.echo("\n".join(lines) or "The ledger has no grant.")
    typer.echo(_head(exported["head"]))


def run_verify(path: Path, head: str | None) -> None:
    """Check the chain of entries, and that it goes on from a head that was kept."""
    check = _open(path).verify(head)
    typer.echo(f"{check.entries} entries, none changed, removed or moved.")
    if check.since is not None:
        typer.echo(f"The given head is among them; {check.since} entries were added since.")
    typer.echo(_head(check.head))


def run_export(path: Path, out: Path | None) -> None:
    """Write all entries as JSON."""
    check_writable(out, option="--out", inputs=(path,))
    text = json.dumps(_open(path).export(), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(out, text)


def _open(path: Path) -> Ledger:
    """Open a ledger without making one."""
    need_ledger(path)
    return Ledger(path)


def _head(head: str) -> str:
    return f"Head: {head} (kept elsewhere, it shows later whether entries were cut off: verify --head)"
