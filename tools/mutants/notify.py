"""Mutants of ``notify``, and of the outbox that it shares: who is told, how often, and of what."""

from __future__ import annotations

from tools.mutants.mutant import Mutant

_SENDER = "tests/notify/test_sender.py"
_TRANSPORT = "tests/notify/test_transport.py"
_ATTENDING = "tests/notify/test_attending.py"

NOTIFY: tuple[Mutant, ...] = (
    Mutant(
        name="two senders may have one notice",
        file="notify/sender.py",
        old="LEASE_SECONDS: Final = 60.0\n",
        new="LEASE_SECONDS: Final = 0.0\n",
        tests=(f"{_SENDER}::test_two_senders_at_once_send_each_message_once",),
        why="People would be told everything as often as there are processes.",
    ),
    Mutant(
        name="a message that comes again has another id",
        file="notify/messages.py",
        old="        id=notice.notice_id,\n",
        new="        id=notice.notice_id + str(now),\n",
        tests=(f"{_SENDER}::test_what_was_sent_before_a_kill_comes_again_with_the_same_id",),
        why="A receiver could not know that it has the message already.",
    ),
    Mutant(
        name="a digest is not sent again as it was",
        file="notify/sender.py",
        old="            if by.startswith(_DIGEST):\n",
        new='            if by.startswith("never"):\n',
        tests=(f"{_SENDER}::test_a_digest_survives_a_kill_as_the_same_message",),
        why="A digest with a newer notice in it has another id.",
    ),
    Mutant(
        name="a flood of messages is not held back",
        file="notify/sender.py",
        old="        elif recent >= MOST_IN_A_MINUTE:\n",
        new="        elif recent >= 999:\n",
        tests=(f"{_SENDER}::test_ten_one_after_another_are_ten_and_the_rest_of_the_minute_is_one",),
        why="A person who gets a hundred messages mutes them all.",
    ),
    Mutant(
        name="a webhook that is gone is tried forever",
        file="notify/sender.py",
        old="            if tries > len(RETRY_SECONDS):\n",
        new="            if tries > 99:\n",
        tests=(f"{_SENDER}::test_a_message_that_never_arrives_is_given_up_and_that_shows",),
        why="It would never show that no one was told.",
    ),
    Mutant(
        name="a redirect is followed with the signature",
        file="notify/transport.py",
        old="urllib.request.HTTPErrorProcessor,\n",
        new="urllib.request.HTTPErrorProcessor, urllib.request.HTTPRedirectHandler,\n",
        tests=(f"{_TRANSPORT}::test_no_redirect_is_followed_with_the_signature",),
        why="Another server would get what is meant for the receiver.",
    ),
    Mutant(
        name="a server that answers byte by byte is waited for",
        file="notify/transport.py",
        old="    thread.join(limit_seconds)\n",
        new="    thread.join()\n",
        tests=(f"{_TRANSPORT}::test_a_server_that_answers_byte_by_byte_is_not_waited_for",),
        why="One webhook could hold up all messages.",
    ),
    Mutant(
        name="text is markup in Slack",
        file="notify/bodies.py",
        old='.replace("<", "&lt;")',
        new="",
        tests=("tests/notify/test_bodies.py::test_no_text_is_markup_in_a_slack_message",),
        why="A model could call a whole channel.",
    ),
    Mutant(
        name="arguments are sent unasked",
        file="notify/messages.py",
        old="if settings.arguments else {}\n",
        new="if True else {}\n",
        tests=(
            "tests/notify/test_messages.py"
            "::test_no_argument_question_or_error_is_sent_unless_asked_for",
        ),
        why="Names of customers would be in a chat.",
    ),
    Mutant(
        name="the caller waits for the webhook",
        file="notify/attending.py",
        old="            thread.start()\n",
        new="            thread.run()\n",
        tests=(f"{_ATTENDING}::test_the_caller_gets_its_error_while_the_webhook_still_hangs",),
        why="Every review would hold up its agent for seconds.",
    ),
    Mutant(
        name="a program ends before its message is sent",
        file="notify/attending.py",
        old="atexit.register(lambda: wait_for_all(INLINE_LIMIT_SECONDS))\n",
        new="",
        tests=(f"{_ATTENDING}::test_a_program_that_ends_immediately_has_told_people",),
        why="A script that is blocked ends within milliseconds.",
    ),
)
