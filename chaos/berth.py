"""What a process of a run is told, and what it gets to work with."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from json import dumps
from pathlib import Path
from random import Random
from typing import TypeVar

from chaos import disk
from chaos.charts import CHARTS, NEW, OLD
from chaos.control import Control, WrongClock
from chaos.notes import Pen
from headway.clock import Clock
from headway.engine.engine import Engine
from headway.errors import StoreError
from headway.statechart.chart import Charted
from headway.store.address import sqlite_path, store_at

T = TypeVar("T")
TENANT = "acme"
PAUSE = 0.1


@dataclass(frozen=True)
class Setting:
    """Who a process is, where its database is, and what its life before has left to do."""

    name: str
    role: str
    seed: int
    database: str
    control: str
    again: list[int] = field(default_factory=list)
    first: int = 0
    life: int = 1

    def text(self) -> str:
        """As an argument of a command."""
        return dumps(asdict(self))


class Berth:
    """What a role gets to work with."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.control = Control(Path(setting.control))
        self.pen = Pen(setting.name)
        self.clock: Clock | None = None
        if sqlite_path(setting.database) is not None:
            self.clock = WrongClock(self.control)
            if disk.can_fail():
                disk.obey(self.control, self.random("disk"), self.pen)

    def random(self, *parts: object) -> Random:
        """Chance that is the same in each run of a seed."""
        return Random("/".join(map(str, (self.setting.seed, self.setting.name, *parts))))

    @property
    def charts(self) -> Sequence[Charted]:
        """What this life of the process knows: nodes are rolled from some versions to others and back.

        Of the senders the odd ones know the old versions alone. When a run ends, everybody knows all.
        """
        setting = self.setting
        if self.control.ending or setting.role == "client":
            return CHARTS
        if setting.role == "sender":
            return OLD if ord(setting.name[-1]) % 2 else CHARTS
        return (CHARTS, OLD, NEW)[(setting.life - 1) % 3]

    async def engine(self) -> Engine:
        """An engine that is open, as soon as the database is there."""

        async def opened() -> Engine:
            store = store_at(self.setting.database, clock=self.clock)
            engine = Engine(store, self.charts, node=self.setting.name)
            await engine.open()
            return engine

        return await patiently(opened)


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """What a call answers when the database lets it, however long that takes."""
    while True:
        try:
            return await call()
        except StoreError:
            await asyncio.sleep(PAUSE)
