"""Definition errors of a model, wherever it came from."""
