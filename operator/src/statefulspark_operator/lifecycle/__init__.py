"""The decision of one reconcile pass: its input is the observed situation, its output the status to record and the actions.

Pure: no I/O, clock, random or logging; `now` is part of the situation.
"""
