"""The names of topics that Kafka's brokers refuse are refused with the sink, before the job starts."""

from __future__ import annotations

import pytest
from statefulspark import errors
from statefulspark.sinks.kafka import KafkaSink


@pytest.mark.parametrize("topic", ["Clicks", "shop.clicks", "shop_clicks", "shop-clicks", "0", "...", "a" * 249])
def test_a_topic_is_named_as_kafka_allows(topic: str) -> None:
    assert KafkaSink(topic, bootstrap_servers="kafka:9092").topic == topic


@pytest.mark.parametrize(
    "topic",
    ["", " ", "shop clicks", "shop/clicks", '"clicks"', "clicks,more", "bücher", "clicks\n", ".", "..", "a" * 250],
)
def test_a_name_that_kafka_refuses_is_refused_with_the_rule(topic: str) -> None:
    with pytest.raises(errors.SpecRejectedError) as refused:
        KafkaSink(topic, bootstrap_servers="kafka:9092")

    assert refused.value.reason == "SinkSettingRefused"
    assert refused.value.message == (
        f"The Kafka sink cannot write to the topic {topic!r}: a topic's name has 1 to 249 letters, digits, dots, "
        "underscores and dashes of ASCII, and is not . or .."
    )
