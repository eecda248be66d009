"""Fixtures of the whole suite live in `tests/support`; this names the modules that define them."""

import pytest
from statefulspark.testing import plugin

pytest_plugins = [
    "apiserver",
    "kafkabroker",
    "postgresserver",
    "properties",
    "restored",
    "rigoptions",
    "s3server",
    "simulationoptions",
    "snapshots",
    "sparksession",
    "timelimit",
]


def pytest_configure(config: pytest.Config) -> None:
    """Use the plugin for users, also in an environment that was made before it had an entry point."""
    if not config.pluginmanager.has_plugin("statefulspark"):
        config.pluginmanager.register(plugin, "statefulspark")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run first what takes longest, so that no process waits for another in the end: Spark, servers, the rules."""
    marks = ("spark", "api", "s3")
    items.sort(key=lambda item: next((place for place, mark in enumerate(marks) if item.get_closest_marker(mark)), 3))
