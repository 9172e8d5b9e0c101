"""The store on PostgreSQL: one file for each noun of the port."""
