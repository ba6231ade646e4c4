"""Exceptions. A message names the argument, the rule and the remedy, and never holds a data value."""


class PrivfitError(Exception):
    """Base class of every error that privfit raises on purpose."""


class InvalidArgument(PrivfitError, ValueError):
    """An argument is of the wrong type or outside its range."""


class SchemaError(PrivfitError, ValueError):
    """A schema contradicts itself, or a table or formula does not match it in form."""


class LabelError(SchemaError):
    """A label column holds something outside the declared set of labels."""


class FormulaError(PrivfitError, ValueError):
    """A formula uses a name or a construct that is not allowed on private rows."""


class Incompatible(PrivfitError, ValueError):
    """A loss, solver, budget or option cannot be combined with another one."""


class BudgetExceeded(PrivfitError):
    """A ledger refuses a reservation, because it would overspend the granted budget."""


class LedgerError(PrivfitError):
    """A ledger file is locked, full, corrupt or not a ledger."""


class PlanViolation(PrivfitError):
    """A query was asked that the plan does not hold, or holds with a smaller sensitivity."""


class TooLittleData(PrivfitError):
    """The number of rows and the budget cannot support the analysis, by a rule on public facts."""


class UnexpectedError(PrivfitError, RuntimeError):
    """Something failed that should not have, after rows were opened. Its own message may quote them."""
