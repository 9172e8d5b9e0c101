"""The service over HTTP: what a caller can ask of a node, and how errors are told."""
