"""Refuse to build without the rooms: a checkout without symlinks would give an empty wheel, silently."""

from pathlib import Path

from setuptools import setup

ROOMS = ("flows", "jobs", "memory_store", "sdk")

if missing := [room for room in ROOMS if not (Path("src/hindlake") / room / "__init__.py").is_file()]:
    raise SystemExit(
        f"src/hindlake lacks {', '.join(missing)}: these are symbolic links, and this checkout was made without them. "
        "Clone again with `git clone -c core.symlinks=true` on a system that has them (Windows: developer mode)."
    )

setup()
