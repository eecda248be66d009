"""The public names of the library, each with the module that it comes from: the one list of them.

Type checkers and editors read it as a stub, and `__init__.py` reads the same lines when a name is first used. One name per
line, as `from HOME import NAME as NAME`; nothing else that begins with `from`.
"""

from statefulspark.declaration import Output as Output
from statefulspark.declaration import QueryContext as QueryContext
from statefulspark.declaration import write as write
from statefulspark.hooks import MasterHook as MasterHook
from statefulspark.job import Job as Job
from statefulspark.operators.functions import read_function as read_function
from statefulspark.operators.groupstate import apply_in_pandas_with_state as apply_in_pandas_with_state
from statefulspark.operators.keyed import flat_map_with_state as flat_map_with_state
from statefulspark.operators.keyed import keyed_process as keyed_process
from statefulspark.operators.keyed import map_with_state as map_with_state
from statefulspark.operators.transform import transform_with_state as transform_with_state
from statefulspark.operators.transform import transform_with_state_in_pandas as transform_with_state_in_pandas
from statefulspark.operatorstate import BroadcastSinkFunction as BroadcastSinkFunction
from statefulspark.operatorstate import BroadcastState as BroadcastState
from statefulspark.operatorstate import CheckpointedFunction as CheckpointedFunction
from statefulspark.operatorstate import CheckpointListener as CheckpointListener
from statefulspark.operatorstate import DriverSink as DriverSink
from statefulspark.operatorstate import FunctionInitializationContext as FunctionInitializationContext
from statefulspark.operatorstate import FunctionSnapshotContext as FunctionSnapshotContext
from statefulspark.operatorstate import ListCheckpointed as ListCheckpointed
from statefulspark.operatorstate import OperatorListState as OperatorListState
from statefulspark.operatorstate import OperatorStateStore as OperatorStateStore
from statefulspark.operatorstate import SinkFunction as SinkFunction
from statefulspark.operatorstate import SourceCancelledError as SourceCancelledError
from statefulspark.operatorstate import SourceContext as SourceContext
from statefulspark.operatorstate import SourceFunction as SourceFunction
from statefulspark.planning import named_source as named_source
from statefulspark.sinks.files import FilesSink as FilesSink
from statefulspark.sinks.iceberg import IcebergSink as IcebergSink
from statefulspark.sinks.kafka import JsonSerializer as JsonSerializer
from statefulspark.sinks.kafka import KafkaRecord as KafkaRecord
from statefulspark.sinks.kafka import KafkaSink as KafkaSink
from statefulspark.sinks.postgres import PostgresSink as PostgresSink
from statefulspark.sinks.secret import Secret as Secret
from statefulspark.state import MAX_WATERMARK as MAX_WATERMARK
from statefulspark.state import NO_WATERMARK as NO_WATERMARK
from statefulspark.state import AggregateFunction as AggregateFunction
from statefulspark.state import AggregatingState as AggregatingState
from statefulspark.state import Codec as Codec
from statefulspark.state import CodecCompatibility as CodecCompatibility
from statefulspark.state import CodecVersion as CodecVersion
from statefulspark.state import InputRow as InputRow
from statefulspark.state import KeyedContext as KeyedContext
from statefulspark.state import KeyedProcessFunction as KeyedProcessFunction
from statefulspark.state import ListState as ListState
from statefulspark.state import MapState as MapState
from statefulspark.state import ReducingState as ReducingState
from statefulspark.state import TimeDomain as TimeDomain
from statefulspark.state import TimerService as TimerService
from statefulspark.state import Ttl as Ttl
from statefulspark.state import TtlChange as TtlChange
from statefulspark.state import TtlUpdate as TtlUpdate
from statefulspark.state import TtlVisibility as TtlVisibility
from statefulspark.state import ValueState as ValueState
from statefulspark.state import VectorizedProcessFunction as VectorizedProcessFunction
from statefulspark.state_reading import read_state as read_state

__version__: str
