"""Writes JSON-like values as YAML, for `-o yaml`. Pure."""

from __future__ import annotations

import math

import yaml


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper with indented lists, no anchors, and texts that are read back unchanged."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Also indent lists."""
        del indentless
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, _data: object) -> bool:
        """Write a repeated value each time, without an anchor."""
        return True

    def text(self, data: str) -> yaml.ScalarNode:
        """Escape characters that do not print: PyYAML turns line breaks such as U+0085 into spaces."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=None if data.isprintable() else '"')


_Dumper.add_representer(str, _Dumper.text)


def dump(value: object) -> str:
    """Return a value as YAML, in block style, keys in the order given, ending with a newline.

    Args:
        value: None, booleans, numbers, texts, and sequences and mappings of these; keys are texts.
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)
    # PyYAML adds this end marker to a document that is a bare scalar.
    return text.removesuffix("...\n")
