"""The generated pages of the documentation: what they say comes from enums, models, parsers and docstrings.

`python -m sitepages --write` (`make docs-pages`) writes them below docs/, `--check` names those that are not current.
"""

from __future__ import annotations

import sys

from sitepages import catalogue


def main() -> int:
    """Write or check the pages."""
    if sys.argv[1:] not in (["--write"], ["--check"]):
        print("usage: python -m sitepages --write | --check", file=sys.stderr)
        return 2
    outdated = catalogue.outdated()
    if sys.argv[1] == "--write":
        catalogue.write()
        return 0
    for name in outdated:
        print(f"docs/{name} is not what the code says; run `make docs-pages` and commit the result.", file=sys.stderr)
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main())
