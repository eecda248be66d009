"""State of a job whose code has changed: what is kept, moved, added, dropped, or refused. Pure.

Everything here compares descriptions: of the state as a snapshot has it, and of the plan as the job declares it now.
"""
