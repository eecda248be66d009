"""Requests to S3 for a batch and for a checkpoint, each with what it is for, and batch latency when each takes 20 ms more.

Counted in the server's own log, for a count per key with two state partitions. Latency is compared with Spark's default
checkpoint file manager, through the same slow connection, in turns.
"""

from __future__ import annotations

import collections
import contextlib
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import s3server
import sparksession
import streams
from pyspark.sql import SparkSession

from bench import machine

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
MANAGERS = {"ours": sparksession.CHECKPOINT_MANAGER, "Spark's default": None}
KEEP = {"spark.sql.streaming.minBatchesToRetain": "1000000000"}  # As in a job: deleting is the pruner's.
WARM = 5


@contextmanager
def slow(upstream_port: int, delay_s: float) -> Iterator[str]:
    """Run a proxy that holds each request back for a while; yields its endpoint."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket, wait_s: float) -> None:
        last_s = 0.0
        with contextlib.suppress(OSError):
            while chunk := source.recv(1 << 20):
                if wait_s and time.monotonic() - last_s > 0.003:  # A new request, not the rest of one.
                    time.sleep(wait_s)
                target.sendall(chunk)
                last_s = time.monotonic()
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", upstream_port))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=pump, args=(client, server, delay_s), daemon=True).start()
                threading.Thread(target=pump, args=(server, client, 0.0), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def batches(
    spark: SparkSession, server: s3server.S3Server, manager: str | None, count: int, *, warm: int = WARM
) -> tuple[float, list[str]]:
    """Run some batches after others; return the median milliseconds of one, and the log lines of their requests.

    Without a manager, Spark chooses: for s3a that is the one over `FileContext`.
    """
    bucket = server.new_bucket()
    if manager is None:
        spark.conf.unset(MANAGER)
    else:
        spark.conf.set(MANAGER, manager)
    root = f"s3a://{bucket}/generations/00000001/q"
    gate = streams.gate(spark)
    gate.register(root, -1, -1)
    query = streams.start_count(spark, root, name=bucket, sink="noop")
    streams.wait_until(lambda: streams.last_batch(query) > warm, "the query is warm", timeout_s=60.0 + 2 * warm)
    before = len(server.requests())
    first = query.recentProgress[-1].batchId
    streams.wait_until(lambda: query.recentProgress[-1].batchId >= first + count, "the batches are committed")
    lines = [line for line in server.requests()[before:] if bucket in line]
    query.stop()
    gate.unregister(root)
    times = [one.batchDuration for one in query.recentProgress if first < one.batchId <= first + count]
    return statistics.median(times), lines


def kinds(lines: list[str]) -> collections.Counter[str]:
    """Count requests by what they are for."""
    return collections.Counter(_kind(line) for line in lines)


def _kind(line: str) -> str:
    operation, key = line.split(" s3_", 1)[1].split()[:2]
    parts = key.removeprefix("generations/00000001/q/").split("/")
    stem, _, suffix = parts[-1].rpartition(".")
    name = f" *.{suffix}" if stem and suffix in ("changelog", "zip", "sst", "crc", "delta") else ""
    return f"{operation} {parts[0]}{name}"


def main(arguments: list[str] | None = None) -> int:
    """Count and compare."""
    parser = machine.parser("s3_requests", __doc__)
    parser.add_argument("--batches", type=int, default=30, help="batches of each run")
    parser.add_argument("--warm", type=int, default=1500, metavar="BATCHES", help="before anything is measured")
    parser.add_argument("--delay", type=float, default=20.0, metavar="MS", help="added to every request")
    chosen = parser.parse_args(arguments)
    with machine.workplace() as (server, _), slow(int(server.endpoint.rpartition(":")[2]), chosen.delay / 1000) as far:
        spark = sparksession.build_session(server.endpoint, KEEP)
        # A JVM compiles for thousands of batches; a long-running job is what both are compared as.
        near_ms, lines = batches(spark, server, MANAGERS["ours"], chosen.batches, warm=chosen.warm)
        per_batch = {kind: count / chosen.batches for kind, count in sorted(kinds(lines).items())}
        machine.table(("request", "per batch"), [(kind, f"{count:.2f}") for kind, count in per_batch.items()])
        print(f"{sum(per_batch.values()):.1f} requests a batch with two state partitions (goal: at most 8)")
        spark.stop()
        spark = sparksession.build_session(far, KEEP)
        found: dict[str, float] = {}
        counts: dict[str, float] = {}
        for name, manager in MANAGERS.items():
            found[name], lines = batches(spark, server, manager, chosen.batches)
            counts[name] = len(lines) / chosen.batches
        spark.stop()
    default_ms = found["Spark's default"]
    machine.table(
        (f"+{chosen.delay:.0f} ms a request", "requests", "ms a batch", "of default"),
        [(name, f"{counts[name]:.1f}", f"{ms:.0f}", f"{ms / default_ms:.2f}") for name, ms in found.items()],
    )
    ratio = found["ours"] / default_ms
    print(f"{near_ms:.0f} ms a batch without the delay; {ratio:.2f}x of Spark's default with it (goal: at most 0.15x)")
    machine.finish(chosen.json, {"per_batch": per_batch, "near_ms": near_ms, "batch_ms": found, "ratio": ratio})
    return 0


if __name__ == "__main__":
    sys.exit(main())
