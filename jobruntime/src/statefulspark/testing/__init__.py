"""For tests of jobs: keyed functions without Spark; stores in memory, faulty, crashing on purpose."""

from statefulspark.testing.keyed import KeyedHarness

__all__ = ["KeyedHarness"]
