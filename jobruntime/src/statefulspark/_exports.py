"""Loads the names of a public module when they are first used, from the stub beside the module, which lists them.

Type checkers and editors read the same stub. A line of it is `from HOME import NAME as NAME`.
"""

TYPE_CHECKING = False  # That of `typing` would import it, for every tool that only reads storage.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def homes(namespace: "dict[str, Any]") -> dict[str, str]:
    """Return the module of each public name. The loader reads the stub, so that a package in a zip file works too.

    Args:
        namespace: The globals of the public module.
    """
    spec = namespace["__spec__"]
    stub = spec.loader.get_data(f"{spec.origin.rpartition('.')[0]}.pyi").decode()
    words = (line.split() for line in stub.splitlines() if line.startswith("from "))
    return {name: module for _, module, _, name, *_ in words}


def lazily(namespace: "dict[str, Any]") -> "tuple[Callable[[str], object], Callable[[], list[str]]]":
    """Return `__getattr__` and `__dir__` of a public module. A name that was used is kept in the module.

    The modules of the implementation, which an import leaves in a package, are no part of its `dir`.

    Args:
        namespace: The globals of the public module.
    """
    package: str = namespace["__name__"]
    modules: dict[str, str] = {}

    def names() -> dict[str, str]:
        if not modules:
            modules.update(homes(namespace))
        return modules

    def attribute(name: str) -> object:
        if name == "__all__":
            return sorted(names())
        home = names().get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        import importlib

        if home == package:
            return importlib.import_module(f"{package}.{name}")
        value = namespace[name] = getattr(importlib.import_module(home), name)
        return value

    return attribute, lambda: sorted({*names(), *(name for name in namespace if name.startswith("__"))})
