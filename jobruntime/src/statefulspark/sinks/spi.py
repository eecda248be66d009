"""For authors of sinks: what a sink of your own implements, and the helpers that the built-in sinks use.

The names are in the stub beside this file.
"""

from statefulspark import _exports

__getattr__, __dir__ = _exports.lazily(globals())
