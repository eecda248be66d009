"""The same faults for what people run without us: plain PySpark, started again by whoever watches its pod.

`jobs/` has the job and its configuration, as a user writes them. `world` is that job under load, `acts` what is done to
it, and `files` what it has on storage.
"""
