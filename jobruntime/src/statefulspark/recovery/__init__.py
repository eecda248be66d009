"""Where a driver starts: what is on storage, which of it can be used, and the generation made from it.

Reads through the ObjectStore port, with no driver alive; what is chosen is decided in pure code (`plan`).
"""
