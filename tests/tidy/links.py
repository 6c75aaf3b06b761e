"""Do the links of README and docs lead somewhere? To a file that exists, and a heading in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.tidy.source import Finding, Tree

BLOCK = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<file>[\w./-]*)(?:#(?P<heading>[\w-]+))?\)")
HEADING = re.compile(r"^#+ +(?P<text>.+)$", re.MULTILINE)


def broken_links(pages: Tree, files: set[str]) -> Iterator[Finding]:
    """Every link names a file that exists, and a heading that its page has."""
    for path, text in sorted(pages.items()):
        without_code = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
        for number, line in enumerate(without_code.splitlines(), start=1):
            for link in LINK.finditer(line):
                target = _resolve(path, link["file"])
                if target not in files:
                    problem = f"it links to {target}, which does not exist"
                elif link["heading"] and link["heading"] not in _headings(pages.get(target, "")):
                    problem = f"{target} has no heading #{link['heading']}"
                else:
                    continue
                yield Finding(path, number, problem, "Link to where it is now")


def unlisted_pages(list_path: str, pages: Tree) -> Iterator[Finding]:
    """The list of the pages names each of them."""
    listed = {_resolve(list_path, link["file"]) for link in LINK.finditer(pages[list_path])}
    for path in sorted(set(pages) - listed - {list_path}):
        if path.startswith(f"{PurePosixPath(list_path).parent}/"):
            yield Finding(list_path, 1, f"it does not list {path}", "Add the page where it fits")


def _resolve(page: str, link: str) -> str:
    if not link:
        return page
    parts: list[str] = []
    for part in (PurePosixPath(page).parent / link).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


def _headings(page: str) -> set[str]:
    """Spell the headings as GitHub does in their anchors."""
    found = HEADING.finditer(BLOCK.sub("", page))
    return {
        re.sub(r"[^\w -]", "", heading["text"].lower()).strip().replace(" ", "-")
        for heading in found
    }
