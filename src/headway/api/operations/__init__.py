"""Routes for operators: work and workers, dead letters, and changes of many instances."""
