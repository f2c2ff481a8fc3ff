"""How the documentation is built: `make docs`. Every warning is an error there: a link or an anchor that leads nowhere.

docs/index.md is the navigation: each `##` section that lists pages becomes a part of it. Reference pages are made from
the code (tools/docs_reference.py). Nothing is fetched, neither while building nor by the pages.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tools")]

project = "hindlake"
copyright = "hindlake contributors, Apache License 2.0"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
language = "en"

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
# Text without a language is a picture or an output, and JavaScript Object Notation may be cut short by "…".
highlight_language = "text"
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "hindlake"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}
html_static_path: list[str] = []

_LISTED = re.compile(r"^- \[(.+?)\]\((.+?)\.md\)", re.MULTILINE)
_MADE = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def _complete(app: Any, page: str, source: list[str]) -> None:
    """Give the index its trees of pages, and reference pages what the code says."""
    if page == "index":
        for section in re.findall(r"^## .+?(?=^## |\Z)", source[0], re.MULTILINE | re.DOTALL):
            caption = section.split("\n")[0].removeprefix("## ")
            if entries := "\n".join(f"{title} <{name}>" for title, name in _LISTED.findall(section)):
                source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"
    elif _MADE.search(source[0]):
        from docs_reference import PARTS

        source[0] = _MADE.sub(lambda part: PARTS[part[1]](), source[0])


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _complete)
