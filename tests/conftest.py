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
]


def pytest_configure(config: pytest.Config) -> None:
    """Use the plugin for users, also in an environment that was made before it had an entry point."""
    if not config.pluginmanager.has_plugin("statefulspark"):
        config.pluginmanager.register(plugin, "statefulspark")
