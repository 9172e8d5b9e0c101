"""A database of somebody else's is left alone, and the message does not lead anyone to damage it."""

import sqlite3
from pathlib import Path

import pytest

from headway.cli.main import main
from headway.errors import SchemaError, StoreError
from headway.node import Node
from headway.store import migrate
from headway.store.postgres.store import postgres_database
from headway.store.sqlite.store import sqlite_database
from tests.store.postgres_server import PostgresServer

pytestmark = pytest.mark.mission("ENG-17")

FOREIGN = {
    "tables": (
        "CREATE TABLE people (name TEXT); CREATE TABLE towns (name TEXT);",
        "the tables people, towns.",
    ),
    "many tables": (
        "".join(f"CREATE TABLE t{number} (x);" for number in range(8)),
        "the tables t0, t1, t2, t3, t4 and 3 more.",
    ),
    "versions": (
        "CREATE TABLE schema_version (script TEXT, success INTEGER);",
        "its table schema_version has the columns script, success.",
    ),
}


def file_of(folder: Path, sql: str) -> Path:
    """A SQLite file that some other program has made."""
    path = folder / "other.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(sql)
    connection.close()
    return path


@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_node_says_that_a_file_is_not_headways(kind: str, tmp_path: Path) -> None:
    """It says what it found, and does not advise to migrate it."""
    sql, says = FOREIGN[kind]
    path = file_of(tmp_path, sql)
    before = path.read_bytes()
    with pytest.raises(SchemaError) as told:
        await Node(f"sqlite:///{path}").open()
    assert path.read_bytes() == before
    assert "this is not a Headway database: " in str(told.value)
    assert says in str(told.value)
    assert "db up" not in str(told.value)


@pytest.mark.parametrize("kind", FOREIGN)
def test_db_up_leaves_a_foreign_file_alone(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No table is added to it, and none is read as if it were one of Headway's."""
    path = file_of(tmp_path, FOREIGN[kind][0])
    before = path.read_bytes()
    with pytest.raises(SystemExit) as ended:
        main(["db", "up", "--database", f"sqlite:///{path}"])
    assert ended.value.code == 2
    assert "this is not a Headway database" in " ".join(capsys.readouterr().err.split())
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    """A text, say, is not opened as if it were empty, and stays as it is."""
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, " * 500)
    with pytest.raises(StoreError, match="the file is not a database"):
        await Node(f"sqlite:///{path}").open()
    assert path.read_text() == "Dear reader, " * 500


async def test_an_empty_file_may_become_a_database(tmp_path: Path) -> None:
    """Nobody's tables are in it: it is made Headway's by the command that the message names."""
    path = tmp_path / "empty.db"
    path.touch()
    with pytest.raises(SchemaError, match="run `headway db up"):
        await Node(f"sqlite:///{path}").open()
    async with sqlite_database(str(path)) as database:
        assert await migrate.up(database)


async def test_a_server_may_be_shared(postgres_server: PostgresServer) -> None:
    """In PostgreSQL others have tables beside Headway's; their versions are not taken for its own."""
    async with postgres_database(postgres_server.new_database()) as database:
        await database.execute("CREATE TABLE people (name TEXT);")
        assert await migrate.up(database)
    async with postgres_database(postgres_server.new_database()) as database:
        await database.execute("CREATE TABLE schema_version (script TEXT);")
        with pytest.raises(SchemaError, match="this is not a Headway database"):
            await migrate.up(database)
