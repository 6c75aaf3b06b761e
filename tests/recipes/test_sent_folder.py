"""Does a look into the folder of sent mail tell the truth, and raise where it cannot? (P78)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import recipes
from nottwice.guard.check.clients import Retries
from nottwice.guard.check.report import report_on
from tests.recipes.killing import AROUND_THE_EFFECT, kill_at, work_on

LOGIN = ("ann", "s3cret")


class Post:
    """A mail server with a mailbox: what is sent is filed."""

    def __init__(self, folder: Path, smtp: int, imap: int) -> None:
        self.folder = folder
        self.imap = imap
        self.send = recipes.send_mail(
            "127.0.0.1",
            port=smtp,
            security="none",
            sender="shop@example.com",
            sent=self.look(login=LOGIN),
            settles="10ms",
            name="filed_mail",
        )

    def look(self, **words: Any) -> Any:
        return recipes.imap_sent_folder("127.0.0.1", port=self.imap, security="none", **words)


@pytest.fixture
def post(post_office: Any) -> Post:
    return Post(post_office.folder, post_office.smtp, post_office.imap)


@pytest.mark.parametrize("place", AROUND_THE_EFFECT)
def test_a_mail_whose_sender_was_killed_is_found_in_the_mailbox(
    post: Post, ledger: Path, place: str
) -> None:
    def work() -> Any:
        return post.send(to=["ann@example.com"], subject="Hello", text="Hello")

    kill_at(place, ledger, work)
    message_id = work_on(ledger, work)["message_id"]
    assert len(list(post.folder.glob("*.eml"))) == 1
    assert post.look(login=lambda: LOGIN)(message_id) is True
    assert post.look(login=LOGIN)("<another@example.com>") is False


@pytest.mark.parametrize(
    "words", [{"login": ("ann", "wrong")}, {"login": LOGIN, "folder": "Gesendet"}]
)
def test_where_it_cannot_look_it_does_not_answer(post: Post, words: dict[str, Any]) -> None:
    with pytest.raises(Exception) as caught:
        post.look(**words)("<some@example.com>")
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("words", [{"security": "some"}, {"folder": 'a"b'}, {"folder": "Entwürfe"}])
def test_settings_that_cannot_work_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(nt.errors.InvalidTool):
        recipes.imap_sent_folder("imap.example.com", login=LOGIN, **words)


def test_looking_changes_nothing_as_far_as_can_be_seen(post: Post) -> None:
    report = report_on(post.send)
    assert (report.findings, report.answers.retries) == ((), Retries.NONE_KNOWN)
    assert report.answers.detection_is_free.startswith("yes, as far as its code shows")
