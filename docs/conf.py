"""How Sphinx builds the site; see build_site.py."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

project = "privfit"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = "privfit"
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
add_module_names = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False


def _inline(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(translator: Any, node: Any) -> None:
    translator.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode


def _of_other_packages(app: Any, what: str, name: str, thing: Any, *others: Any) -> bool | None:
    """Leave out what a class inherits from scikit-learn."""
    del app, what, others
    home = getattr(thing, "__module__", None) or ""
    return True if home.startswith("sklearn") or name.endswith("_request") else None


def setup(app: Any) -> None:
    """Draw formulas as MathML, which browsers know: the site asks no other server for a script."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("autodoc-skip-member", _of_other_packages)
