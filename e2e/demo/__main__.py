"""`make demo-kubernetes`: everything from an empty machine to a comparison with the truth, in one command.

Exits with 0 when nothing is lost, repeated or different; with 1 when something is, or when the demo could not go on.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from datetime import UTC, datetime

from oracle import truth
from statefulspark import errors

from demo import cluster, console, logs, machine, picture, preflight, report, scenario, settings, setup

LOG_LINES = 25


def main() -> int:
    """Run the demo and return the process's exit code."""
    show = console.Console()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        chosen = settings.parse(sys.argv[1:], os.environ)
        preflight.check(chosen)
        return _run(chosen, show)
    except errors.StatefulSparkError as error:
        show.end_status()
        print(f"\n{error.message}", file=sys.stderr)
    except KeyboardInterrupt:
        show.end_status()
        print("\nInterrupted.", file=sys.stderr)
    return 1


def _run(chosen: settings.Settings, show: console.Console) -> int:
    begun = time.monotonic()
    followers = logs.LogFollower(chosen.logs)
    connection: cluster.Connection | None = None
    operator_is_ours = False
    try:
        show.title("A cluster, an S3 server and the images" if chosen.foreign is None else "Your cluster")
        connection = setup.connect(chosen)
        show.say(f"KUBECONFIG={connection.kubeconfig}  S3={connection.s3_endpoint}  {_since(begun)}")
        show.title("The operator, from its Helm chart")
        operator_is_ours = setup.install_operator(connection, chosen)
        followers.follow(connection.kubectl(setup.OPERATOR_NAMESPACE), (setup.OPERATOR,))
        show.say(f"{setup.OPERATOR} in {setup.OPERATOR_NAMESPACE} is ready  {_since(begun)}")
        outcome = _play(connection, chosen, show, followers)
        _write(outcome, chosen, show)
        return 0 if outcome.is_good else 1
    except errors.StatefulSparkError:
        show.end_status()
        print("\n".join(followers.tails(LOG_LINES)), file=sys.stderr)
        print(f"All logs are in {chosen.logs}, those of the cluster in {cluster.OWN_DIRECTORY}/log.", file=sys.stderr)
        raise
    finally:
        followers.close()
        _leave(connection, chosen, show, operator_is_ours=operator_is_ours)


def _play(
    connection: cluster.Connection, chosen: settings.Settings, show: console.Console, followers: logs.LogFollower
) -> report.Outcome:
    show.title("The flights, and the truth about them")
    show.say(setup.upload_input(connection, chosen))
    expected = truth.compute(truth.raw_flights())
    show.say(f"The truth is computed, without Spark: {len(expected.aircraft) + len(expected.carriers):,} keys")
    show.title("The job")
    run = scenario.Run(connection, chosen, show, followers)
    run.play(expected.flights)
    finished_at = datetime.now(UTC)
    show.title("Every result is compared with the truth")
    return report.Outcome(
        flights=expected.flights,
        comparison=run.compare(expected),
        history=run.history(),
        snapshots=run.observer.manifests,
        started_at=run.started_at,
        finished_at=finished_at,
        machine={**machine.describe(), "executors": str(chosen.executors)},
    )


def _write(outcome: report.Outcome, chosen: settings.Settings, show: console.Console) -> None:
    for sentence in report.sentences(outcome):
        show.say(sentence)
    chosen.report.parent.mkdir(parents=True, exist_ok=True)
    chosen.report.write_text(json.dumps(report.build(outcome), indent=2) + "\n", "utf-8")
    picture.draw(outcome, chosen.picture)
    show.say(f"\nReport: {chosen.report}\nPicture: {chosen.picture}")


def _leave(
    connection: cluster.Connection | None, chosen: settings.Settings, show: console.Console, *, operator_is_ours: bool
) -> None:
    if chosen.keep and connection is not None:
        show.title("Everything is left running, as asked")
        show.say(setup.how_to_look(connection, chosen))
        return
    if connection is None and chosen.foreign is not None:
        return
    show.say("Taking everything down")
    try:
        setup.take_down(connection, chosen, operator_is_ours=operator_is_ours)
    except errors.StatefulSparkError as error:
        # The outcome, or the failure that led here, matters more than this one.
        print(f"Not everything could be taken down: {error.message}", file=sys.stderr)


def _since(begun: float) -> str:
    return f"({time.monotonic() - begun:.0f} s)"


def _interrupt(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
