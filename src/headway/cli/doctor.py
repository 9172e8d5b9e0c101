"""What a doctor looks at: settings, lifecycles, database, versions, clock, disk, destinations, port."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import typer
from rich.table import Table
from rich.text import Text

from headway.cli.db import is_behind_its_log
from headway.cli.lifecycles import HOW_TO_LOAD, Apps, apps_of, without_handlers
from headway.cli.node import destinations_of
from headway.cli.output import CommandError, as_json, out, progress, table_of, write
from headway.cli.serve import Port, listen
from headway.cli.settings import App, Config, Database, Json, configured
from headway.clock import SystemClock
from headway.codec import Value, from_data, to_data
from headway.engine.nodes import unknown_versions
from headway.engine.upgrade.versions import pages
from headway.errors import HeadwayError
from headway.outbox.endpoint import PORTS, Endpoint
from headway.settings import Settings
from headway.statechart.chart import Chart, chart_of
from headway.statechart.export import chart_hash
from headway.store import migrate
from headway.store.address import database_at, sqlite_path, store_at
from headway.store.port import Store

Verdict = Literal["ok", "warning", "error", "skipped"]
SKEW_TO_TELL, SKEW_TO_MEND = timedelta(seconds=1), timedelta(seconds=30)
DISK_TO_TELL, DISK_TO_MEND = 2_000_000_000, 200_000_000
SECONDS_TO_ANSWER = 3.0
MOST_COUNTED = 100_000


class Check(Value, omit_defaults=False):
    """What was looked at, what was found, and what to do about it."""

    name: str
    verdict: Verdict
    said: str
    fix: str = ""


class Patient:
    """What the checks share: each finds out something that those after it build upon."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.apps: Apps | None = None
        self.store: Store | None = None

    async def examine(self) -> AsyncIterator[Check]:
        """All checks, one after the other; a check that fails in an unforeseen way says so."""
        for name, check in CHECKS.items():
            try:
                yield await check(self, name)
            except (HeadwayError, OSError) as error:
                yield Check(name, "error", str(error) or "no answer in time", FIXES.get(name, ""))
        if self.store is not None:
            await self.store.close()


async def _lifecycles(patient: Patient, name: str) -> Check:
    try:
        patient.apps = apps_of(patient.settings)
    except CommandError as error:
        return Check(name, "error", str(error), "mend the module, or name another one: app in headway.toml")
    apps = patient.apps
    charts = sorted({chart_of(charted).name for charted in apps.lifecycle.charts})
    if apps.left_out:
        left = "; ".join(f"{each.name}: {each.why}" for each in apps.left_out)
        return Check(name, "warning", f"left out: {left}", "give an app that knows the facts they need")
    if not charts:
        return Check(
            name, "error", "no chart is registered", "name a lifecycle: app in headway.toml, or --app"
        )
    return Check(name, "ok", ", ".join(charts))


async def _handlers(patient: Patient, name: str) -> Check:
    if patient.apps is None:
        return Check(name, "skipped", "the lifecycles cannot be loaded")
    missing = list(without_handlers(patient.apps.lifecycle))
    if missing:
        fix = "register them in the Lifecycle's handlers, or run a worker elsewhere that has them"
        return Check(name, "warning", "; ".join(missing), fix)
    names = patient.apps.lifecycle.handlers.names
    return Check(name, "ok", ", ".join(names) or "no chart needs any")


async def _database(patient: Patient, name: str) -> Check:
    address = patient.settings.database
    path = sqlite_path(address)
    if path is not None and _is_missing(path):
        return Check(
            name, "warning", f"there is no file {path} yet", "headway serve and headway db up make it"
        )
    async with asyncio.timeout(SECONDS_TO_ANSWER), database_at(address) as database:
        found = await migrate.status(database)
        if found.pending:
            steps = ", ".join(f"{step.version:04d} {step.name}" for step in found.pending)
            return Check(name, "error", f"the schema lacks {steps}", "headway db up")
        if await is_behind_its_log(database):
            said = "it was restored from a dump, and its server counts transactions from the beginning"
            return Check(name, "error", said, "headway db restored")
    store = store_at(address)
    await store.open()
    patient.store = store
    return Check(name, "ok", f"answers, with schema version {len(found.applied):04d}")


async def _charts(patient: Patient, name: str) -> Check:
    if patient.apps is None or patient.store is None:
        return Check(name, "skipped", "needs the lifecycles and the database")
    stored = {(row.chart, row.version): row.hash for row in await patient.store.charts.all()}
    charts = [chart_of(charted) for charted in patient.apps.lifecycle.charts]
    changed = [
        f"{chart.name} v{chart.version}"
        for chart in charts
        if stored.get((chart.name, chart.version), _hash(chart)) != _hash(chart)
    ]
    if changed:
        fix = "give them a new version, and bring living instances there: headway upgrade --rehearse"
        return Check(name, "error", f"{', '.join(changed)} differ from what is stored", fix)
    known = {(chart.name, chart.version) for chart in charts}
    if unknown := await unknown_versions(patient.store, known):
        said = f"instances live by versions that are not loaded here: {'; '.join(map(str, unknown))}"
        return Check(name, "warning", said, f"load them too, or leave them to other nodes: {HOW_TO_LOAD}")
    return Check(name, "ok", "all are as they are stored")


def _hash(chart: Chart) -> str:
    return chart_hash(chart.model)


async def _versions(patient: Patient, name: str) -> Check:
    if patient.store is None:
        return Check(name, "skipped", "needs the database")
    stored = sorted((row.version, row.chart) for row in await patient.store.charts.all())
    newest = {chart: version for version, chart in stored}
    older = {chart for version, chart in stored if version < newest[chart]}
    told = []
    for chart in sorted(older):
        living = await _living(patient.store, chart)
        if living.keys() - {newest[chart]}:
            counts = ", ".join(f"{living[version]:,} on v{version}" for version in sorted(living))
            first = f" (of the first {MOST_COUNTED:,})" if living.total() >= MOST_COUNTED else ""
            told.append(f"{chart}: {counts}{first}; the newest is v{newest[chart]}")
    # No trouble: instances may keep their version. But an upgrade that is half done looks like this.
    return Check(name, "ok", "; ".join(told) or "all instances live by the newest version of their chart")


async def _living(store: Store, chart: str) -> Counter[int]:
    """How many instances live by which version, as far as they are counted."""
    found: Counter[int] = Counter()
    async for page in pages(store, chart):
        found.update(row.version for row in page)
        if found.total() >= MOST_COUNTED:
            break
    return found


async def _clock(patient: Patient, name: str) -> Check:
    if patient.store is None:
        return Check(name, "skipped", "needs the database")
    clock = SystemClock()
    before = clock.now()
    theirs = await patient.store.now()
    skew = abs(theirs - (before + (clock.now() - before) / 2))
    said = f"{skew.total_seconds():.3f} s between this machine and the database"
    if skew < SKEW_TO_TELL:
        return Check(name, "ok", said)
    verdict: Verdict = "error" if skew > SKEW_TO_MEND else "warning"
    return Check(name, verdict, said, "let both keep time: timedatectl set-ntp true")


async def _disk(patient: Patient, name: str) -> Check:
    path = sqlite_path(patient.settings.database)
    if path is None:
        return Check(name, "skipped", "the database is a server's: look there")
    free = _free(path)
    said = f"{free / 1e9:.1f} GB free for {path}"
    if free > DISK_TO_TELL:
        return Check(name, "ok", said)
    verdict: Verdict = "error" if free < DISK_TO_MEND else "warning"
    return Check(name, verdict, said, "make room, or let things go sooner: keep_instances, keep_messages")


def _is_missing(path: str) -> bool:
    return not Path(path).exists()


def _free(path: str) -> int:
    return shutil.disk_usage(Path(path).resolve().parent).free


async def _issuers(patient: Patient, name: str) -> Check:
    if not patient.settings.issuers:
        return Check(name, "ok", "none: API keys are taken, and no tokens")
    from headway.api.tokens import Issuer, Tokens  # noqa: PLC0415 - who takes keys alone needs no package for it

    tokens = Tokens(from_data(Issuer, table) for table in patient.settings.issuers)
    counts = [f"{len(await each.read())} keys at {each.source}" for each in tokens.sources]
    empty = [said for said in counts if said.startswith("0 ")]
    return Check(name, "error" if empty else "ok", ", ".join(empty or counts), FIXES[name] if empty else "")


async def _destinations(patient: Patient, name: str) -> Check:
    lifecycle = None if patient.apps is None else patient.apps.lifecycle
    places = {
        each.id: (each.address.host, each.address.port)
        for each in destinations_of(patient.settings, lifecycle)
        if isinstance(each, Endpoint)
    }
    if patient.settings.otlp:
        collector = urlsplit(patient.settings.otlp)
        places["otlp"] = (collector.hostname or "", collector.port or PORTS[collector.scheme])
    unreachable = [
        f"{each} ({host}:{port})" for each, (host, port) in places.items() if not await _answers(host, port)
    ]
    if patient.settings.redis and not await _redis_answers(patient.settings.redis):
        unreachable.append("redis")
    if unreachable:
        fix = "check name, port and firewall; what cannot be delivered now is tried again later"
        return Check(name, "warning", f"no answer from {', '.join(unreachable)}", fix)
    count = len(places) + bool(patient.settings.redis)
    return Check(name, "ok", f"{count} reachable" if count else "none is set up")


async def _answers(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(SECONDS_TO_ANSWER):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _redis_answers(url: str) -> bool:
    from headway.outbox.redis import RedisServer  # noqa: PLC0415 - who has no Redis needs no client of it

    server = RedisServer(url, timeout=SECONDS_TO_ANSWER)
    try:
        await server.run([("PING",)])
    except HeadwayError:
        return False
    finally:
        await server.close()
    return True


async def _port(patient: Patient, name: str) -> Check:
    host, port = patient.settings.host, patient.settings.port
    try:
        listen(host, [port]).close()
    except CommandError as error:
        fix = "stop who has it (perhaps a Headway that runs already), or name another one: port, --port"
        return Check(name, "warning", str(error).partition(";")[0], fix)
    return Check(name, "ok", f"{port} on {host} is free")


FIXES = {
    "database": "is the server there? name another one: database in headway.toml, --database",
    "issuers": "mend issuer, audience or jwks of [[issuers]] in headway.toml; until then tokens are refused",
    "destinations": "mend webhooks in headway.toml",
}
"""What to do about a check that could not be carried out."""

CHECKS: dict[str, Callable[[Patient, str], Awaitable[Check]]] = {
    "lifecycles": _lifecycles,
    "handlers": _handlers,
    "database": _database,
    "charts": _charts,
    "versions": _versions,
    "clock": _clock,
    "disk": _disk,
    "issuers": _issuers,
    "destinations": _destinations,
    "port": _port,
}


MARKS = {
    "ok": ("✓", "bold green"),
    "warning": ("!", "bold yellow"),
    "error": ("✗", "bold red"),
    "skipped": ("–", "dim"),
}


def doctor(
    *,
    port: Port = None,
    app: App = None,
    database: Database = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Check settings, lifecycles, database, versions, clock, disk, issuers, destinations and port.

    Exit code 1: one is wrong.
    """
    checks = _examined(config, quiet=json, port=port, app=app, database=database)
    if json:
        write(as_json({"ok": _is_well(checks), "checks": to_data(checks)}))
    else:
        out().print(_table(checks))
    if not _is_well(checks):
        raise typer.Exit(1)


def _examined(config: str | None, *, quiet: bool, **options: Any) -> list[Check]:
    try:
        found = configured(config, **options)
    except CommandError as error:
        return [Check("settings", "error", str(error), "headway config shows what there is")]
    chosen = sorted({each.source for each in found.values()} - {"default"})
    first = Check("settings", "ok", f"from {', '.join(chosen)}" if chosen else "all are the defaults")

    async def examine() -> list[Check]:
        with progress("Checking", len(CHECKS), quiet=quiet) as seen:
            checks = [first]
            async for check in Patient(found.settings).examine():
                checks.append(check)
                seen(len(checks) - 1)
        return checks

    return asyncio.run(examine())


def _is_well(checks: Sequence[Check]) -> bool:
    return all(check.verdict != "error" for check in checks)


def _table(checks: Sequence[Check]) -> Table:
    table = table_of("", "", "")
    table.show_header = False
    for check in checks:
        said = Text(check.said, "dim" if check.verdict in {"ok", "skipped"} else "")
        if check.fix:
            said.append(f"\n→ {check.fix}", "cyan")
        table.add_row(Text(*MARKS[check.verdict]), Text(check.name, "bold"), said)
    return table
