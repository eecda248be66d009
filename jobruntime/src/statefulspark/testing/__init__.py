"""For tests of jobs: keyed functions without Spark, queries and jobs with it, and a pytest plugin.

A name is imported when it is first used, so that a test of a keyed function does not wait for Spark. The stub beside this
file lists the names. Also here: stores in memory, faulty, crashing on purpose.
"""

from statefulspark import _exports

__getattr__, __dir__ = _exports.lazily(globals())
