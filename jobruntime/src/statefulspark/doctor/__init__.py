"""Explains a storage folder: its contents, what a restart would use, what is broken, what could be freed.

It only reads; a driver may run meanwhile. An unreadable document becomes a sentence of the diagnosis instead of an error.
Only an unavailable store raises, because then nothing is known about the folder.
"""

from statefulspark.doctor.contents import forecast
from statefulspark.doctor.folders import examine, examine_job, jobs_below
from statefulspark.doctor.snapshots import Examination

__all__ = ["Examination", "examine", "examine_job", "forecast", "jobs_below"]
