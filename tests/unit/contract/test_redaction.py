"""The names that count as secret are those whose values Spark itself takes out of its logs."""

from __future__ import annotations

import importlib.util
import re
import zipfile
from pathlib import Path

from statefulspark.contract import engine

_CONFIG = "org/apache/spark/internal/config/package$.class"
_DEFAULT = re.compile(rb"\(\?i\)[ -~]+")


def the_redaction_regex_of_spark() -> str:
    """Return the default of `spark.redaction.regex`, a constant of the class that declares it."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    (jar,) = (Path(spec.origin).parent / "jars").glob("spark-core_*.jar")
    with zipfile.ZipFile(jar) as archive:
        (default,) = set(_DEFAULT.findall(archive.read(_CONFIG)))
    return default.decode()


def test_secret_names_are_those_of_the_spark_that_is_installed() -> None:
    assert f"(?i){engine.SECRET.pattern}" == the_redaction_regex_of_spark()
    assert engine.SECRET.flags & re.IGNORECASE
