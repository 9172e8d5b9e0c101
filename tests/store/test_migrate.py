"""Migrations: there and back, one by one, and never over what does not fit."""

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headway.cli.main import main
from headway.codec import encode, replace
from headway.errors import SchemaError, StoreError
from headway.statechart.snapshot import Snapshot
from headway.store import migrate
from headway.store.migrate import Migration
from headway.store.postgres.store import PostgresStore, postgres_database
from headway.store.rows import InstanceRow
from headway.store.sqlite.store import SqliteSchema, SqliteStore, sqlite_database
from headway.testing import FakeClock
from tests.store.contract.acts import writing
from tests.store.contract.place import instance

pytestmark = pytest.mark.mission("ENG-17")

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/database.md").read_text(encoding="utf-8")
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
LATER = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
STEPS = (
    Migration(1, "first", "CREATE TABLE a (x INTEGER); CREATE INDEX a_x ON a (x);", "DROP TABLE a;"),
    Migration(2, "second", "ALTER TABLE a ADD COLUMN y TEXT;", "ALTER TABLE a DROP COLUMN y;"),
    Migration(3, "third", "CREATE TABLE b (z TEXT); INSERT INTO b VALUES ('semi;colon');", "DROP TABLE b;"),
)


@asynccontextmanager
async def fresh(path: Path) -> AsyncIterator[SqliteSchema]:
    """A database that is made if it is not there."""
    async with sqlite_database(str(path)) as database:
        yield database


async def schema(database: SqliteSchema) -> list[Any]:
    """All that a database consists of, but for when its steps were taken."""
    return [
        [*await database.fetch("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name")],
        [*await database.fetch("SELECT version, name, checksum FROM schema_version")],
    ]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Migration]:
    """Three migrations in the place of the real ones; a test may change the list."""
    known = [*STEPS]
    monkeypatch.setattr(migrate, "migrations", lambda _dialect: tuple(known))
    return known


async def test_up_and_down_and_up_is_up(tmp_path: Path) -> None:
    """The real migrations can be taken back one by one, and leave nothing that a new start would not have."""
    async with fresh(tmp_path / "a.db") as once, fresh(tmp_path / "b.db") as again:
        await migrate.up(once)
        await migrate.up(again)
        for version in reversed(range(len(migrate.migrations("sqlite")))):
            await migrate.down(again, version)
        left = await again.fetch("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        assert [*left] == [("schema_version",)]
        await migrate.up(again)
        assert await schema(once) == await schema(again)


LIVED = Snapshot(
    "c", 1, "i", states=("a", "b"), since={"outer": LATER, "a": LATER, "b": LATER + timedelta(microseconds=5)}
)
"""In two leaf states, of which one was entered later; one of the times is a whole second."""


def stored() -> list[InstanceRow]:
    """Instances whose leaf states are derived from their snapshots; one snapshot says nothing."""
    snapshots = {"b": LIVED, "a": replace(LIVED, states=("a",)), "none": replace(LIVED, states=(), since={})}
    return [
        instance(
            id_,
            created_at=LATER,
            since=lived.reached or LATER,
            states=lived.state,
            snapshot=encode(lived).decode(),
        )
        for id_, lived in snapshots.items()
    ]


@pytest.mark.mission("CON-TELL")
async def test_leaf_states_are_derived_from_what_is_stored(tmp_path: Path, postgres_address: str) -> None:
    """A database from before has its columns filled, to the microsecond, on both."""
    path = str(tmp_path / "a.db")
    async with sqlite_database(path) as database:
        await migrate.up(database)
    for store, opened in (
        (SqliteStore(path), partial(sqlite_database, path)),
        (PostgresStore(postgres_address), partial(postgres_database, postgres_address)),
    ):
        await store.open()
        await store.run(writing(created=stored()))
        await store.close()
        async with opened() as database:
            await migrate.down(database, 4)
            await migrate.up(database)
        await store.open()
        rows = await store.instances.look_up([("acme", row.id) for row in stored()])
        await store.close()
        assert {row.id: (row.states, row.since) for row in rows} == {
            row.id: (row.states, row.since) for row in stored()
        }


@pytest.mark.usefixtures("steps")
async def test_fresh_equals_all_steps(tmp_path: Path) -> None:
    """Who comes from any version ends where a new database begins."""
    async with fresh(tmp_path / "fresh.db") as database:
        assert await migrate.up(database) == [*STEPS]
        expected = await schema(database)
    for start in range(len(STEPS)):
        async with fresh(tmp_path / f"{start}.db") as database:
            await migrate.up(database)
            assert await migrate.down(database, start) == [*reversed(STEPS[start:])]
            assert (await migrate.status(database)).pending == STEPS[start:]
            assert await migrate.up(database) == [*STEPS[start:]]
            assert await schema(database) == expected


async def test_a_step_that_fails_leaves_no_trace(tmp_path: Path, steps: list[Migration]) -> None:
    """The steps before it stay, its own first half is undone, and it can be tried again."""
    steps[1] = Migration(2, "second", "CREATE TABLE half (x INTEGER); NONSENSE;", "DROP TABLE half;")
    async with fresh(tmp_path / "a.db") as database:
        with pytest.raises(StoreError):
            await migrate.up(database)
        assert [each.version for each in (await migrate.status(database)).applied] == [1]
        steps[1] = STEPS[1]
        assert await migrate.up(database) == [*STEPS[1:]]
        assert not await database.fetch("SELECT 1 FROM sqlite_master WHERE name = 'half'")


async def test_a_changed_migration_is_refused(tmp_path: Path, steps: list[Migration]) -> None:
    """What was applied is not what stands in the file: no command goes on from there."""
    async with fresh(tmp_path / "a.db") as database:
        await migrate.up(database)
        steps[1] = STEPS[1]._replace(up=STEPS[1].up + " ")
        for command in (migrate.status, partial(migrate.check, address="here"), migrate.up):
            with pytest.raises(SchemaError, match=r"migration 2 \(second\) has changed"):
                await command(database)
        with pytest.raises(SchemaError):
            await migrate.down(database, 0)


async def test_a_missing_step_is_refused(tmp_path: Path, steps: list[Migration]) -> None:
    """A database that skipped a step is not guessed at."""
    async with fresh(tmp_path / "a.db") as database:
        await migrate.up(database)
        await database.execute("DELETE FROM schema_version WHERE version = 2")
        with pytest.raises(SchemaError, match="missing"):
            await migrate.up(database)
    assert steps


async def test_a_store_opens_only_the_schema_it_needs(tmp_path: Path, steps: list[Migration]) -> None:
    """Neither an older nor a newer one, and the error says what helps."""
    path = tmp_path / "a.db"
    store = SqliteStore(str(path))
    async with fresh(path) as database:
        await migrate.up(database)
        await store.open()
        await store.close()
        newest = steps.pop()
        with pytest.raises(SchemaError, match=r"version 3 and this Headway knows only 2.*headway db up"):
            await store.open()
        steps.append(newest)
        await migrate.down(database, 2)
        with pytest.raises(SchemaError, match=r"version 2 and .* needs version 3.*headway db up") as raised:
            await store.open()
        assert f"--database sqlite:///{path}" in str(raised.value)


@pytest.mark.usefixtures("steps")
async def test_two_who_migrate_at_once_both_succeed(tmp_path: Path) -> None:
    """Each step is taken by one of them, and the other goes on from there."""
    path = tmp_path / "a.db"
    async with fresh(path) as one, fresh(path) as other:
        taken = await asyncio.gather(migrate.up(one), migrate.up(other))
        assert sorted(step.version for each in taken for step in each) == [1, 2, 3]
        assert len((await migrate.status(one)).applied) == 3


async def test_the_time_of_a_step_is_kept(tmp_path: Path, clock: FakeClock) -> None:
    """When a step was taken stands beside it."""
    async with fresh(tmp_path / "a.db") as database:
        await migrate.up(database, clock)
        assert {each.applied_at for each in (await migrate.status(database)).applied} == {
            clock.now().isoformat()
        }


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["0001_a.up.sql", "0001_a.down.sql", "0003_c.up.sql", "0003_c.down.sql"], "gap"),
        (["0002_b.up.sql", "0002_b.down.sql"], "gap"),
        (["0001_a.up.sql"], r"0001_a\.down\.sql is missing"),
        (["0001_a.up.sql", "0001_a.down.sql", "0001_b.up.sql", "0001_b.down.sql"], "gap"),
    ],
)
def test_files_that_do_not_fit_together_are_refused(names: list[str], complaint: str) -> None:
    """Numbers count from 1 without a gap or a double, and each step has its way back."""
    with pytest.raises(SchemaError, match=complaint):
        migrate.ordered(dict.fromkeys(names, "SELECT 1;"))


@pytest.mark.parametrize("dialect", migrate.TABLES)
def test_the_real_files_fit_together(dialect: str) -> None:
    """Each database has its numbered files."""
    assert [step.version for step in migrate.migrations(dialect)][:1] == [1]


class TestCommands:
    """`headway db`, on a database named by the environment or by an option."""

    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand in an empty folder."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("COLUMNS", "140")

    def run(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
        """A command's exit code, and what it said."""
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(["db", *arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    def test_a_database_is_made_shown_and_unmade(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Up makes the file, status tells where it stands, down asks before it destroys."""
        assert self.run(capsys, "status")[0] == 2
        assert self.run(capsys, "up")[1].startswith("applied 0001 first")
        assert (tmp_path / "headway.db").exists()
        assert self.run(capsys, "up") == (0, "The schema is up to date.\n")
        code, printed = self.run(capsys, "status", "--json")
        assert (code, json.loads(printed)[0]["version"]) == (0, 1)
        monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
        assert self.run(capsys, "down")[0] == 1
        assert self.run(capsys, "status")[0] == 0
        assert self.run(capsys, "down", "--to", "0", "--yes")[1].endswith("took back 0001 first\n")
        code, printed = self.run(capsys, "status")
        assert code == 1
        assert "pending" in printed
        assert self.run(capsys, "down", "--yes") == (0, "There was nothing to undo.\n")

    def test_the_database_is_named_by_option_or_environment(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An absolute path has four slashes; the option comes before the environment."""
        monkeypatch.setenv("HEADWAY_DATABASE", "sqlite:///named.db")
        self.run(capsys, "up")
        self.run(capsys, "up", "--database", f"sqlite:///{tmp_path}/absolute.db")
        assert {"named.db", "absolute.db"} <= {each.name for each in tmp_path.iterdir()}

    @pytest.mark.parametrize("url", ["headway.db", "sqlite://", "sqlite:///", "mysql://host/name", ""])
    def test_what_is_no_database_is_refused(self, capsys: pytest.CaptureFixture[str], url: str) -> None:
        """The error says how a database is named."""
        code, printed = self.run(capsys, "up", "--database", url)
        assert code == 2
        assert "sqlite:///file.db" in printed


def documented(dialect: str) -> dict[str, list[str]]:
    """The columns of each table, by the sections of the reference."""
    sections = re.findall(r"^## ([a-z_]+)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    others = tuple(f"{name} only" for key, name in NAMES.items() if key != dialect)
    tables = {}
    for table, text in sections:
        rows = re.findall(r"^\| (`.+?) \| (.+) \|$", text, re.MULTILINE)
        columns = [columns for columns, meaning in rows if not meaning.startswith(others)]
        tables[table] = sorted(re.findall(r"`(\w+)`", " ".join(columns)))
    return tables


async def test_every_table_and_column_is_documented(tmp_path: Path) -> None:
    """The reference has a section for each table, and in it a row for each column, and none besides."""
    async with fresh(tmp_path / "a.db") as database:
        await migrate.up(database)
        rows = await database.fetch(
            "SELECT t.name, c.name FROM sqlite_master AS t, pragma_table_info(t.name) AS c"
            " WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.name"
        )
    assert grouped(rows) == documented("sqlite")


async def test_every_table_and_column_of_postgres_is_documented(postgres_address: str) -> None:
    """What differs in PostgreSQL says so."""
    async with postgres_database(postgres_address) as database:
        rows = await database.fetch(
            "SELECT table_name::text, column_name::text FROM information_schema.columns"
            " WHERE table_schema = current_schema()"
        )
    assert grouped(rows) == documented("postgres")


def grouped(rows: Sequence[Sequence[Any]]) -> dict[str, list[str]]:
    """The columns of each table."""
    return {
        table: sorted(column for owner, column in rows if owner == table)
        for table in {row[0] for row in rows}
    }
