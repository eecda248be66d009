"""The checkpoint coordinator: Flink's coordinator as a pure state machine.

Its input is an event (a tick, a request, an acknowledgement or a decline of a participant, a finished snapshot); its output
is a new state and commands (begin, finalize, notify, abort, fail the job). There is no clock, thread or I/O here: `now_s` is
an argument; the driver performs the commands and reports their results as events. The semantics and their numbers are
Flink's (`docs/semantics.md`, A.70 to A.115).
"""
