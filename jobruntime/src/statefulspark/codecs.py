"""Codecs: stored forms of values of your own classes.

The names are in the stub beside this file.
"""

from statefulspark import _exports

__getattr__, __dir__ = _exports.lazily(globals())
