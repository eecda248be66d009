"""For tests of jobs: keyed functions without Spark, queries and jobs with it."""

from statefulspark.testing.failures import JobTestError as JobTestError
from statefulspark.testing.jobs import JobHarness as JobHarness
from statefulspark.testing.keyed import KeyedHarness as KeyedHarness
from statefulspark.testing.lives import KillPoint as KillPoint
from statefulspark.testing.queries import QueryHarness as QueryHarness
from statefulspark.testing.sinkcontract import TwoPhaseSinkContract as TwoPhaseSinkContract
