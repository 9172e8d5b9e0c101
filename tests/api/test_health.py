"""Whether the service says how it is."""

import pytest

from tests.api.serving import Service

pytestmark = pytest.mark.mission("ENG-2")


async def test_a_service_with_a_database_is_alive_and_ready(service: Service) -> None:
    """A service that runs says that it lives and that it can answer, to anybody."""
    del service.client.headers["authorization"]
    for path, status in (("/health", "alive"), ("/ready", "ready")):
        answer = await service.client.get(path)
        assert (answer.status_code, answer.json()["status"]) == (200, status)


async def test_a_service_that_is_about_to_stop_is_alive_and_not_ready(service: Service) -> None:
    """Who asks before sending more is told to go elsewhere, while requests are still answered."""
    service.app.stop()
    answer = await service.client.get("/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "5"
    assert (await service.client.get("/health")).status_code == 200
    assert (await service.client.get("/v1/charts")).status_code == 200


async def test_a_service_without_its_database_is_alive_and_not_ready(service: Service) -> None:
    """When the database is gone, that is what is told, and nothing of the error's text."""
    await service.node.engine.store.close()
    answer = await service.client.get("/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert (await service.client.get("/health")).status_code == 200
    await service.node.engine.store.open()
