"""The stateful processor that runs such a function by key group, based on `transform.processor`."""

from __future__ import annotations

from statefulspark import errors
from statefulspark.operators.keyed import processor as keyed_processor
from statefulspark.operators.transform import processor


class GroupStateProcessor(processor.TransformProcessor):
    """Runs a function of `applyInPandasWithState` per key, by key group."""

    def _failed(self, method: str, where: str, error: Exception) -> errors.StatefulSparkError:
        # The user's function is the only method, for rows and timeouts alike.
        return keyed_processor.KeyedProcessor._failed(self, "__call__", where, error)
