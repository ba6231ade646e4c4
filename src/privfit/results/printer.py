"""One printer for summaries: text, HTML and LaTeX from the same data."""

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from privfit.results.numbers import (
    clean,
    display_width,
    fixed,
    percent,
    pvalue,
    shorten,
    shorten_all,
    significant,
)

if TYPE_CHECKING:
    import jinja2

MAX_WIDTH = 100
_MIN_WIDTH = 78
_LATEX_NAME_WIDTH = 40
_GAP = "  "

NumberStyle: TypeAlias = Literal["significant", "statistic", "reference", "pvalue", "percent", "count"]

_NOTHING = "none"
"""What is written for a statistic that cannot be computed, and for its reference."""

_STYLES: dict[NumberStyle, Callable[[float], str]] = {
    "significant": significant,
    "statistic": lambda value: _NOTHING if math.isnan(value) else fixed(value, 3),
    "reference": lambda value: _NOTHING if math.isnan(value) else significant(value),
    "pvalue": pvalue,
    "percent": percent,
    "count": lambda value: f"{value:.0f}",
}


@dataclass(frozen=True, slots=True)
class Column:
    """Heading of a column of numbers, and how they are written."""

    label: str
    style: NumberStyle


class Printable(Protocol):
    """What the printer needs to know of a summary."""

    @property
    def title(self) -> str: ...  # noqa: D102
    @property
    def mark(self) -> str | None: ...  # noqa: D102
    @property
    def header(self) -> tuple[tuple[str, str], ...]: ...  # noqa: D102
    @property
    def columns(self) -> tuple[Column, ...]: ...  # noqa: D102
    @property
    def rows(self) -> tuple[tuple[str, tuple[float, ...]], ...]: ...  # noqa: D102
    @property
    def footers(self) -> tuple[str, ...]: ...  # noqa: D102


def _names(doc: Printable) -> list[str]:
    return [clean(name) for name, _ in doc.rows]


def cells(columns: Sequence[Column], values: Sequence[float]) -> list[str]:
    """Return a row of numbers as they are written in columns."""
    return [_STYLES[column.style](value) for column, value in zip(columns, values, strict=True)]


def _cells(doc: Printable) -> list[list[str]]:
    """Return the written numbers, row by row."""
    return [cells(doc.columns, values) for _, values in doc.rows]


# --- text ---------------------------------------------------------------------------------------------------


def to_text(doc: Printable) -> str:
    """Render as monospaced text of at most `MAX_WIDTH` columns."""
    table = _text_table(doc)
    pairs = [(clean(label), clean(value)) for label, value in doc.header]
    width = min(max([_MIN_WIDTH, *(display_width(line) for line in table)]), MAX_WIDTH)
    double, single = "=" * width, "-" * width
    mark = [doc.mark.center(width).rstrip()] if doc.mark else []
    title = shorten(clean(doc.title), width).center(width).rstrip()
    header = [double, *_text_header(pairs, width)] if pairs else []
    lines = [*mark, title, *header, double]
    lines += [table[0], single, *table[1:], double]
    for footer in doc.footers:
        lines += textwrap.wrap(clean(footer), width)
    return "\n".join([*lines, *mark])


def _text_header(pairs: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Lay short pairs out in two columns, and long ones below over the whole width."""
    half = (width - 2) // 2
    indent = max((display_width(label) for label, _ in pairs), default=0) + 3
    short = [_pair(label, value, indent) for label, value in pairs if indent + display_width(value) <= half]
    n_left = (len(short) + 1) // 2
    left, right = short[:n_left], [*short[n_left:], ""]
    lines = [f"{_pad(a, half)}{_GAP}{b}".rstrip() for a, b in zip(left, right, strict=False)]
    for label, value in pairs:
        if indent + display_width(value) > half:
            text = _pair(label, value, indent)
            lines += textwrap.wrap(text, width, subsequent_indent=" " * indent, drop_whitespace=True)
    return lines


def _pair(label: str, value: str, indent: int) -> str:
    return _pad(f"{label}:", indent) + value


def _pad(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))


def _text_table(doc: Printable) -> list[str]:
    """Return the heading and the rows, all of the same width, numbers aligned at the decimal point."""
    cells = [list(column) for column in zip(*_cells(doc), strict=True)] or [[] for _ in doc.columns]
    columns = [
        _justify(column.label, _align(written)) for column, written in zip(doc.columns, cells, strict=True)
    ]
    if _table_width(columns) > MAX_WIDTH - 24:
        columns = [
            _justify(column.label, written) for column, written in zip(doc.columns, cells, strict=True)
        ]
    room = max(MAX_WIDTH - _table_width(columns), 8)
    names = shorten_all(_names(doc), room)
    longest = max([_MIN_WIDTH - _table_width(columns), *(display_width(name) for name in names)])
    labels = [_pad(name, longest) for name in ["", *names]]
    return [_GAP.join(parts).rstrip() for parts in zip(labels, *columns, strict=True)]


def _table_width(columns: Sequence[Sequence[str]]) -> int:
    return sum(len(column[0]) + len(_GAP) for column in columns)


def _align(cells: Sequence[str]) -> list[str]:
    """Pad numbers on the right so that their decimal points come to stand below each other."""
    after = [len(cell) - (cell.find(".") if "." in cell else len(cell)) for cell in cells]
    return [cell + " " * (max(after) - right) for cell, right in zip(cells, after, strict=True)]


def _justify(label: str, cells: Sequence[str]) -> list[str]:
    width = max(len(text) for text in (label, *cells))
    return [text.rjust(width) for text in (label, *cells)]


# --- HTML ---------------------------------------------------------------------------------------------------

_HTML = """\
<section class="privfit-summary">
<style>
.privfit-summary { max-width: 60em; font: 14px/1.45 system-ui, sans-serif; }
.privfit-summary table { border-collapse: collapse; width: 100%; border: solid; border-width: 2px 0; }
.privfit-summary caption { font-weight: 600; font-size: 1.15em; padding: .4em 0; }
.privfit-summary thead th { border-bottom: 1px solid; text-align: right; }
.privfit-summary tbody th { font-weight: normal; text-align: left; overflow-wrap: anywhere; }
.privfit-summary th, .privfit-summary td { padding: .15em .6em; }
.privfit-summary td { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.privfit-summary dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: .4em 0; }
.privfit-summary dt { opacity: .7; } .privfit-summary dd { margin: 0; overflow-wrap: anywhere; }
.privfit-summary p { margin: .4em 0; font-size: .92em; }
.privfit-summary .mark { background: #b00020; color: #fff; font-weight: 700; font-size: 1.1em; \
padding: .4em .6em; text-align: center; }
</style>
{% if mark %}<p class="mark" role="alert">{{ mark }}</p>
{% endif %}{% if header %}<dl>
{% for label, value in header %}<dt>{{ label }}</dt><dd>{{ value }}</dd>
{% endfor %}</dl>
{% endif %}<table>
<caption>{{ title }}</caption>
<thead><tr><td></td>{% for label in columns %}<th scope="col">{{ label }}</th>{% endfor %}</tr></thead>
<tbody>
{% for name, cells in rows %}<tr><th scope="row">{{ name }}</th>\
{% for cell in cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody>
</table>
{% for footer in footers %}<p>{{ footer }}</p>
{% endfor %}{% if mark %}<p class="mark" role="alert">{{ mark }}</p>
{% endif %}</section>
"""


@cache
def _html_template() -> "jinja2.Template":
    import jinja2  # noqa: PLC0415 -- for pages only, and a tenth of a second

    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(_HTML)


def to_html(doc: Printable) -> str:
    """Render as one self-contained HTML element. Every text is escaped."""
    return _html_template().render(
        title=clean(doc.title),
        mark=doc.mark,
        header=[(clean(label), clean(value)) for label, value in doc.header],
        columns=[clean(column.label) for column in doc.columns],
        rows=list(zip(_names(doc), _cells(doc), strict=True)),
        footers=[clean(footer) for footer in doc.footers],
    )


# --- LaTeX --------------------------------------------------------------------------------------------------

_LATEX = {
    "e^ε": r"$e^{\varepsilon}$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "μ": r"$\mu$",
    "≈": r"$\approx$",
    "…": r"\ldots{}",
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after the end of a row, a bare [ or * would be read as its argument
    "]": "{]}",
    "*": "{*}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
}
_LATEX_SPECIAL = re.compile("|".join(re.escape(key) for key in sorted(_LATEX, key=len, reverse=True)))


def latex_escape(text: str) -> str:
    """Write a text so that LaTeX prints it as it is."""
    return _LATEX_SPECIAL.sub(lambda match: _LATEX[match[0]], clean(text))


def to_latex(doc: Printable) -> str:
    """Render as LaTeX (UTF-8) that needs no package."""
    mark = [rf"\textbf{{{latex_escape(doc.mark)}}}\\"] if doc.mark else []
    pairs = [rf"{latex_escape(label)}: & {latex_escape(value)} \\" for label, value in doc.header]
    header = [r"\begin{tabular}{lp{0.7\linewidth}}", *pairs, r"\end{tabular}\\[1ex]"] if pairs else []
    labels = [latex_escape(column.label) for column in doc.columns]
    names = [latex_escape(name) for name in shorten_all(_names(doc), _LATEX_NAME_WIDTH)]
    rows = [
        " & ".join([name, *(_latex_number(cell) for cell in cells)]) + r" \\"
        for name, cells in zip(names, _cells(doc), strict=True)
    ]
    return "\n".join(
        [
            r"\begin{center}",
            *mark,
            rf"\textbf{{{latex_escape(doc.title)}}}\\[1ex]",
            *header,
            rf"\begin{{tabular}}{{l{'r' * len(labels)}}}",
            r"\hline",
            " & ".join(["", *labels]) + r" \\",
            r"\hline",
            *rows,
            r"\hline",
            r"\end{tabular}",
            r"\end{center}",
            *(rf"\noindent{{\footnotesize {latex_escape(footer)}\par}}" for footer in doc.footers),
            *(rf"\begin{{center}}{line[:-2]}\end{{center}}" for line in mark),
        ]
    )


def _latex_number(cell: str) -> str:
    return "$-$" + latex_escape(cell[1:]) if cell.startswith("-") else latex_escape(cell)
