"""The report of a fit: one self-contained page with the summary, the intervals and all that was released."""

import html
import io
from collections.abc import Iterable
from typing import TYPE_CHECKING

from privfit.results.numbers import clean, significant
from privfit.results.summary import Summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privfit.problem.plan import PlannedRelease, Release

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
</head>
<body>
{body}
</body>
</html>
"""

_WHAT = {
    "gradient": "gradient",
    "hessian": "Hessian",
    "second_moment": "second moment of the rows",
    "meat": "second moment of the gradients",
    "secant": "slope between two points",
    "marginals": "means and mean squares of the columns",
    "bounded_gradient": "bounded gradient",
    "sizes": "shares of rows by the size of their gradient",
    "norms": "shares of rows by their norm",
    "counts": "shares of rows by their response",
    "residuals": "shares of rows by their residual",
    "labels": "shares of rows by their label",
    "exposures": "shares of rows by their exposure",
}


def page(summary: Summary, target: str, *parts: str) -> str:
    """Return a page that starts with a summary.

    Parameters
    ----------
    summary : Summary
    target : str
        Name of the response.
    *parts : str
        HTML elements that follow.
    """
    title = html.escape(clean(f"{summary.title}: {target}"))
    return _PAGE.format(title=title, body="\n".join((summary.as_html(), *parts)))


def report(summary: Summary, target: str, figure: "Figure | None", releases: Iterable["Release"]) -> str:
    """Return the report of a fit as a page; without Matplotlib there is no figure."""
    parts = [] if figure is None else [_section("Coefficients", _svg(figure))]
    return page(summary, target, *parts, _section("What was released", _table(releases)))


def _section(title: str, body: str) -> str:
    return f'<section class="privfit-summary">\n<h2>{html.escape(title)}</h2>\n{body}\n</section>'


def _svg(figure: "Figure") -> str:
    """Return a figure as an element of a page; the same one every time."""
    from matplotlib import rc_context  # noqa: PLC0415 -- slow and optional

    text = io.StringIO()
    with rc_context({"svg.hashsalt": "privfit"}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _table(releases: Iterable["Release"]) -> str:
    """Return a table of the releases, those of one kind and cost in a line, in the order they were asked."""
    lines: dict[tuple[str, ...], int] = {}
    for release in releases:
        line = _line(release)
        lines[line] = lines.get(line, 0) + 1
    heads = ("what", "numbers", "standard deviation of the noise", "cost", "times")
    rows = [(*line, f"{times}") for line, times in lines.items()]
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _line(release: "Release") -> tuple[str, ...]:
    planned = release.planned
    what = _WHAT.get(planned.kind, planned.kind.replace("_", " "))
    cells = (what, f"{planned.size}", significant(release.sd), _cost(planned))
    return tuple(html.escape(cell) for cell in cells)


def _cost(planned: "PlannedRelease") -> str:
    event = planned.event
    if event is None:
        return "no noise"
    if planned.sampled is not None:
        return "noisy steps on sampled rows"
    if planned.epsilon is None:
        return f"μ = {significant(planned.mu)}"
    delta = f", δ = {significant(planned.delta)}" if planned.delta > 0.0 else ""
    return f"ε = {significant(planned.epsilon)}{delta}"
