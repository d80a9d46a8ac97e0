"""`python -m tilewright`: the command line, where the command itself is not on the path."""

from .cli import main

main()
