"""Stateful Spark: PySpark streaming jobs that keep their state through crashes and upgrades, exactly once.

`import statefulspark as ss` gives a job file everything it needs. Names are resolved when first used, so that tools which
only read storage (the operator, the command line) start without an engine. The names and where they come from are
written once, in `__init__.pyi`: type checkers read it, and so does `__getattr__`. Nothing else of ours is imported.
"""

from statefulspark._version import __version__ as __version__

_HOMES: dict[str, str] = {}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_homes())
    home = _homes().get(name)
    if home is None:
        raise AttributeError(f"module 'statefulspark' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(_homes())


def _homes() -> dict[str, str]:
    """Return the module of each public name. The stub is read by the loader, so that a package in a zip file works, too."""
    if not _HOMES:
        stub = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()
        words = (line.split() for line in stub.splitlines() if line.startswith("from "))
        _HOMES.update({name: home for _, home, _, name, *_ in words})
    return _HOMES
