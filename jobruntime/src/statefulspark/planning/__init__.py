"""State of a job whose code has changed: what the new plan is, and the steps that need Spark to carry state over to it.

What fits and what is refused is decided in `statefulspark.evolution.comparison`, without Spark.
"""

from statefulspark.planning.source_names import source

__all__ = ["source"]
