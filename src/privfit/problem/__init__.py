"""The objective, its bounded queries, the plan and the one door to the rows."""
