"""Bread, meat, sandwich, the privacy noise left in the estimate, and tests."""
