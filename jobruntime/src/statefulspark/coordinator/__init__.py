"""The checkpoint coordinator: Flink's, as a pure state machine.

Events go in (time passed, somebody asked, a participant acknowledged or declined, a snapshot was written), a new state
and commands come out (begin, finalize, notify, abort, fail the job). There is no clock, thread or I/O here: `now_s` is an
argument, and the driver performs the commands and feeds back what happened. Semantics and their numbers are Flink's
(`docs/semantics.md`, A.70 to A.115).
"""
