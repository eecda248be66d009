"""One driver of a job: it claims the state, starts the queries, takes snapshots, and reports its status.

```
starting    from a configuration to running queries: a start, a check, a standby
serve       the job loop with the HTTP API and the display, and the signals that end them
terminal    what a person at a terminal is shown
loop        one thread that runs the job
cycle       the snapshots, from the trigger to the announcement
snapshots   makes a snapshot durable, and announces it
api         the requests of the HTTP API and its answers
output      sinks: from the result of a query function to what is visible
running     the queries themselves, how they pause and how they end
```
Decisions are taken below: by the coordinator, by recovery and by evolution.

The package is a public module, too: the names of `ss.driver` are in the stub beside this file, and load when they are used.
"""

from statefulspark import _exports

__getattr__, __dir__ = _exports.lazily(globals())
