"""Names that the tests of the command line share."""

CANARY = "canary-7341"
"""A cell that must never be printed."""

SCHEMA = """\
[age]
type = "numeric"
lower = 17
upper = 90

[sex]
type = "categorical"
levels = ["Female", "Male"]

[hours]
type = "numeric"
lower = 0
upper = 80

[high]
type = "categorical"
levels = ["no", "yes"]
target = true
"""
