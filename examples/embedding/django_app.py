"""Expenses in Django, kept by a Headway service; run it for a short demonstration.

HEADWAY_URL and HEADWAY_KEY say where the service is.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import django
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.http import require_GET, require_POST

from headway.client import SyncClient
from headway.errors import ClientError, EventRefusedError, NotFoundError


# headway.py: one client for all threads of a process.
@cache
def headway() -> SyncClient:
    """The client, made when it is needed first: after a fork, each process has its own."""
    return SyncClient()


# views.py
@require_POST
def create(request: HttpRequest) -> JsonResponse:
    """Create an expense."""
    made = headway().create("Expense", context=json.loads(request.body))
    return JsonResponse({"id": made.id, "status": made.status}, status=201)


@require_GET
def show(_request: HttpRequest, name: str) -> JsonResponse:
    """Where an expense stands, and what the caller can do with it."""
    found, allowed = headway().get(name), headway().allowed(name)
    possible = [each.event for each in allowed if each.yours]
    return JsonResponse({"id": found.id, "status": found.status, "possible": possible})


@require_POST
def act(request: HttpRequest, name: str, event: str) -> JsonResponse:
    """Send an event; a repeat of the browser's form is carried out once."""
    sent = headway().send(name, event, request_id=request.headers.get("Idempotency-Key"))
    return JsonResponse({"id": sent.id, "status": sent.status})


# middleware.py
class HeadwayErrors:
    """Errors of the service as answers of the application."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        """Go on to the view."""
        return self.get_response(request)

    def process_exception(self, _request: HttpRequest, error: Exception) -> JsonResponse | None:
        """Called by Django for what a view raises."""
        if isinstance(error, EventRefusedError):
            body = {"message": str(error), "reasons": error.reasons, "allowed": error.allowed}
            return JsonResponse(body, status=409)
        if isinstance(error, NotFoundError):
            return JsonResponse({"message": "there is no such expense"}, status=404)
        if isinstance(error, ClientError):
            return JsonResponse({"message": "please try again", "request": error.request_id}, status=503)
        return None


# urls.py
urlpatterns = [
    path("expenses", create),
    path("expenses/<str:name>", show),
    path("expenses/<str:name>/<str:event>", act),
]


def main() -> None:
    """Show what the application answers, without a server."""
    settings.configure(
        ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"], MIDDLEWARE=[f"{__name__}.HeadwayErrors"]
    )
    django.setup()
    from django.test import Client  # noqa: PLC0415 - it needs the settings

    browser = Client()
    made = browser.post("/expenses", {"purpose": "train"}, content_type="application/json").json()
    place = f"/expenses/{made['id']}"
    print(made["status"], browser.get(place).json()["possible"])
    print(browser.post(f"{place}/submit").json()["status"])
    refused = browser.post(f"{place}/submit")
    print(refused.status_code, refused.json()["allowed"])
    print(browser.get("/expenses/none").status_code)


if __name__ == "__main__":
    main()
