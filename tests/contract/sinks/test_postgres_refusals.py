"""What a PostgreSQL server or a pooler refuses: found at the start, made to work, or waited for."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
import sinkcontexts
from machines import postgres_sink
from postgresserver import Postgres
from psycopg import conninfo
from statefulspark import errors
from statefulspark.sinks.base import SinkContext
from statefulspark.sinks.postgres.sink import PostgresMachine
from statefulspark.sinks.secret import Secret
from statefulspark.storage import StorageOptions

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
_ROLES = itertools.count(1)


@pytest.fixture
def dsn(postgres_database: str) -> str:
    run(postgres_database, "CREATE TABLE words (id bigint PRIMARY KEY, word text)")
    return postgres_database


@pytest.fixture
def role(dsn: str) -> str:
    """A role without any right but to log in."""
    name = f"role_{next(_ROLES)}"
    run(dsn, f"CREATE ROLE {name} LOGIN PASSWORD 'first'; REVOKE ALL ON SCHEMA public FROM PUBLIC")
    run(dsn, f"GRANT USAGE ON SCHEMA public TO {name}")
    return name


@pytest.fixture
def context(tmp_path: Path) -> SinkContext:
    options = StorageOptions(allow_local_files=True)
    return sinkcontexts.a_sink_context(staging_uri=(tmp_path / "staged").as_uri(), options=options)


def run(dsn: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(dsn) as connection:
        done = connection.execute(statement.encode())
        return done.fetchall() if done.description else []


def as_role(dsn: str, role: str, password: str = "first") -> str:  # noqa: S107 -- of a test's role
    return conninfo.make_conninfo(dsn, user=role, password=password)


def refusal(sink: PostgresMachine) -> errors.SpecRejectedError:
    with pytest.raises(errors.SpecRejectedError) as refused:
        sink.check_schema(SCHEMA, StorageOptions())
    return refused.value


def commit(sink: PostgresMachine, context: SinkContext, rows: dict[int, str]) -> None:
    batch = pa.RecordBatch.from_pydict({"id": list(rows), "word": list(rows.values())}, schema=SCHEMA)
    part = sink.write_part(iter([batch]), context)
    assert part is not None
    prepared = sink.prepare((part,), context)
    assert prepared is not None
    sink.check_schema(SCHEMA, StorageOptions())
    sink.open(context)
    sink.commit(prepared, context)


def test_a_server_that_takes_no_writes_is_waited_for(dsn: str, context: SinkContext) -> None:
    sink = postgres_sink("words", dsn=dsn)
    database = conninfo.conninfo_to_dict(dsn)["dbname"]
    run(dsn, f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    with pytest.raises(errors.TransientError, match="waits until the server takes writes, as after a failover"):
        sink.open(context)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    commit(sink, context, {1: "one"})
    assert run(dsn, "SELECT * FROM words") == [(1, "one")]


def test_a_server_without_a_free_connection_is_waited_for(dsn: str, role: str, context: SinkContext) -> None:
    run(dsn, f"ALTER ROLE {role} CONNECTION LIMIT 0")
    with pytest.raises(errors.TransientError, match=r"too many connections.*waits until the server has room"):
        postgres_sink("words", dsn=as_role(dsn, role)).open(context)


def test_a_password_that_is_rotated_is_read_again(dsn: str, role: str, context: SinkContext, tmp_path: Path) -> None:
    run(dsn, f"GRANT ALL ON SCHEMA public TO {role}; GRANT ALL ON words TO {role}")
    file = tmp_path / "dsn"
    file.write_text(as_role(dsn, role))
    sink = postgres_sink("words", dsn=Secret.file(str(file)))
    sink.open(context)
    run(dsn, f"ALTER ROLE {role} PASSWORD 'second'")
    with pytest.raises(errors.CredentialsRefusedError, match=r"PostgresAccessDenied.*dsn is read again for 3 minutes"):
        sink.open(context)
    file.write_text(as_role(dsn, role, "second"))
    sink.open(context)


def test_a_password_in_a_variable_needs_a_new_process(
    dsn: str, role: str, context: SinkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PG_DSN", as_role(dsn, role, "wrong"))
    with pytest.raises(errors.SpecRejectedError, match=r"a process keeps what PG_DSN was when it began") as refused:
        postgres_sink("words", dsn=Secret.env("PG_DSN")).open(context)
    assert not isinstance(refused.value, errors.CredentialsRefusedError)


@pytest.mark.parametrize(
    ("granted", "upsert_by", "told"),
    [
        ("", (), "lacks INSERT on id, word: GRANT INSERT on the table"),
        ("GRANT INSERT (id) ON words TO {role}", (), "lacks INSERT on word"),
        ("GRANT INSERT ON words TO {role}", (), "GRANT CREATE ON SCHEMA public TO {role}"),
        ("GRANT INSERT ON words TO {role}", ("id",), "lacks SELECT on id, word: GRANT SELECT on the table"),
        ("GRANT INSERT, SELECT ON words TO {role}", ("id",), "lacks UPDATE on word"),
        (
            "GRANT INSERT ON words TO {role}; CREATE TABLE statefulspark_sinks (sink text)",
            (),
            "GRANT SELECT, INSERT, UPDATE ON public.statefulspark_sinks TO {role}",
        ),
    ],
)
def test_a_right_that_the_user_lacks_is_named_at_the_start(
    dsn: str, role: str, granted: str, upsert_by: tuple[str, ...], told: str
) -> None:
    run(dsn, granted.format(role=role) or "SELECT 1")
    refused = refusal(postgres_sink("words", dsn=as_role(dsn, role), upsert_by=upsert_by))
    assert refused.reason == "PostgresAccessDenied"
    assert told.format(role=role) in refused.message


def test_upserts_without_the_right_to_temporary_tables_are_refused_at_the_start(dsn: str, role: str) -> None:
    database = conninfo.conninfo_to_dict(dsn)["dbname"]
    run(dsn, f"GRANT ALL ON SCHEMA public TO {role}; GRANT ALL ON words TO {role}")
    run(dsn, f"REVOKE TEMP ON DATABASE {database} FROM PUBLIC")
    postgres_sink("words", dsn=as_role(dsn, role)).check_schema(SCHEMA, StorageOptions())
    refused = refusal(postgres_sink("words", dsn=as_role(dsn, role), upsert_by="id"))
    assert f"GRANT TEMP ON DATABASE {database} TO {role}" in refused.message


def test_a_user_with_exactly_the_rights_of_the_page_writes(dsn: str, role: str, context: SinkContext) -> None:
    run(dsn, f"GRANT CREATE ON SCHEMA public TO {role}; GRANT INSERT, SELECT, UPDATE ON words TO {role}")
    commit(postgres_sink("words", dsn=as_role(dsn, role), upsert_by="id"), context, {1: "one"})
    assert run(dsn, "SELECT * FROM words") == [(1, "one")]


def test_row_level_security_is_refused_at_the_start(dsn: str, role: str) -> None:
    run(dsn, f"GRANT ALL ON SCHEMA public TO {role}; GRANT ALL ON words TO {role}")
    run(dsn, "ALTER TABLE words ENABLE ROW LEVEL SECURITY")
    assert "row-level security" in refusal(postgres_sink("words", dsn=as_role(dsn, role))).message


def test_a_view_is_refused_at_the_start(dsn: str) -> None:
    run(dsn, "CREATE VIEW seen AS TABLE words")
    refused = refusal(postgres_sink("seen", dsn=dsn))
    assert refused.reason == "PostgresRefused"
    assert "name the table behind it" in refused.message


def test_a_view_that_takes_rows_is_a_table(dsn: str, context: SinkContext) -> None:
    run(
        dsn,
        """CREATE VIEW taken AS TABLE words;
        CREATE FUNCTION take() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN INSERT INTO words VALUES (NEW.id, NEW.word); RETURN NEW; END';
        CREATE TRIGGER take INSTEAD OF INSERT ON taken FOR EACH ROW EXECUTE FUNCTION take()""",
    )
    commit(postgres_sink("taken", dsn=dsn), context, {1: "one"})
    assert run(dsn, "SELECT * FROM words") == [(1, "one")]


def test_a_deferrable_key_is_refused_at_the_start(dsn: str) -> None:
    run(dsn, "CREATE TABLE later (id bigint UNIQUE DEFERRABLE, word text)")
    refused = refusal(postgres_sink("later", dsn=dsn, upsert_by="id"))
    assert refused.reason == "PostgresKeyMissing"
    assert "create it anew without DEFERRABLE" in refused.message


def test_a_deferrable_key_beside_a_usable_one_is_refused_too(dsn: str) -> None:
    run(dsn, "CREATE TABLE keyed_twice (id bigint PRIMARY KEY, word text, UNIQUE (id) DEFERRABLE)")
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        run(dsn, "INSERT INTO keyed_twice VALUES (1) ON CONFLICT (id) DO NOTHING")
    assert "DEFERRABLE" in refusal(postgres_sink("keyed_twice", dsn=dsn, upsert_by="id")).message


@pytest.mark.parametrize("of", ["dsn", "role"])
def test_a_table_on_the_search_path_of_the_user_is_found(dsn: str, role: str, of: str, context: SinkContext) -> None:
    run(dsn, f"CREATE SCHEMA shop AUTHORIZATION {role}; CREATE TABLE shop.totals (id bigint, word text)")
    run(dsn, f"ALTER TABLE shop.totals OWNER TO {role}")
    given = as_role(dsn, role)
    if of == "role":
        run(dsn, f"ALTER ROLE {role} SET search_path = shop")
    else:
        given = conninfo.make_conninfo(given, options="-c search_path=shop")
    commit(postgres_sink("totals", dsn=given), context, {1: "one"})
    assert run(dsn, "SELECT * FROM shop.totals") == [(1, "one")]


def test_a_table_that_is_not_found_names_where_it_was_looked_for(dsn: str) -> None:
    run(dsn, "CREATE SCHEMA shop; CREATE TABLE shop.totals (id bigint, word text)")
    refused = refusal(postgres_sink("totals", dsn=dsn))
    assert refused.reason == "PostgresTableMissing"
    assert "for the user writer in the search path (public)" in refused.message


def test_a_pooler_that_takes_no_options_is_no_obstacle(dsn: str, postgres: Postgres, context: SinkContext) -> None:
    with pooler(postgres.port) as port:
        sink = postgres_sink("words", dsn=conninfo.make_conninfo(dsn, port=port))
        commit(sink, context, {1: "one"})
    assert run(dsn, "SELECT * FROM words") == [(1, "one")]


def test_options_of_the_dsn_that_a_pooler_refuses_are_named(dsn: str, postgres: Postgres) -> None:
    with pooler(postgres.port) as port:
        given = conninfo.make_conninfo(dsn, port=port, options="-c search_path=shop")
        refused = refusal(postgres_sink("totals", dsn=given))
    assert refused.reason == "PostgresRefused"
    assert "unsupported startup parameter: options; the pooler takes no such parameter" in refused.message


@contextmanager
def pooler(port: int) -> Iterator[int]:
    """Pass connections on, and refuse those whose start asks for `options`, as PgBouncer does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_serve, args=(listener, port), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _serve(listener: socket.socket, port: int) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_pass_on, args=(client, port), daemon=True).start()


_NO_TLS, _NO_GSS = 80877103, 80877104


def _pass_on(client: socket.socket, port: int) -> None:
    start = _start_of(client)
    while struct.unpack("!I", start[4:8])[0] in {_NO_TLS, _NO_GSS}:
        client.sendall(b"N")
        start = _start_of(client)
    if b"\0options\0" in start:
        fields = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"
        client.sendall(b"E" + struct.pack("!I", len(fields) + 4) + fields)
        client.close()
        return
    server = socket.create_connection(("127.0.0.1", port))
    server.sendall(start)
    threading.Thread(target=_copy, args=(server, client), daemon=True).start()
    _copy(client, server)


def _start_of(client: socket.socket) -> bytes:
    length = client.recv(4, socket.MSG_WAITALL)
    return length + client.recv(struct.unpack("!I", length)[0] - 4, socket.MSG_WAITALL)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with source, target:
        try:
            while part := source.recv(65536):
                target.sendall(part)
        except OSError:
            return
