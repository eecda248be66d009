"""Retention: deletes snapshots, their files, and staged files of sinks that are not needed any more.

`rules` decides without any I/O; the other modules read the storage and delete, never by a name alone (ADR 0016).
"""
