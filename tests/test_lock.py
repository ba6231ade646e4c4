"""The locked dependencies: each with hashes, and within the ranges that the package declares."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PINS = re.findall(
    r"^(\S+)==(\S+?)(?: ;[^\\]*)?((?: \\\n +--hash=sha256:[0-9a-f]{64})*)$",
    (ROOT / "requirements.lock").read_text(),
    flags=re.MULTILINE,
)


def test_every_pin_has_a_hash():
    lines = [
        line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith(" ")
    ]
    assert len(PINS) == len(lines) > 30
    assert all(hashes for _, _, hashes in PINS)


@pytest.mark.parametrize(
    "declared", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
)
def test_pins_are_within_the_declared_ranges(declared):
    requirement = Requirement(declared)
    versions = [version for name, version, _ in PINS if name == requirement.name]
    assert versions
    assert all(requirement.specifier.contains(version) for version in versions)
