"""Stateful Spark: PySpark streaming jobs that keep their state through crashes and upgrades, exactly once."""

__version__ = "0.1.0"
