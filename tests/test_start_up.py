"""What starting up loads, in fresh processes, and that names imported at first use are the right ones."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import privfit

HEAVY = {
    "dask",
    "dp_accounting",
    "formulaic",
    "jinja2",
    "llvmlite",
    "matplotlib",
    "narwhals",
    "numba",
    "numpy",
    "opendp",
    "pandas",
    "polars",
    "pyarrow",
    "scipy",
    "sklearn",
    "statsmodels",
}
COMMAND_LINE = {"click", "rich", "typer"}

IMPORT = "import privfit"
HELP = "from privfit.cli import main; sys.argv = ['privfit', *{arguments}]; main()"
LISTED = """
import atexit, json, pathlib, sys
atexit.register(lambda: pathlib.Path({path!r}).write_text(json.dumps(sorted(sys.modules))))
{code}
"""


def loaded(code: str, folder: Path) -> tuple[set[str], str]:
    """Return the packages that a fresh process has loaded at its end, and what it printed."""
    path = folder / "modules.json"
    command = [sys.executable, "-c", LISTED.format(path=str(path), code=code)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 -- our own code
    return {name.partition(".")[0] for name in json.loads(path.read_text())}, done.stdout


def test_all_public_names_exist_and_load_what_the_list_of_heavy_packages_says(tmp_path):
    code = f"from privfit import *; assert set({privfit.__all__!r}) <= set(globals())"
    packages, _ = loaded(code, tmp_path)
    assert {"numba", "numpy", "pandas", "pyarrow", "scipy", "sklearn"} <= packages & HEAVY
    assert not packages & {"dp_accounting", "jinja2", "matplotlib", "polars", "statsmodels"}


def test_importing_the_package_loads_nothing_heavy(tmp_path):
    packages, _ = loaded(IMPORT, tmp_path)
    assert "privfit" in packages
    assert not packages & (HEAVY | COMMAND_LINE)


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["fit", "--help"], ["plan", "--help"], ["predict", "--help"], ["--version"]],
    ids=" ".join,
)
def test_asking_the_command_for_help_loads_nothing_heavy(arguments, tmp_path):
    packages, printed = loaded(HELP.format(arguments=arguments), tmp_path)
    assert "Usage" in printed or printed.strip() == f"privfit {privfit.__version__}"
    assert "typer" in packages
    assert not packages & HEAVY


def imported_for_type_checkers() -> dict[str, str]:
    """Return name -> module of the imports in the package under ``if TYPE_CHECKING``."""
    tree = ast.parse(Path(privfit.__file__).read_text(encoding="utf-8"))
    blocks = [
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {one.name: str(node.module) for node in imports for one in node.names}


def test_type_checkers_are_told_of_the_names_that_are_imported():
    expected = {name: f"privfit.{home}" for name, home in privfit._HOMES.items()}
    expected |= dict.fromkeys(privfit._PACKAGES, "privfit")
    assert imported_for_type_checkers() == expected


FIRST = {home: name for name, home in privfit._HOMES.items()} | {name: name for name in privfit._PACKAGES}


EACH_AS_THE_FIRST = """
import functools, importlib
from importlib.machinery import SourceFileLoader
SourceFileLoader.source_to_code = functools.cache(SourceFileLoader.source_to_code)
for name in {names!r}:
    for module in [module for module in sys.modules if module.partition(".")[0] == "privfit"]:
        del sys.modules[module]
    privfit = importlib.import_module("privfit")
    assert name in dir(privfit)
    assert getattr(privfit, name)
"""


def test_any_name_can_be_the_first(tmp_path, monkeypatch):
    """A cycle of imports would show in some orders only; nothing need be compiled, or read, each time."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    packages, _ = loaded(EACH_AS_THE_FIRST.format(names=sorted(FIRST.values())), tmp_path)
    assert "privfit" in packages


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'privfit' has no attribute 'logistic'$"):
        _ = privfit.logistic


@pytest.mark.parametrize(
    ("name", "here"), [("glm", "logit and privfit.poisson"), ("RLM", "huber"), ("wls", "ols, with weights=")]
)
def test_names_of_other_packages_lead_to_those_of_this_one(name, here):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; see privfit.{here}$"):
        getattr(privfit, name)
