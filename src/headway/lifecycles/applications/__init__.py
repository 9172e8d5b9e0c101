"""Job applications: one task fills in and submits one application, alone or with a person."""

from headway.lifecycles.applications.chart import Application, ApplicationCleanup

__all__ = ["Application", "ApplicationCleanup"]
