"""The keyed count in PyFlink; run by the Python of `build/flink`, with the jars of `bench/flink` on the class path.

Argument 1 is JSON: keys, warmRows, rows, valueBytes, compressible, parallelism, settings. Rows are made by Java; Python does
what a PyFlink job does, the key and the count. What comes out is looked at in Java. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from pyflink.common import Configuration, Types
from pyflink.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from pyflink.datastream.state import ValueStateDescriptor
from pyflink.java_gateway import get_gateway


class Counting(KeyedProcessFunction):
    """Counts the rows of each key; the state of a key is its count and a payload, in bytes."""

    def __init__(self, value_bytes: int, compressible: bool) -> None:
        """Say how many bytes a value has, and whether those beside the count are zeros."""
        self.fill = bytes if compressible else os.urandom
        self.fill_bytes = value_bytes - 8

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the state: pickled bytes, because an array of bytes that is not set fails where Python runs in the JVM."""
        self.state = runtime_context.get_state(ValueStateDescriptor("count", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        """Count a row."""
        stored = self.state.value()
        count = 1 if stored is None else int.from_bytes(stored[:8], "little") + 1
        payload = self.fill(self.fill_bytes) if stored is None else stored[8:]
        self.state.update(count.to_bytes(8, "little") + payload)
        yield value, count


def main() -> None:
    """Run the job and say what Java saw."""
    wish = json.loads(sys.argv[1])
    configuration = Configuration()
    for name, value in wish["settings"].items():
        configuration.set_string(name, value)
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(wish["parallelism"])
    environment.get_config().enable_object_reuse()
    bench = get_gateway().jvm.statefulspark.bench
    made = bench.Pyflink.source(
        environment._j_stream_execution_environment,
        wish["keys"],
        wish["warmRows"],
        wish["rows"],
        wish["parallelism"],
    )
    counts = (
        DataStream(made)
        .key_by(lambda key: key, key_type=Types.LONG())
        .process(Counting(wish["valueBytes"], wish["compressible"]), Types.TUPLE([Types.LONG(), Types.LONG()]))
    )
    bench.Pyflink.watch(counts._j_data_stream)
    environment.execute("count")
    print(bench.Pyflink.measured(), flush=True)


main()
