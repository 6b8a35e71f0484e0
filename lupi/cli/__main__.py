"""`python -m lupi.cli`."""

from lupi.cli import main

main()
