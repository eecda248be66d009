"""A second driver for `test_two_drivers`: runs the same query on the same checkpoint root until it ends.

Arguments: S3 endpoint, checkpoint root. Prints "READY" before it starts the query, then "ENDED <error>" or, after a line
on standard input, "STOPPED <last committed batch> <counted rows>".
"""

from __future__ import annotations

import sys
import threading

import sparksession
import streams

_NAME = "second"


def main(endpoint: str, root: str) -> None:
    """Run the query until it fails or the first driver's test asks to stop."""
    spark = sparksession.build_session(endpoint)
    gate = streams.gate(spark)
    gate.register(root, -1, -1)
    print("READY", flush=True)
    query = streams.start_count(spark, root, name=_NAME)
    asked = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), asked.set()), daemon=True).start()
    streams.wait_until(lambda: asked.is_set() or not query.isActive, "an end")
    if query.exception() is not None:
        print("ENDED", str(query.exception()).splitlines()[0], flush=True)
    else:
        gate.close(root)
        gate.awaitBoundary(root, 30_000)
        query.stop()
        print("STOPPED", gate.lastCommitted(root), streams.counted_rows(spark, _NAME), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
