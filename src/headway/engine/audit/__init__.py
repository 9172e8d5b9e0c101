"""Find what stands in a database and was not written by the engine."""
