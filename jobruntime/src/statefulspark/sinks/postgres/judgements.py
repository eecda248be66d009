"""What each error of PostgreSQL and of psycopg means for the job. Pure.

The codes are PostgreSQL's (appendix A of its manual); `psycopg.errors` has a class for each. A refused connection has no
code, only the words of the server, or of a pooler before it, so those are judged by what they say.
"""

from __future__ import annotations

import re

from statefulspark.judgement import Judgement, Remedy, table

_VALUE = Judgement(
    Remedy.PERSON,
    "correct the code that makes this value, and start from the checkpoint before it (--restore-checkpoint-id, or "
    "restore.source.checkpointID); or widen the column",
)
_CONSTRAINT = Judgement(
    Remedy.PERSON,
    "correct the code that makes this row, and start from the checkpoint before it (--restore-checkpoint-id, or "
    "restore.source.checkpointID); or change the constraint",
)
_TABLE = Judgement(Remedy.PERSON, "change the table, or the job's columns, so that they fit")
_STATEMENT = Judgement(
    Remedy.PERSON,
    "look at triggers, functions and rules of the table; the sink's own statements are plain COPY and INSERT",
)
_LIMIT = Judgement(
    Remedy.PERSON, "raise the limit of the server or the user that the message names, or make batches smaller"
)
_DAMAGED = Judgement(Remedy.PERSON, "restore the database; it says that it is damaged")
_PROTOCOL = Judgement(
    Remedy.PERSON, "check that the dsn names a PostgreSQL server, or a pooler that lets sessions and transactions be"
)
_TARGET = Judgement(Remedy.PERSON, "create it, or correct the name in the dsn or the sink's table")
_SETTING = Judgement(Remedy.PERSON, "correct the dsn")
_PASSWORD = Judgement(Remedy.CREDENTIALS, "check the user and its password in the dsn")
_RIGHTS = Judgement(Remedy.RIGHTS, "grant it to the user of the dsn")
_LOGIN = Judgement(
    Remedy.RIGHTS, "let the user of the dsn log in to this database from this host: its role, CONNECT, pg_hba.conf"
)
_RACE = Judgement(Remedy.LOST_RACE, "another transaction holds or changed what this one needs; it is tried again")
_REACH = Judgement(Remedy.WAIT, "waits until the server can be reached; check that it runs, its name, and the network")
_STARTING = Judgement(Remedy.WAIT, "waits until the server has started; check it if that takes long")
_READ_ONLY = Judgement(
    Remedy.WAIT,
    "waits until the server takes writes, as after a failover; if it stays so, the dsn names a standby, or "
    "default_transaction_read_only is set for the user or the database",
)
_FULL = Judgement(
    Remedy.WAIT, "waits until the server has room; give it connections, memory or disk if that takes long"
)
_ENDED = Judgement(Remedy.WAIT, "the server ended the session or the statement; it is tried again in a new session")
_TIME_OUT = Judgement(
    Remedy.WAIT,
    "it is tried again; if it comes again, raise the timeout of the user or the database that the message names",
)
_SYSTEM = Judgement(Remedy.WAIT, "waits until the server works again; look into its log")

CODES = table(
    (_REACH, "08000 08001 08003 08006 HV00N"),
    (_READ_ONLY, "25006"),
    (_STARTING, "57P03"),
    (_FULL, "53000 53100 53200 53300 HV001"),
    (_ENDED, "08007 25P02 57000 57P01 57P02 57P05 25P03"),
    (_TIME_OUT, "25P04 57014"),
    (_SYSTEM, "58000 58030 58P01 58P02 58P03 F0000 F0001 HV000 XX000"),
    (_RACE, "40000 40001 40002 40003 40P01 55006 55P03 72000"),
    (_PASSWORD, "28000 28P01 0P000"),
    (_RIGHTS, "42501 0L000 0LP01"),
    (_TARGET, "3D000 3F000 42P01 57P04 HV00P HV00Q HV00R"),
    (_SETTING, "08004 55P02 HV00C HV00D HV00J"),
    (_PROTOCOL, "08P01 03000 24000 25000 25001 25P01 26000 34000 3B000 3B001 42P05"),
    (_LIMIT, "53400 54000 54001 54011 54023"),
    (_DAMAGED, "XX001 XX002"),
    (_CONSTRAINT, "23000 23001 23502 23503 23505 23514 23P01 44000 21000 27000"),
    (
        _VALUE,
        """22000 22001 22002 22003 22004 22005 22007 22008 22009 2200B 2200C 2200D 2200F 2200G 2200H 2200L 2200M 2200N
            2200S 2200T 22010 22011 22012 22013 22014 22015 22016 22018 22019 2201B 2201E 2201F 2201G 2201W 2201X 22021 22022
            22023 22024 22025 22026 22027 2202E 2202G 2202H 22030 22031 22032 22033 22034 22035 22036 22037 22038 22039 2203A
            2203B 2203C 2203D 2203E 2203F 2203G 22P01 22P02 22P03 22P04 22P05 22P06""",
    ),
    (
        _TABLE,
        """0A000 55000 55P04 42000 42601 42602 42611 42622 42701 42702 42703 42704 42710 42712 42723 42725 42803 42804
            42809 42830 42846 42883 428C9 42939 42P02 42P03 42P04 42P06 42P07 42P08 42P09 42P10 42P11 42P12 42P13 42P14 42P15
            42P16 42P17 42P18 42P19 42P20 42P21 42P22 2B000 2BP01 HV004 HV005 HV006 HV007 HV008""",
    ),
    (
        _STATEMENT,
        """02000 02001 09000 0B000 0F000 0F001 0Z000 0Z002 10608 20000 25002 25003 25004 25005 25007 25008 2D000 2F000
            2F002 2F003 2F004 2F005 38000 38001 38002 38003 38004 39000 39001 39004 39P01 39P02 39P03 P0000 P0001 P0002 P0003
            P0004 HV002 HV009 HV00A HV00B HV00K HV00L HV00M HV010 HV014 HV021 HV024 HV090 HV091""",
    ),
)
"""The judgement of each SQLSTATE."""

CLASSES = table(
    (_REACH, "OperationalError ConnectionTimeout DatabaseError InternalError"),
    (_ENDED, "InterfaceError CancellationTimeout _WaitTimeout"),
    (_SETTING, "ProgrammingError"),
    (_VALUE, "DataError"),
    (_CONSTRAINT, "IntegrityError"),
    (_TABLE, "NotSupportedError"),
    (_PROTOCOL, "PipelineAborted OutOfOrderTransactionNesting"),
)
"""The judgement of each class of psycopg whose errors have no SQLSTATE."""

WORDS = (
    (
        r"unsupported startup parameter",
        Judgement(
            Remedy.PERSON,
            "the pooler takes no such parameter: remove it from the dsn, and write the sink's table with its schema in "
            "place of a search_path; or let the pooler ignore it (ignore_startup_parameters of PgBouncer)",
        ),
    ),
    (r"connection is bad:|unrecognized configuration parameter|invalid value for parameter", _SETTING),
    (r"does not support SSL|certificate", Judgement(Remedy.PERSON, "correct sslmode and the certificates of the dsn")),
    (r"no pg_hba.conf entry|permission denied for database|not permitted to log in", _LOGIN),
    (r"password supplied|authentication failed|wrong password|no such user|role .* does not exist", _PASSWORD),
    (r"database .* does not exist|no such database", _TARGET),
    (r"too many (connections|clients)|connection slots|no more connections allowed|query_wait_timeout", _FULL),
    (r"starting up|shutting down|recovery mode|accepting connections", _STARTING),
    (r"session is read-only|hot standby mode|session is not read-only", _READ_ONLY),
)
"""What an answer to a connection says, as a pattern, and its judgement; the first that is found counts."""
_OF_POOLERS = "08P01"
"""The code of a protocol violation, which poolers give to whatever they refuse."""


def judge(sqlstate: str | None, class_name: str, message: str) -> Judgement:
    """Return what an error means.

    Args:
        sqlstate: Its code; None if it has none.
        class_name: Its class in psycopg.
        message: What it says.
    """
    if sqlstate in {None, _OF_POOLERS}:
        for pattern, judgement in WORDS:
            if re.search(pattern, message):
                return judgement
    if sqlstate is None:
        return CLASSES.get(class_name, _REACH)
    return CODES.get(sqlstate, _STATEMENT)
