"""JSON-shaped values as YAML: what `-o yaml` prints. Pure."""

from __future__ import annotations

import math

import yaml


class _Dumper(yaml.SafeDumper):
    """PyYAML's, with lists indented, no anchors, and every text read back as it was."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent lists, too."""
        del indentless
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, _data: object) -> bool:
        """Write a value that is there twice twice."""
        return True

    def text(self, data: str) -> yaml.ScalarNode:
        """Escape what does not print: PyYAML folds line breaks such as U+0085 into blanks."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=None if data.isprintable() else '"')


_Dumper.add_representer(str, _Dumper.text)


def dump(value: object) -> str:
    """Return a value as YAML, in block style, keys in the order given, ending with a newline.

    Args:
        value: None, booleans, numbers, texts, and sequences and mappings of them; keys are texts.
    """
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)
    # PyYAML ends a document that is a bare scalar with a line of its own.
    return text.removesuffix("...\n")
