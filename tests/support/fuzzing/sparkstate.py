"""Spark's own readers of state, in a JVM with the product's settings: snapshots, tables, changes, schemas, logs.

A query with state is run once. Then one file of its checkpoint after the other is changed, and the state is read as an
offline reader does. Spark may refuse with any error. Its JVM must go on, and nothing may be written beside the checkpoint.
"""

from __future__ import annotations

import io
import random
import shutil
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import sparksession
from fuzzing import mutations
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from statefulspark.engine import settings

NAME = "state of Spark, in its JVM"
_NO_S3 = "http://127.0.0.1:1"
_SETTINGS = {
    "spark.hadoop.fs.file.impl": settings.LOCAL_FILE_SYSTEM,
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
    "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
}


def survives(corpus: Path, seconds: int) -> bool:
    """Read changed state for some seconds.

    Args:
        corpus: A folder for the checkpoint; the file that a JVM did not survive stays in it.
        seconds: For how long.

    Returns:
        Whether the JVM went on, and nothing was written elsewhere.
    """
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir(parents=True)
    session = sparksession.build_session(_NO_S3, _SETTINGS)
    origin, case = corpus / "origin", corpus / "case"
    session.sparkContext.setLogLevel("OFF")
    _run_query(session, corpus / "input", origin)
    chance, reads = random.Random(7), 0
    deadline = time.monotonic() + seconds
    for file, body in _changes(origin, chance):
        if time.monotonic() > deadline:
            break
        shutil.rmtree(case, ignore_errors=True)
        shutil.copytree(origin, case)
        changed = case / file
        changed.write_bytes(body)
        for checksum in (f".{changed.name}.crc", f"{changed.name}.crc"):  # Hadoop's, and Spark's.
            changed.with_name(checksum).unlink(missing_ok=True)
        before = _files(corpus)
        try:
            session.read.format("statestore").load(str(case)).collect()
        except (PySparkException, Py4JError) as error:
            refusal = str(error)
        else:
            refusal = ""
        if sparksession.has_ended():
            print(f"{file}: the JVM has ended: {refusal}", flush=True)
            return False
        reads += 1
        written = _files(corpus) - before
        if written:
            print(f"{file}: Spark wrote {sorted(map(str, written))}", flush=True)
            return False
    print(f"{NAME}: {reads} changed files were read or refused", flush=True)
    return reads > 0


def _run_query(session: SparkSession, source: Path, checkpoint: Path) -> None:
    source.mkdir()
    rows = session.readStream.schema("value string").text(str(source))
    counts = rows.groupBy("value").count()
    for number in range(3):
        (source / f"{number}.txt").write_text("".join(f"key-{number}-{row}\n" for row in range(50)))
        query = counts.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
    time.sleep(1.0)  # Snapshots are written by maintenance.


def _changes(origin: Path, chance: random.Random) -> Iterator[tuple[Path, bytes]]:
    """Yield a file of a checkpoint and another content for it, without end."""
    files = sorted(path for path in _files(origin) if not path.name.endswith(".crc"))
    while True:
        file = chance.choice(files)
        body = (origin / file).read_bytes()
        if file.suffix == ".zip":
            yield file, _changed_archive(body, chance)
        elif file.suffix == ".sst":  # Another size is refused before anything is read.
            place = chance.randrange(len(body))
            yield file, body[:place] + chance.randbytes(min(8, len(body) - place)) + body[place + 8 :]
        else:
            yield file, next(mutations.mutants((body,), 1, seed=chance.getrandbits(32)))


def _changed_archive(body: bytes, chance: random.Random) -> bytes:
    """Return a zip whose entries still fit their checksums; one of them has another content."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as before, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as after:
        names = before.namelist()
        chosen = chance.choice(["metadata", *names])
        for name in names:
            content = before.read(name)
            is_changed = name == chosen
            seed = chance.getrandbits(32)
            after.writestr(name, next(mutations.mutants((content,), 1, seed=seed)) if is_changed else content)
    return target.getvalue()


def _files(folder: Path) -> frozenset[Path]:
    return frozenset(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
