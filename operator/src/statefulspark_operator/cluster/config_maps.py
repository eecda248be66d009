"""Reads the files in a ConfigMap from the API server's JSON. Pure."""

from __future__ import annotations

import base64

from statefulspark_operator.cluster import resources
from statefulspark_operator.cluster.resources import Resource


def files(config_map: Resource) -> dict[str, bytes]:
    """Return the content of every key, as a volume of the ConfigMap would have it.

    Args:
        config_map: The object; the API server takes only base64 as `binaryData`.
    """
    text = {name: str(value).encode() for name, value in resources.section(config_map, "data").items()}
    binary = resources.section(config_map, "binaryData")
    return text | {name: base64.b64decode(str(value)) for name, value in binary.items()}
