"""`python -m headway`: the command line."""

from headway.cli.main import main

main()
