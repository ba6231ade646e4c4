"""Build the site of the documentation in build/site.

    make docs

README and the other pages of the repository's root become pages of the site, with their links, and so do
figures that lie elsewhere; the reference is made from docstrings. Every page, every public name and every
link is checked: what is missing, or leads nowhere, is an error.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx

ROOT = Path(__file__).resolve().parent.parent
DOCS, BUILD = ROOT / "docs", ROOT / "build"
PAGES = {
    "overview.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "contributing.md": "AGENTS.md",
}
"""Pages from outside the folder, by their name in the site."""

_LINK = re.compile(r"(\]\()([^)#\s]+)")


def staged(folder: Path) -> None:
    """Copy all pages to a folder, with links to where files lie in the site, and what else they link to."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("__pycache__", "generate_*", "markers.py"))
    for name, path in PAGES.items():
        shutil.copy(ROOT / path, folder / name)
    for page in sorted(folder.rglob("*.md")):
        place = page.relative_to(folder).as_posix()
        text = page.read_text(encoding="utf-8")
        page.write_text(relinked(text, place, folder), encoding="utf-8")


def relinked(text: str, place: str, folder: Path) -> str:
    """Return a page with links as they are in the site; other files than pages are copied into it."""
    here = ROOT / PAGES[place] if place in PAGES else DOCS / place

    def moved(match: re.Match[str]) -> str:
        target = (here.parent / match[2]).resolve()
        if "://" in match[2] or not target.is_relative_to(ROOT) or not target.exists():
            return match[0]
        name = _in_site(target)
        if target.is_file() and target.suffix != ".md" and not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, folder / name)
        return match[1] + os.path.relpath(name, Path(place).parent)

    return _LINK.sub(moved, text)


def _in_site(target: Path) -> str:
    """Return where a file of the repository lies in the site."""
    inside = target.relative_to(ROOT).as_posix()
    names = {path: name for name, path in PAGES.items()}
    return names.get(inside, inside.removeprefix("docs/"))


def main() -> int:
    """Build the site and return Sphinx's exit status."""
    source, site = BUILD / "site-source", BUILD / "site"
    staged(source)
    return sphinx(["-q", "-W", "--keep-going", "-b", "html", str(source), str(site)])


if __name__ == "__main__":
    sys.exit(main())
