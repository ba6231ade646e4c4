"""Empirical lower bounds on privacy: what an attacker who knows all but one bit finds out."""

from privfit.auditing.compare import Claim, compare_outcomes
from privfit.auditing.game import audit
from privfit.auditing.result import AuditResult

__all__ = ["AuditResult", "Claim", "audit", "compare_outcomes"]
