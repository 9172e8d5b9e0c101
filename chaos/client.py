"""A client: pushes the same doors as all other clients at the same time, and notes what it sees and when."""

import asyncio
from itertools import count
from random import Random
from typing import Any

from chaos.berth import TENANT, Berth, patiently
from chaos.charts import Door
from headway import Event, Refusal
from headway.engine.engine import Engine
from headway.errors import StoreError, StoreFullError, StoreUnavailableError, VersionConflictError

HANDS = 3
PUSHES = 20
LONGEST_PAUSE = 0.08
CAREFUL = 0.4
LOOK = "look"
EVENTS = ("close", "open_", "lock", "unlock")


class Hand:
    """Does one thing after the other: looks, pushes, or pushes only what has not moved since it looked."""

    def __init__(self, berth: Berth, engine: Engine, random: Random, name: str) -> None:
        self._berth, self._engine, self._random, self._name = berth, engine, random, name
        self._seen: int | None = None
        self._deeds = count()

    async def push(self, door: str) -> None:
        """Do something with a door."""
        create = lambda: self._engine.create(TENANT, door, Door, request_id=door)  # noqa: E731 - is repeated
        await patiently(create)
        self._seen = None
        for _ in range(PUSHES):
            if self._berth.control.ending:
                return
            await asyncio.sleep(self._random.uniform(0, LONGEST_PAUSE))
            event = self._random.choice((LOOK, *EVENTS))
            expects = self._seen if event != LOOK and self._random.random() < CAREFUL else None
            await self._do(door, event, expects)

    async def _do(self, door: str, event: str, expects: int | None) -> None:
        deed = f"{self._name}.{next(self._deeds)}"
        pen = self._berth.pen
        pen.note("calls", deed=deed, door=door, event=event, expects=expects)
        try:
            seen = await (self._look(door) if event == LOOK else self._send(door, event, expects, deed))
        except StoreError as error:
            # Without an answer a deed may have been done; what was told to have changed nothing was not.
            if _changed_nothing(error):
                pen.note("comes to nothing", deed=deed)
        else:
            pen.note("sees", deed=deed, **seen)
            self._seen = seen.get("seq", self._seen)

    async def _look(self, door: str) -> dict[str, Any]:
        snapshot = await self._engine.get(TENANT, door)
        return {"seq": snapshot.seq, "state": snapshot.state, "mark": snapshot.context.get("mark")}

    async def _send(self, door: str, event: str, expects: int | None, mark: str) -> dict[str, Any]:
        sent = Event(event, {"mark": mark})
        try:
            answer = await self._engine.send(TENANT, door, sent, expected_seq=expects)
        except VersionConflictError as conflict:
            return {"conflict": True, "seq": conflict.seq}
        if isinstance(answer, Refusal):
            return {"refused": answer.code}
        return {"seq": answer.seq, "state": "+".join(answer.states)}


def _changed_nothing(error: StoreError) -> bool:
    if isinstance(error, StoreUnavailableError):
        return not error.maybe_committed
    return isinstance(error, StoreFullError)


async def run(berth: Berth) -> None:
    """Push doors, one after the other, until it is time to end."""
    engine = await berth.engine()

    async def push_all(hand: int) -> None:
        setting = berth.setting
        own = Hand(berth, engine, berth.random(hand, setting.life), f"{setting.name}.{setting.life}.{hand}")
        for number in count(setting.first):
            if berth.control.ending:
                return
            berth.pen.note("sets out", number=number)
            await own.push(f"door-{number}")

    await asyncio.gather(*map(push_all, range(HANDS)))
    await engine.close()
