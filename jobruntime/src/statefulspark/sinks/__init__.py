"""Exactly-once sinks: each record is written once, after any failure.

```
base     the sink protocol and its context        kinds    the built-in sinks, one row each
staging  rows that wait for their commit          marker   the last committed position of a sink
standing order of positions over lineages         secret   secrets that are read when used
```

The package is a public module, too: the names of `ss.sinks` are in the stub beside this file, and load when they are used.
"""

from statefulspark import _exports

__getattr__, __dir__ = _exports.lazily(globals())
