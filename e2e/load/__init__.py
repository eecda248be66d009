"""Load with a known answer: events, a job that uses every kind of state and sink, and a checker that knows the truth.

`events` says what event a seed and a number make, and `generator` sends them to Kafka and into files. `jobs/ledger.py` is
the job, as a user writes one. `truth` computes from the events as they were sent what has to come out, `outputs` reads what
did come out as any consumer would, and `compare` names every difference by key and number. Nothing here imports the product
but the job.
"""
