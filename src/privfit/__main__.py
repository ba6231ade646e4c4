"""``python -m privfit``."""

from privfit.cli import main

main()
