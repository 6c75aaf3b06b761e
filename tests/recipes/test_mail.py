"""Is a mail one mail: the same bytes at every attempt, and found by its Message-ID? (P78)"""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import recipes
from nottwice.guard.declare import SyncTool
from tests.recipes.killing import AROUND_THE_EFFECT, kill_at, work_on

Send = SyncTool[..., recipes.Sent]
SENDER = "Shop <shop@example.com>"


class Mailbox:
    """The mail server's folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port

    @property
    def mails(self) -> list[EmailMessage]:
        files = sorted(self.folder.glob("*.eml"))
        read = (
            email.message_from_bytes(each.read_bytes(), policy=email.policy.default)
            for each in files
        )
        return list(read)

    def sent(self, message_id: str) -> bool:
        return any(mail["Message-ID"] == message_id for mail in self.mails)


@pytest.fixture
def mailbox(post_office: Any) -> Mailbox:
    return Mailbox(post_office.folder, post_office.smtp)


@pytest.fixture
def send(mailbox: Mailbox) -> Send:
    return recipes.send_mail(
        "127.0.0.1",
        port=mailbox.port,
        security="none",
        sender=SENDER,
        sent=mailbox.sent,
        settles="10ms",
        time_limit="5s",
    )


def mail_to(send: Send, *to: str) -> Any:
    return send.receipt(to=list(to), subject="Grüße", text="Hello\n.\nZoë", html="<p>Hello</p>")


def test_a_mail_is_sent_whole_with_an_id_that_follows_from_its_call(
    mailbox: Mailbox, send: Send, ledger: Path
) -> None:
    receipt = work_on(ledger, lambda: mail_to(send, "ann@example.com", "Bob <bob@example.com>"))
    (mail,) = mailbox.mails
    assert receipt.value == {"message_id": f"<{receipt.id}@example.com>", "refused": []}
    assert mail["Message-ID"] == receipt.value["message_id"]
    assert (mail["From"], mail["To"]) == (SENDER, "ann@example.com, Bob <bob@example.com>")
    assert mail["Subject"] == "Grüße"
    text = mail.get_body(("plain",))
    assert text is not None
    # The server keeps what is on the wire, where a line that begins with a dot has two.
    assert text.get_content().replace("..", ".").splitlines() == ["Hello", ".", "Zoë"]


@pytest.mark.parametrize("place", AROUND_THE_EFFECT)
def test_a_mail_whose_sender_was_killed_is_sent_once(
    mailbox: Mailbox, send: Send, ledger: Path, place: str
) -> None:
    def work() -> Any:
        return mail_to(send, "ann@example.com").value

    kill_at(place, ledger, work)
    assert work_on(ledger, work)["message_id"] == mailbox.mails[0]["Message-ID"]
    assert len(mailbox.mails) == 1


def test_a_mail_that_was_taken_without_an_answer_is_looked_up(
    mailbox: Mailbox, send: Send, ledger: Path
) -> None:
    receipt = work_on(ledger, lambda: mail_to(send, "lost@example.com"))
    assert receipt.settled_by == "verify"
    assert len(mailbox.mails) == 1


def test_without_a_place_to_look_a_person_is_asked(mailbox: Mailbox, ledger: Path) -> None:
    blind = recipes.send_mail(
        "127.0.0.1", port=mailbox.port, security="none", sender=SENDER, name="blind_mail"
    )
    with pytest.raises(nt.errors.ReplayUnsafeError):
        work_on(ledger, lambda: mail_to(blind, "lost@example.com"))
    assert len(mailbox.mails) == 1


def test_a_second_attempt_sends_the_same_bytes(mailbox: Mailbox, ledger: Path) -> None:
    """A person looked and was wrong; the mailbox can at least see that it is the same mail."""
    wrong = recipes.send_mail(
        "127.0.0.1",
        port=mailbox.port,
        security="none",
        sender=SENDER,
        sent=lambda message_id: len(mailbox.mails) > 1,
        # Long enough for another second to begin, which is what a Date can tell.
        settles="1100ms",
        name="wrong_mail",
    )
    kill_at("before result", ledger, lambda: mail_to(wrong, "ann@example.com"))
    work_on(ledger, lambda: mail_to(wrong, "ann@example.com"))
    first, second = (each.read_bytes() for each in sorted(mailbox.folder.glob("*.eml")))
    assert first == second


def test_a_recipient_that_is_refused_permanently_is_reported(
    mailbox: Mailbox, send: Send, ledger: Path
) -> None:
    with pytest.raises(nt.Permanent):
        work_on(ledger, lambda: mail_to(send, "nobody@example.com"))
    assert mailbox.mails == []


def test_recipients_that_are_refused_among_others_are_in_the_result(
    mailbox: Mailbox, send: Send, ledger: Path
) -> None:
    receipt = work_on(ledger, lambda: mail_to(send, "nobody@example.com", "ann@example.com"))
    assert receipt.value["refused"] == ["nobody@example.com"]
    assert len(mailbox.mails) == 1


def test_a_server_that_asks_to_come_back_is_asked_again(
    mailbox: Mailbox, send: Send, ledger: Path
) -> None:
    receipt = work_on(ledger, lambda: mail_to(send, "later@example.com"))
    assert receipt.attempts == 2
    assert len(mailbox.mails) == 1


@pytest.mark.parametrize(
    ("to", "subject"),
    [
        ([], "hello"),
        (["ann"], "hello"),
        (["ann@example.com, bob@example.com"], "hello"),
        (["ann@example.com\nBcc: eve@example.com"], "hello"),
        (["ann@example.com"], "hello\r\nBcc: eve@example.com"),
    ],
)
def test_only_named_recipients_are_written_to(
    mailbox: Mailbox, send: Send, ledger: Path, to: list[str], subject: str
) -> None:
    with pytest.raises(nt.errors.InvalidArguments):
        work_on(ledger, lambda: send(to=to, subject=subject, text="x"))
    assert mailbox.mails == []


@pytest.mark.parametrize("words", [{"sender": "nobody"}, {"sender": SENDER, "security": "some"}])
def test_settings_that_cannot_work_are_refused(words: dict[str, Any]) -> None:
    with pytest.raises(nt.errors.InvalidTool):
        recipes.send_mail("mail.example.com", name="bad_mail", **words)


def test_a_login_that_cannot_be_had_leaves_no_doubt_and_is_not_told(
    mailbox: Mailbox, ledger: Path
) -> None:
    def locked_vault() -> tuple[str, str]:
        raise KeyError("s3cret")

    send = recipes.send_mail(
        "127.0.0.1",
        port=mailbox.port,
        security="none",
        sender=SENDER,
        login=locked_vault,
        name="locked_mail",
    )
    with pytest.raises(nt.Permanent, match="was not sent") as caught:
        work_on(ledger, lambda: mail_to(send, "ann@example.com"))
    assert "s3cret" not in str(caught.value)
    assert mailbox.mails == []


def test_a_server_without_encryption_gets_no_mail_unless_that_is_meant(
    mailbox: Mailbox, ledger: Path
) -> None:
    careful = recipes.send_mail(
        "127.0.0.1", port=mailbox.port, sender=SENDER, name="careful_mail", login=("me", "s3cret")
    )
    with pytest.raises(nt.Permanent) as caught:
        work_on(ledger, lambda: mail_to(careful, "ann@example.com"))
    assert "s3cret" not in str(caught.value)
    assert mailbox.mails == []
