"""How large does a job have to be? Keys, bytes and a rate in; partitions, pods, memory, storage, cost and times out. Pure.

```
workload       what is known of a job        coefficients   what was measured, where, and how far it reaches
model          from a workload to an answer  layout         partitions and pods
objects        storage, requests, cost       times          restarts, upgrades, rescaling
limits         what is reached first         answer         the answer's form        spec   fields of the resource
```
Nothing here measures or reads anything. A figure says where it comes from, and whether the job is within what was measured.
"""

from statefulspark.sizing.answer import Certainty, Figure, Limit, SizeAnswer
from statefulspark.sizing.model import answer
from statefulspark.sizing.workload import Prices, StatefulOperator, Workload

__all__ = ["Certainty", "Figure", "Limit", "Prices", "SizeAnswer", "StatefulOperator", "Workload", "answer"]
