"""Stateful Spark: PySpark streaming jobs that keep their state through crashes and upgrades, exactly once.

`import statefulspark as ss` gives a job file everything it needs. Names are resolved when first used, so that tools which
only read storage (the operator, the command line) start without Spark. The names and their modules are listed
once, in `__init__.pyi`: type checkers read it, and so does `__getattr__`. No other module of the product is imported.
"""

from statefulspark._version import __version__ as __version__

_MODULES: dict[str, str] = {}


def __getattr__(name: str) -> object:
    if name == "__all__":
        return sorted(_modules())
    module = _modules().get(name)
    if module is None:
        raise AttributeError(f"module 'statefulspark' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return sorted(_modules())


def _modules() -> dict[str, str]:
    """Return the module of each public name. The loader reads the stub, so that a package in a zip file works too."""
    if not _MODULES:
        stub = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()
        words = (line.split() for line in stub.splitlines() if line.startswith("from "))
        _MODULES.update({name: module for _, module, _, name, *_ in words})
    return _MODULES
