"""Text between a pair of markers of a page: ``<!-- name: start -->`` and ``<!-- name: end -->``."""

import re
from collections.abc import Mapping
from pathlib import Path


def write_between(page: Path, blocks: Mapping[str, str]) -> None:
    """Replace what stands between the markers of a page; ``blocks`` is text by name.

    Raises
    ------
    ValueError
        If the page does not have such a pair of markers once.
    """
    text = page.read_text(encoding="utf-8")
    for name, content in blocks.items():
        start, end = f"<!-- {name}: start -->", f"<!-- {name}: end -->"
        block = f"{start}\n{content}\n{end}"
        if (text.count(start), text.count(end)) != (1, 1):
            raise ValueError(f"{page.name} does not have the markers of {name} once")
        text = re.sub(f"{start}.*{end}", lambda _, block=block: block, text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")
