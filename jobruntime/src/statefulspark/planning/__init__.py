"""State of a job whose code has changed: the new plan, and the steps that need Spark to carry state over to it.

`statefulspark.evolution.comparison` decides, without Spark, which changes are compatible and which are refused.
"""

from statefulspark.planning.source_names import named_source

__all__ = ["named_source"]
