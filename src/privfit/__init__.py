"""privfit."""
