"""The Kafka sink: a batch's records in one transaction that also moves the marker.

```
sink     what a user declares, and when a marker is lost   records       rows of a stream as records of a topic
session  the client: the only importer of confluent_kafka  clienterrors  what its failures mean
```
"""

from statefulspark.sinks.kafka.records import JsonRows, KafkaRecord
from statefulspark.sinks.kafka.sink import AfterLostMarker, KafkaSink

__all__ = ["AfterLostMarker", "JsonRows", "KafkaRecord", "KafkaSink"]
