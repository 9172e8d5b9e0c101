"""Purchases that somebody has to approve: a small lifecycle that shows all parts of the service at work."""
