"""Sinks: where the rows of `write` go."""

from statefulspark.operatorstate import DriverSink as DriverSink
from statefulspark.sinks import spi as spi
from statefulspark.sinks.base import Sink as Sink
from statefulspark.sinks.files import FilesSink as FilesSink
from statefulspark.sinks.iceberg import IcebergSink as IcebergSink
from statefulspark.sinks.kafka import AfterLostMarker as AfterLostMarker
from statefulspark.sinks.kafka import JsonSerializer as JsonSerializer
from statefulspark.sinks.kafka import KafkaConnection as KafkaConnection
from statefulspark.sinks.kafka import KafkaRecord as KafkaRecord
from statefulspark.sinks.kafka import KafkaSink as KafkaSink
from statefulspark.sinks.postgres import PostgresSink as PostgresSink
from statefulspark.sinks.visibility import Visibility as Visibility
