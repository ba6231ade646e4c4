"""The command line: ``privfit fit | plan | check | demo``."""

from privfit.cli.app import app, main

__all__ = ["app", "main"]
