"""Charts from SCXML 1.0 documents."""
