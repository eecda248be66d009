"""The public names of the library, each with the module that it comes from: the one list of them.

Type checkers and editors read it as a stub, and `_exports.py` reads the same lines when a name is first used. One name per
line, as `from HOME import NAME as NAME`; nothing else that begins with `from`. The stubs of the other public modules have
the same form.
"""

from statefulspark import codecs as codecs
from statefulspark import compat as compat
from statefulspark import driver as driver
from statefulspark import errors as errors
from statefulspark import sinks as sinks
from statefulspark import testing as testing
from statefulspark.declaration import AVAILABLE_NOW as AVAILABLE_NOW
from statefulspark.declaration import Output as Output
from statefulspark.declaration import QueryContext as QueryContext
from statefulspark.declaration import write as write
from statefulspark.job import Job as Job
from statefulspark.operators.functions import read_function as read_function
from statefulspark.operators.keyed import flat_map_with_state as flat_map_with_state
from statefulspark.operators.keyed import keyed_process as keyed_process
from statefulspark.operators.keyed import map_with_state as map_with_state
from statefulspark.planning import named_source as named_source
from statefulspark.sinks.secret import Secret as Secret
from statefulspark.state import MAX_WATERMARK as MAX_WATERMARK
from statefulspark.state import AggregateFunction as AggregateFunction
from statefulspark.state import AggregatingState as AggregatingState
from statefulspark.state import FunctionMetrics as FunctionMetrics
from statefulspark.state import InputRow as InputRow
from statefulspark.state import KeyedContext as KeyedContext
from statefulspark.state import KeyedProcessFunction as KeyedProcessFunction
from statefulspark.state import ListState as ListState
from statefulspark.state import MapState as MapState
from statefulspark.state import MetricCounter as MetricCounter
from statefulspark.state import MetricGauge as MetricGauge
from statefulspark.state import ReducingState as ReducingState
from statefulspark.state import Timers as Timers
from statefulspark.state import Ttl as Ttl
from statefulspark.state import TtlChange as TtlChange
from statefulspark.state import TtlUpdate as TtlUpdate
from statefulspark.state import TtlVisibility as TtlVisibility
from statefulspark.state import ValueState as ValueState
from statefulspark.state import VectorizedProcessFunction as VectorizedProcessFunction
from statefulspark.state_reading import read_state as read_state

__version__: str
