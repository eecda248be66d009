"""For authors of sinks: what a sink of your own implements, and the helpers that the built-in sinks use."""

from statefulspark.sinks.base import ChecksSchema as ChecksSchema
from statefulspark.sinks.base import MergesTransactions as MergesTransactions
from statefulspark.sinks.base import SinkContext as SinkContext
from statefulspark.sinks.base import TellsMarker as TellsMarker
from statefulspark.sinks.base import TwoPhaseSink as TwoPhaseSink
from statefulspark.sinks.marker import Marker as Marker
from statefulspark.sinks.marker import open_marker as open_marker
from statefulspark.sinks.marker import require_newest as require_newest
from statefulspark.sinks.staging import StagedRows as StagedRows
from statefulspark.sinks.staging import merge as merge
from statefulspark.sinks.staging import merge_batches as merge_batches
from statefulspark.sinks.staging import parse as parse
from statefulspark.sinks.staging import read as read
from statefulspark.sinks.staging import stage as stage
from statefulspark.storage.options import StorageOptions as StorageOptions
