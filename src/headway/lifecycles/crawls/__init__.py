"""Crawl and ingestion jobs, retried by the class of their error."""

from headway.lifecycles.crawls.chart import CrawlJob

__all__ = ["CrawlJob"]
