"""What may be deleted, and its deletion: snapshots, their files, and what sinks have staged.

`rules` decides without any I/O; everything else takes stock and acts, never by a name alone (ADR 0016).
"""
