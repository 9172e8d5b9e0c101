"""Workers and jobs over HTTP."""
