"""Fixtures of the whole suite live in `tests/support`; this names the modules that define them."""

pytest_plugins = [
    "apiserver",
    "kafkabroker",
    "postgresserver",
    "rigoptions",
    "s3server",
    "simulationoptions",
    "snapshots",
    "sparksession",
]
