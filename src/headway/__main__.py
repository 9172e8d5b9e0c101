"""`python -m headway`: the command line."""

from headway.cli.main import main

if __name__ == "__main__":  # child processes import this module under another name
    main()
