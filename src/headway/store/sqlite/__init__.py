"""The store on SQLite: one file for each noun of the port."""
