"""Check the built pages: none fetches anything from elsewhere, and what they link to inside is there."""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes that make a browser fetch what they name; `href` does so of a `link`, and of an `a` only when clicked
FETCHED = {"src", "srcset", "data", "poster", "action", "formaction"}


class _Page(HTMLParser):
    """What a page fetches, what it links to, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note what a tag names."""
        for name, value in attributes:
            if value is None:
                continue
            if name == "id":
                self.anchors.add(value)
            elif name in FETCHED or (name == "href" and tag != "a"):
                self.fetched.append(value)
            elif name == "href":
                self.linked.append(value)


def faults(site: Path) -> list[str]:
    """What is wrong with a built site, a line each."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        shown = path.relative_to(site)
        for url in page.fetched:
            if url.startswith("//") or urlsplit(url).scheme not in ("", "data"):
                found.append(f"{shown} fetches {url}")
        for url in [*page.linked, *page.fetched]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path.resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{shown} links to {url}, which is not there")
            elif parts.fragment and target.suffix == ".html":
                other = pages[site / target.relative_to(site.resolve())]
                if unquote(parts.fragment) not in other.anchors:
                    found.append(f"{shown} links to {url}, which has no such anchor")
    for path in sorted(site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        if "@import" in text or "url(http" in text or "url(//" in text:
            found.append(f"{path.relative_to(site)} fetches something")
    return found


if __name__ == "__main__":
    told = faults(Path(sys.argv[1]))
    for line in told:
        print(line, file=sys.stderr)
    sys.exit(bool(told))
