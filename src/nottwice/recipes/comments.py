"""Post a comment once: the text contains the id of the call, and ``verify`` searches for it (P78).

It works with any upstream that can add a comment and list all comments. Two functions define how.
For upstreams with HTTP and JSON, like GitHub, GitLab and most trackers, use ``http_comments``.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from typing_extensions import TypedDict

from nottwice.errors import InvalidTool, Permanent
from nottwice.guard.declaration import Duration
from nottwice.guard.declare import SyncTool
from nottwice.guard.ready_made import WORKS_ON, declare
from nottwice.guard.scopes import current_call
from nottwice.model.call import Call
from nottwice.model.failure import Classifier, single_request
from nottwice.model.tool import Verification, did_not_happen, happened, parse_duration
from nottwice.recipes.http import (
    NO_HEADERS,
    Headers,
    check_base_url,
    exchange,
    given_headers,
    make_request,
)

Comment = str | Mapping[str, Any]
"""A listed comment: its text, or a mapping that has it as ``body`` and may have ``id``."""

MARKER = "<!-- nottwice {id} -->"
"""Invisible where Markdown is rendered."""
_MOST_PAGES = 1000


class Commented(TypedDict):
    """What ``comment`` returns."""

    id: Any
    """The upstream's id of the new comment, or None if it returns none."""


class Comments(NamedTuple):
    """How to read and add comments."""

    read: Callable[[str], Iterable[Comment]]
    """Return all current comments on a target. It must not leave any out."""
    add: Callable[[str, str], Any]
    """Add a comment to a target with one request. Return its id, or a mapping that has it."""


def comment(
    comments: Comments,
    *,
    settles: Duration,
    name: str = "comment",
    marker: str = MARKER,
    once_per: Iterable[str] | None = None,
    classify: Classifier = single_request,
    time_limit: Duration = "2m",
) -> SyncTool[..., Commented]:
    """Make a tool ``comment(target, text)``. ``comments`` defines what a target is.

    ``marker`` is appended to the text, with ``{id}`` replaced by the id of the call. ``settles`` is
    how long after the death of a process its request may still become a comment. ``once_per`` works
    as for every tool: ``("target",)`` allows one comment per run and target. ``time_limit`` is for
    one attempt.
    """
    if not isinstance(marker, str) or marker.count("{id}") != 1:
        raise InvalidTool(
            f"Tool {name!r} was not declared: marker={marker!r} must contain '{{id}}' once, where "
            "the id of the call goes."
        )
    read, add = Comments(*comments)

    def write_comment(
        target: Annotated[str, Field(min_length=1)], text: Annotated[str, Field(min_length=1)]
    ) -> Commented:
        """Add a comment to a target."""
        marked = f"{text}\n\n{_mark(marker, current_call())}"
        return Commented(id=_id_of(add(target, marked)))

    def find_comment(call: Call) -> Verification:
        wanted = marker.replace("{id}", call.id)
        for each in read(call.args["target"]):
            if wanted in _text_of(each):
                return happened(Commented(id=None if isinstance(each, str) else _id_of(each)))
        return did_not_happen()

    protected: SyncTool[..., Commented] = declare(
        write_comment,
        "unsafe_on_replay",
        name=name,
        recipe="comment",
        works_on={"read": read, "add": add, "marker": marker, "once_per": once_per},
        once_per=once_per,
        verify=find_comment,
        settles=settles,
        classify=classify,
        time_limit=time_limit,
    )
    return protected


def http_comments(
    base_url: str,
    *,
    path: str = "/{target}/comments",
    headers: Headers = NO_HEADERS,
    field: str = "body",
    time_limit: Duration = "30s",
) -> Comments:
    """Return the comments of an upstream that lists them at ``path`` and accepts new ones there.

    For GitHub: ``http_comments("https://api.github.com/repos/me/it/issues", headers=...)``, where
    the target is the issue number. Paginated lists are read to the end.
    """
    base = check_base_url(base_url, tool="comment")
    limit_seconds = parse_duration(time_limit, what="http_comments: time_limit")
    if path.count("{target}") != 1 or not path.startswith("/"):
        raise InvalidTool(
            f"The comments were not declared: path={path!r} must start with a slash and contain "
            "'{target}' once."
        )

    def address(target: str) -> str:
        if target in (".", ".."):
            raise Permanent(f"Nothing was sent: {target!r} cannot be commented on.")
        return base + path.replace("{target}", urllib.parse.quote(target, safe=""))

    def read(target: str) -> Iterable[Comment]:
        url: str | None = address(target)
        for _ in range(_MOST_PAGES):
            if url is None:
                return
            fetching = make_request("GET", url, given_headers(headers), None, limit_seconds)
            answer, following = exchange(fetching)
            for each in _listed(answer["body"]):
                yield {"body": str(each.get(field) or ""), "id": each.get("id")}
            url = None if following is None else _same_place(url, following)
        raise ValueError(f"the list of comments has more than {_MOST_PAGES} pages")

    def add(target: str, text: str) -> Any:
        sent = given_headers(headers)
        adding = make_request("POST", address(target), sent, {field: text}, limit_seconds)
        return exchange(adding)[0]["body"]

    for function in (read, add):
        setattr(function, WORKS_ON, f"{base}{path} {field}")
    return Comments(read, add)


def _mark(marker: str, call: Call) -> str:
    return marker.replace("{id}", call.id)


def _listed(body: Any) -> list[Mapping[str, Any]]:
    """Return the listed comments. An unreadable list must not count as a list without ours."""
    if isinstance(body, list) and all(isinstance(each, dict) for each in body):
        return body
    raise ValueError("the upstream did not answer with a list of comments")


def _same_place(url: str, following: str) -> str:
    """Return the next page. It must be on the same host, because the headers hold secrets."""
    there = urllib.parse.urljoin(url, following)
    here, next_one = urllib.parse.urlsplit(url), urllib.parse.urlsplit(there)
    if (here.scheme, here.netloc) != (next_one.scheme, next_one.netloc):
        raise ValueError("the next page of comments is at another address")
    return there


def _text_of(each: Comment) -> str:
    return each if isinstance(each, str) else str(each["body"])


def _id_of(added: Any) -> Any:
    found = added.get("id") if isinstance(added, Mapping) else added
    return found if isinstance(found, str | int | None) else str(found)
