"""Codecs: stored forms of values of your own classes."""

from statefulspark.state import Codec as Codec
from statefulspark.state import CodecCompatibility as CodecCompatibility
from statefulspark.state import CodecVersion as CodecVersion
