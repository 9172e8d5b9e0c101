"""Where instances live between two events: one port, a SQLite and a PostgreSQL behind it."""
