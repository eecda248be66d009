"""The decision of one reconcile pass: what is true goes in, what to record and do comes out.

Pure: no I/O, clock, random or logging; `now` is part of the situation.
"""
