"""The Kafka sink: a batch's records in one transaction that also moves the marker.

```
sink     the sink class, and the lost marker               records       conversion of rows to records
session  the client: the only importer of confluent_kafka  clienterrors  translation of its errors
connection  a cluster, for sources and sinks
```
"""

from statefulspark.sinks.kafka.connection import KafkaConnection
from statefulspark.sinks.kafka.records import JsonSerializer, KafkaRecord
from statefulspark.sinks.kafka.sink import AfterLostMarker, KafkaSink

__all__ = ["AfterLostMarker", "JsonSerializer", "KafkaConnection", "KafkaRecord", "KafkaSink"]
