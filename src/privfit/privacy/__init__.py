"""Budgets, their composition, the mechanisms that spend them and the ledger that records it.

``relation`` turns a bound on a row into a sensitivity, ``curves`` and ``budget`` hold the privacy calculus,
``composition`` adds events up, ``mechanisms`` adds calibrated noise (drawn in ``noise``, and nowhere else),
and ``ledger`` refuses what a granted budget does not cover.
"""
