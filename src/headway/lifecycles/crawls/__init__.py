"""Crawl and ingestion jobs, retried by the class of their error."""
