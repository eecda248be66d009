"""Recovery: reads storage, chooses the snapshot that a driver starts from, and makes a generation from it.

Uses the ObjectStore port and needs no running driver; the choice is made in pure code (`plan`).
"""
