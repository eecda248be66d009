"""Of sixteen writers that race for one log entry exactly one wins, on a real S3 server and on local disk."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pyspark
import pytest
import sparksession
from statefulspark.engine import gateway

pytestmark = [pytest.mark.spark, pytest.mark.s3]
WRITERS = 16
ROUNDS = 50
_PROGRAM = Path(__file__).with_name("RaceTest.java")


@pytest.mark.parametrize("scheme", ["s3a", "file"])
def test_exactly_one_of_sixteen_writers_wins_every_round(request: pytest.FixtureRequest, scheme: str) -> None:
    if scheme == "s3a":
        settings = sparksession.s3a_settings(request.getfixturevalue("s3").endpoint)
        location = f"s3a://{request.getfixturevalue('s3_bucket')}/race"
    else:
        settings = {}
        location = f"file://{request.getfixturevalue('tmp_path')}/race"

    rounds = _race(location, settings)

    assert rounds == ["1 true [FileAlreadyExistsException]"] * ROUNDS


def _race(location: str, settings: dict[str, str]) -> list[str]:
    class_path = f"{Path(pyspark.__file__).parent}/jars/*:{gateway.own_class_path()}"
    command = ["java", "-cp", class_path, str(_PROGRAM), location, str(WRITERS), str(ROUNDS)]
    command += [f"{name}={value}" for name, value in settings.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line.removeprefix("ROUND ") for line in done.stdout.splitlines() if line.startswith("ROUND ")]
