"""Schema and plan evolution: decides which state is kept, moved, added, dropped or refused after a job has changed. Pure.

All modules compare descriptions: of the state in a snapshot, and of the plan that the job declares now.
"""
