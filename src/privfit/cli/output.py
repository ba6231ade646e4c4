"""Where results go: standard output and files."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer

from privfit.cli.failures import Stopped
from privfit.errors import InvalidArgument
from privfit.estimators.reserved import reservations
from privfit.results import FitResult
from privfit.results.archive import write_atomically
from privfit.results.report import page


@contextmanager
def counted() -> Iterator[None]:
    """Say, where a run is stopped by Ctrl-C, if it had reserved in a ledger what it was to spend."""
    before = reservations()
    try:
        yield
    except KeyboardInterrupt:
        if reservations() == before:
            raise
        raise Stopped("the ledger counts what was reserved for it as spent") from None


def check_writable(path: Path | None, *, option: str, inputs: Iterable[Path | None] = ()) -> None:
    """Raise `InvalidArgument` unless a file can be written there that is none of the inputs, nor in one.

    Asked before any budget is spent.
    """
    if path is None:
        return
    for given in inputs:
        if given is not None and _is_same(path, given):
            raise InvalidArgument(f"{option} names a file that is read; it would be replaced")
        if given is not None and given.is_dir() and path.resolve().is_relative_to(given.resolve()):
            raise InvalidArgument(f"{option} names a file in a folder that is read; name one elsewhere")
    folder = path.parent
    if (path.exists() and not path.is_file()) or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidArgument(f"{option} must name a file in an existing folder that can be written to")


def check_all_writable(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None]) -> None:
    """Ask `check_writable` for the file of each option, and that no two are one file."""
    given = tuple(inputs)
    seen: dict[str, Path] = {}
    for option, path in outputs.items():
        check_writable(path, option=option, inputs=given)
        if path is None:
            continue
        for other, known in seen.items():
            if _is_same(path, known):
                raise InvalidArgument(f"{option} names the file of {other}, which would be replaced")
        seen[option] = path


def _is_same(path: Path, other: Path) -> bool:
    """Return whether two paths lead to one file, whether it is there yet or not."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return path.resolve() == other.resolve()


def deliver(text: str, *writes: Callable[[], object]) -> None:
    """Write files and print a text, each of them though another fails: what they hold is paid for."""
    with ExitStack() as stack:
        stack.callback(typer.echo, text)
        for write in reversed(writes):
            stack.callback(write)


def write_html(result: FitResult, path: Path, level: float) -> None:
    """Write the summary as one self-contained page."""
    write_atomically(path, page(result.summary(level), result.target))
