"""Stateful Spark: PySpark streaming jobs that keep their state through crashes and upgrades, exactly once.

`import statefulspark as ss` gives a job file everything it needs. Names are resolved when first used, so that tools which
only read storage (the operator, the command line) start without Spark. The stub beside this file lists the names and
their modules. `ss.sinks`, `ss.driver`, `ss.codecs`, `ss.compat`, `ss.errors` and `ss.testing` have further names, and need
no import of their own.
"""

from statefulspark import _exports
from statefulspark._version import __version__ as __version__

__getattr__, __dir__ = _exports.lazily(globals())
