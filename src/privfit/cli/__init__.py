"""The command line: ``privfit fit``, ``plan`` and others, see `privfit.cli.app`."""

from privfit.cli.app import app, main

__all__ = ["app", "main"]
