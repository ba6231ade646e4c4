"""The page on losses says what the code does."""

import inspect
import re
from pathlib import Path

import pytest

import privfit as pf
from privfit import losses
from privfit.data.synthetic import linear_model

PAGE = (Path(__file__).parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")
CONCRETE = [
    name
    for name in losses.__all__
    if inspect.isclass(getattr(losses, name))
    and issubclass(getattr(losses, name), losses.AbstractLoss)
    and not inspect.isabstract(getattr(losses, name))
]


def rows(heading):
    """Return the rows of the table with this first heading, by loss."""
    table = re.search(rf"^\| loss \| {heading}.*?\n\n", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert table is not None
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[0].splitlines()[2:]]
    return {row[0].strip("`| "): [cell.strip("| ") for cell in row] for row in cells if row != [""]}


def test_every_loss_has_a_row():
    assert sorted(rows("response")) == CONCRETE


@pytest.mark.parametrize("name", [name for name in CONCRETE if name not in ("Custom", "Schweppe")])
def test_rows_agree_with_the_code(name):
    loss, row = getattr(losses, name)(), rows("response")[name]
    constants = loss.constants
    assert row[1] == loss.target_kind
    assert row[5] == ("yes" if loss.convex else "no")
    assert row[6] == f"{constants.slope:g}, {constants.curvature:g}"
    assert ("kink" in row[4]) == (not constants.smooth)


@pytest.mark.parametrize("name", [name for name in CONCRETE if name not in ("Custom", "Schweppe")])
def test_self_concordance_agrees_with_the_code(name):
    constants, row = getattr(losses, name)().constants, rows("order 2").get(name)
    orders = [constants.self_concordance is not None, constants.self_concordance_3 is not None]
    assert orders == ([False, False] if row is None else [cell != "" for cell in row[1:]])


def test_the_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    scope = {}
    exec(code, scope)  # noqa: S102 -- from our own page
    x, y = linear_model(2000, (1.0,), noise_sd=0.3, seed=1)
    assert scope["model"].fit(x, y).coef_[0] == pytest.approx(1.0, abs=0.3)
    assert isinstance(scope["model"], pf.MEstimator)
