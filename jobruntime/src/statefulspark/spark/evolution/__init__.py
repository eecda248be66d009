"""State of a job whose code has changed: what the new plan is, and the steps that need Spark to carry state over to it.

What fits and what is refused is decided in `statefulspark.snapshot.evolution`, without Spark.
"""

from statefulspark.spark.evolution.naming import source

__all__ = ["source"]
