"""Packages that a library imports and that nobody here calls: made when something of them is asked for."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from typing import Any

#: The client of remote catalogues. Importing LanceDB imports it, and most of the time that takes is its.
CATALOGUES = "lance_namespace_urllib3_client"


def leave_for_later(package: str) -> None:
    """Let a package's own `__init__` run when a name of it is first asked for; its submodules are imported as ever.

    Nothing is done for what is imported already or not installed.
    """
    if package in sys.modules or (spec := find_spec(package)) is None or spec.loader is None:
        return
    loader, module = spec.loader, module_from_spec(spec)

    def missing(name: str) -> Any:
        if name.startswith("__"):  # whoever walks over all modules asks for such
            raise AttributeError(name)
        vars(module).pop("__getattr__", None)
        loader.exec_module(module)
        return getattr(module, name)

    vars(module)["__getattr__"] = missing
    sys.modules[package] = module
