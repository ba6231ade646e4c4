"""Results: estimates with their uncertainty and guarantee, summaries and files."""

from privfit.results.result import FitResult
from privfit.results.statement import PrivacyStatement, unit_in_words
from privfit.results.summary import Summary

__all__ = ["FitResult", "PrivacyStatement", "Summary", "unit_in_words"]
