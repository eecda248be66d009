"""A job file as people write scripts: arguments, logging and a session of its own."""

import argparse
import logging.config

logging.config.dictConfig({"version": 1, "root": {"level": "WARNING"}})
parser = argparse.ArgumentParser()
parser.add_argument("--name", default="nobody")
arguments = parser.parse_args()

import statefulspark as ss  # noqa: E402
from own_session import spark  # noqa: E402

job = ss.Job("script")


@job.query(uid="ticks")
def ticks(session, ctx):
    conf = session.conf
    facts = [conf.get(f"spark.sql.{key}") for key in ("shuffle.partitions", "streaming.minBatchesToRetain")]
    print("found", arguments.name, session is spark, *facts, flush=True)
    rows = session.readStream.format("rate").load()
    return ss.write(rows, sink=ss.sinks.FilesSink(ctx.parameter("output")), uid="out")


job.run()
