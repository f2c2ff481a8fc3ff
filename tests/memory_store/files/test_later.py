"""A package that is left for later is there when it is asked for."""

from __future__ import annotations

import subprocess
import sys

from hindlake.memory_store.files.later import CATALOGUES, leave_for_later


def _printed(code: str) -> list[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_store_is_opened_without_the_catalogue_client_and_whoever_asks_for_it_has_it_whole() -> None:
    code = f"""
import sys
from hindlake.memory_store.settings import Settings
from hindlake.memory_store.store.lance import Door
Door("memory://", Settings())
print("lancedb" in sys.modules, any(name.startswith("{CATALOGUES}.api.") for name in sys.modules))
import {CATALOGUES} as client
print(hasattr(client, "__no_such_name__"), client.TagApi.__module__)
from {CATALOGUES} import ApiClient
from {CATALOGUES}.api.table_api import TableApi
print(TableApi is client.TableApi, hasattr(client, "no_such_name"))
"""
    assert _printed(code) == ["True False", f"False {CATALOGUES}.api.tag_api", "True False"]


def test_what_is_imported_already_or_not_installed_is_left_alone() -> None:
    leave_for_later("no_such_package_anywhere")
    assert "no_such_package_anywhere" not in sys.modules
    known = sys.modules["subprocess"]
    leave_for_later("subprocess")
    assert sys.modules["subprocess"] is known
