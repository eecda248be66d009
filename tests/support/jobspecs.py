"""Builders of the resource's spec."""

from __future__ import annotations

from statefulspark_operator.api.spec import StatefulSparkJobSpec

SPEC: dict[str, object] = {
    "image": "i:1",
    "job": {"file": "/j.py"},
    "storage": {"uri": "s3://state/jobs"},
    "upgrade": {"strategy": "Cold"},
}
"""What every spec has to say; and cold upgrades, so that a test that wants a standby says so."""


def a_spec(image: str = "i:1", **changes: object) -> StatefulSparkJobSpec:
    """Build a spec, with what a test changes."""
    return StatefulSparkJobSpec.model_validate({**SPEC, "image": image, **changes})
