"""Fixtures of the whole suite live in `tests/support`; this names the modules that define them."""

pytest_plugins = ["apiserver", "s3server", "sparksession"]
