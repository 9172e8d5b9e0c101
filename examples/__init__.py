"""Programs to run, to kill, and to copy from."""
