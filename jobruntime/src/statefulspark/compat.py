"""Spark's own stateful operators, for processors that were written for plain Spark.

The names are in the stub beside this file.
"""

from statefulspark import _exports

__getattr__, __dir__ = _exports.lazily(globals())
