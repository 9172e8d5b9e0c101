"""The service over HTTP: routes, access, limits, and the answers to errors."""
