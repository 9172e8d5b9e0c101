"""`headway doctor`: checks settings, lifecycles, database, versions, clock, disk, destinations, port."""

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
from headway.cli.node import destinations_of, untaken_of
from headway.cli.output import CommandError, as_json, out, progress, table_of, write
from headway.cli.serve import MEND_STRANDED, Port, listen
from headway.cli.settings import App, Config, Database, Json, configured
from headway.clock import SystemClock
from headway.codec import Value, from_data, to_data
from headway.engine.nodes import unknown_versions
from headway.engine.stranded import stranded_instances
from headway.engine.upgrade.versions import pages
from headway.errors import HeadwayError
from headway.outbox.addresses import PORTS
from headway.outbox.endpoint import Endpoint
from headway.settings import Settings
from headway.statechart import functions
from headway.statechart.chart import Chart, chart_of
from headway.statechart.export import chart_hash
from headway.store import migrate
from headway.store.address import database_at, sqlite_path, store_at
from headway.store.port import Store
from headway.store.rows import ChartRow

Verdict = Literal["ok", "warning", "error", "skipped"]
SKEW_TO_TELL, SKEW_TO_MEND = timedelta(seconds=1), timedelta(seconds=30)
DISK_TO_TELL, DISK_TO_MEND = 2_000_000_000, 200_000_000
SECONDS_TO_ANSWER = 3.0
MOST_COUNTED = 100_000


class DoctorCheck(Value, omit_defaults=False):
    """The result of one check, and how to fix it."""

    name: str
    verdict: Verdict
    said: str
    fix: str = ""


class Diagnosis:
    """What the checks share: later checks use the results of earlier ones."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.apps: Apps | None = None
        self.store: Store | None = None

    async def checks(self) -> AsyncIterator[DoctorCheck]:
        """All checks, one after the other; a check that fails in an unforeseen way says so."""
        for name, check in CHECKS.items():
            try:
                yield await check(self, name)
            except (HeadwayError, OSError) as error:
                yield DoctorCheck(name, "error", str(error) or "no answer in time", FIXES.get(name, ""))
        if self.store is not None:
            await self.store.close()


async def _lifecycles(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    try:
        diagnosis.apps = apps_of(diagnosis.settings)
    except CommandError as error:
        return DoctorCheck(
            name, "error", str(error), "fix the module, or name another one: app in headway.toml"
        )
    apps = diagnosis.apps
    charts = sorted({chart_of(charted).name for charted in apps.lifecycle.charts})
    if apps.left_out:
        left = "; ".join(f"{each.name}: {each.why}" for each in apps.left_out)
        return DoctorCheck(
            name, "warning", f"left out: {left}", "name an app that provides the facts they need"
        )
    if not charts:
        return DoctorCheck(
            name, "error", "no chart is registered", "name a lifecycle: app in headway.toml, or --app"
        )
    return DoctorCheck(name, "ok", ", ".join(charts))


async def _handlers(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    if diagnosis.apps is None:
        return DoctorCheck(name, "skipped", "the lifecycles cannot be loaded")
    missing = list(without_handlers(diagnosis.apps.lifecycle))
    if missing:
        fix = "register them in the Lifecycle's handlers, or run a worker elsewhere that has them"
        return DoctorCheck(name, "warning", "; ".join(missing), fix)
    names = diagnosis.apps.lifecycle.handlers.names
    return DoctorCheck(name, "ok", ", ".join(names) or "no chart needs any")


async def _database(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    address = diagnosis.settings.database
    path = sqlite_path(address)
    if path is not None and _is_missing(path):
        return DoctorCheck(
            name, "warning", f"there is no file {path} yet", "create it with headway db up or headway serve"
        )
    async with asyncio.timeout(SECONDS_TO_ANSWER), database_at(address) as database:
        found = await migrate.status(database)
        if found.pending:
            steps = ", ".join(f"{step.version:04d} {step.name}" for step in found.pending)
            return DoctorCheck(name, "error", f"the schema lacks {steps}", "headway db up")
        if await is_behind_its_log(database):
            said = "it was restored from a dump, and its server counts transactions from the beginning"
            return DoctorCheck(name, "error", said, "headway db restored")
    store = store_at(address)
    await store.open()
    diagnosis.store = store
    return DoctorCheck(name, "ok", f"answers, with schema version {len(found.applied):04d}")


async def _charts(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    if diagnosis.apps is None or diagnosis.store is None:
        return DoctorCheck(name, "skipped", "needs the lifecycles and the database")
    rows = await diagnosis.store.charts.all()
    stored = {(row.chart, row.version): row.hash for row in rows}
    charts = [chart_of(charted) for charted in diagnosis.apps.lifecycle.charts]
    changed = [
        f"{chart.name} v{chart.version}"
        for chart in charts
        if stored.get((chart.name, chart.version), _hash(chart)) != _hash(chart)
    ]
    if changed:
        fix = "give them a new version, and upgrade living instances: headway upgrade --rehearse"
        return DoctorCheck(name, "error", f"{', '.join(changed)} differ from the stored charts", fix)
    if edited := _changed_functions(charts, rows):
        fix = "living instances follow the new code: give the chart a new version if they should not"
        return DoctorCheck(name, "warning", f"changed code: {'; '.join(edited)}", fix)
    known = {(chart.name, chart.version) for chart in charts}
    if unknown := await unknown_versions(diagnosis.store, known):
        said = f"instances live by versions that are not loaded here: {'; '.join(map(str, unknown))}"
        return DoctorCheck(
            name, "warning", said, f"load them too, or leave them to other nodes: {HOW_TO_LOAD}"
        )
    return DoctorCheck(name, "ok", "all equal the stored charts")


def _changed_functions(charts: Sequence[Chart], rows: Sequence[ChartRow]) -> list[str]:
    """The functions whose code has changed since their chart was last used."""
    before = {(row.chart, row.version): functions.stored(row.functions) for row in rows}
    found = {
        f"{chart.name} v{chart.version}": functions.changed_functions(
            before.get((chart.name, chart.version), {}), functions.fingerprints(chart)
        )
        for chart in charts
    }
    return [f"{', '.join(names)} of {chart}" for chart, names in found.items() if names]


def _hash(chart: Chart) -> str:
    return chart_hash(chart.model)


async def _versions(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    if diagnosis.store is None:
        return DoctorCheck(name, "skipped", "needs the database")
    stored = sorted((row.version, row.chart) for row in await diagnosis.store.charts.all())
    newest = {chart: version for version, chart in stored}
    older = {chart for version, chart in stored if version < newest[chart]}
    told = []
    for chart in sorted(older):
        living = await _living(diagnosis.store, chart)
        if living.keys() - {newest[chart]}:
            counts = ", ".join(f"{living[version]:,} on v{version}" for version in sorted(living))
            first = f" (of the first {MOST_COUNTED:,})" if living.total() >= MOST_COUNTED else ""
            told.append(f"{chart}: {counts}{first}; the newest is v{newest[chart]}")
    if stranded := await stranded_instances(diagnosis.store, _loaded(diagnosis)):
        return DoctorCheck(name, "error", "; ".join(map(str, stranded)), MEND_STRANDED)
    # Not a problem: instances may keep their version. But a half-done upgrade looks like this.
    return DoctorCheck(
        name, "ok", "; ".join(told) or "all instances live by the newest version of their chart"
    )


def _loaded(diagnosis: Diagnosis) -> list[Chart]:
    return [] if diagnosis.apps is None else [chart_of(each) for each in diagnosis.apps.lifecycle.charts]


async def _living(store: Store, chart: str) -> Counter[int]:
    """The number of living instances by version, up to a limit."""
    found: Counter[int] = Counter()
    async for page in pages(store, chart):
        found.update(row.version for row in page)
        if found.total() >= MOST_COUNTED:
            break
    return found


async def _clock(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    if diagnosis.store is None:
        return DoctorCheck(name, "skipped", "needs the database")
    clock = SystemClock()
    before = clock.now()
    theirs = await diagnosis.store.now()
    skew = abs(theirs - (before + (clock.now() - before) / 2))
    said = f"{skew.total_seconds():.3f} s between this machine and the database"
    if skew < SKEW_TO_TELL:
        return DoctorCheck(name, "ok", said)
    verdict: Verdict = "error" if skew > SKEW_TO_MEND else "warning"
    return DoctorCheck(name, verdict, said, "synchronise both clocks: timedatectl set-ntp true")


async def _disk(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    path = sqlite_path(diagnosis.settings.database)
    if path is None:
        return DoctorCheck(name, "skipped", "the database is on a server: check its disk there")
    free = _free(path)
    said = f"{free / 1e9:.1f} GB free for {path}"
    if free > DISK_TO_TELL:
        return DoctorCheck(name, "ok", said)
    verdict: Verdict = "error" if free < DISK_TO_MEND else "warning"
    return DoctorCheck(
        name, verdict, said, "free disk space, or keep data for a shorter time: keep_instances, keep_messages"
    )


def _is_missing(path: str) -> bool:
    return not Path(path).exists()


def _free(path: str) -> int:
    return shutil.disk_usage(Path(path).resolve().parent).free


async def _issuers(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    if not diagnosis.settings.issuers:
        return DoctorCheck(name, "ok", "none: API keys are accepted, tokens are not")
    from headway.api.tokens import Issuer, Tokens  # noqa: PLC0415 - who takes keys alone needs no package for it

    tokens = Tokens(from_data(Issuer, table) for table in diagnosis.settings.issuers)
    counts = [f"{len(await each.read())} keys at {each.source}" for each in tokens.sources]
    empty = [said for said in counts if said.startswith("0 ")]
    return DoctorCheck(
        name, "error" if empty else "ok", ", ".join(empty or counts), FIXES[name] if empty else ""
    )


async def _destinations(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    lifecycle = None if diagnosis.apps is None else diagnosis.apps.lifecycle
    places = {
        each.id: (each.address.host, each.address.port)
        for each in destinations_of(diagnosis.settings, lifecycle)
        if isinstance(each, Endpoint)
    }
    if diagnosis.settings.otlp:
        collector = urlsplit(diagnosis.settings.otlp)
        places["otlp"] = (collector.hostname or "", collector.port or PORTS[collector.scheme])
    unreachable = [
        f"{each} ({host}:{port})" for each, (host, port) in places.items() if not await _answers(host, port)
    ]
    if diagnosis.settings.redis and not await _redis_answers(diagnosis.settings.redis):
        unreachable.append("redis")
    if unreachable:
        fix = "check name, port and firewall; what cannot be delivered now is tried again later"
        return DoctorCheck(name, "warning", f"no answer from {', '.join(unreachable)}", fix)
    count = len(places) + bool(diagnosis.settings.redis)
    return DoctorCheck(name, "ok", f"{count} reachable" if count else "none is set up")


async def _messages(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    if diagnosis.apps is None:
        return DoctorCheck(name, "skipped", "the lifecycles cannot be loaded")
    try:
        lost = untaken_of(diagnosis.settings, diagnosis.apps.lifecycle)
    except HeadwayError:
        return DoctorCheck(name, "skipped", "the destinations are invalid")
    if lost:
        fix = "add a destination: [[webhooks]] in headway.toml, or destinations of the Lifecycle"
        return DoctorCheck(name, "warning", f"no destination takes {', '.join(lost)}", fix)
    return DoctorCheck(name, "ok", "each has a destination")


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


async def _port(diagnosis: Diagnosis, name: str) -> DoctorCheck:
    host, port = diagnosis.settings.host, diagnosis.settings.port
    try:
        listen(host, [port]).close()
    except CommandError as error:
        fix = "stop the process that uses it (perhaps another Headway), or name another port: port, --port"
        return DoctorCheck(name, "warning", str(error).partition(";")[0], fix)
    return DoctorCheck(name, "ok", f"{port} on {host} is free")


FIXES = {
    "database": "check that the server runs, or name another one: database in headway.toml, --database",
    "issuers": "fix issuer, audience or jwks of [[issuers]] in headway.toml; until then tokens are refused",
    "destinations": "fix webhooks in headway.toml",
}
"""How to fix what makes a check fail."""

CHECKS: dict[str, Callable[[Diagnosis, str], Awaitable[DoctorCheck]]] = {
    "lifecycles": _lifecycles,
    "handlers": _handlers,
    "database": _database,
    "charts": _charts,
    "versions": _versions,
    "clock": _clock,
    "disk": _disk,
    "issuers": _issuers,
    "destinations": _destinations,
    "messages": _messages,
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
    """Check settings, lifecycles, database, versions, clock, disk, issuers, destinations, messages, port.

    Exit code 1: a check failed.
    """
    checks = _examined(config, quiet=json, port=port, app=app, database=database)
    if json:
        write(as_json({"ok": _is_well(checks), "checks": to_data(checks)}))
    else:
        out().print(_table(checks))
    if not _is_well(checks):
        raise typer.Exit(1)


def _examined(config: str | None, *, quiet: bool, **options: Any) -> list[DoctorCheck]:
    try:
        found = configured(config, **options)
    except CommandError as error:
        return [DoctorCheck("settings", "error", str(error), "headway config shows what there is")]
    chosen = sorted({each.source for each in found.values()} - {"default"})
    first = DoctorCheck("settings", "ok", f"from {', '.join(chosen)}" if chosen else "all are the defaults")

    async def examine() -> list[DoctorCheck]:
        with progress("Checking", len(CHECKS), quiet=quiet) as seen:
            checks = [first]
            async for check in Diagnosis(found.settings).checks():
                checks.append(check)
                seen(len(checks) - 1)
        return checks

    return asyncio.run(examine())


def _is_well(checks: Sequence[DoctorCheck]) -> bool:
    return all(check.verdict != "error" for check in checks)


def _table(checks: Sequence[DoctorCheck]) -> Table:
    table = table_of("", "", "")
    table.show_header = False
    for check in checks:
        said = Text(check.said, "dim" if check.verdict in {"ok", "skipped"} else "")
        if check.fix:
            said.append(f"\n→ {check.fix}", "cyan")
        table.add_row(Text(*MARKS[check.verdict]), Text(check.name, "bold"), said)
    return table
