"""Does a fingerprint tell secrets apart and nothing else, and is a secret found in any text?"""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from nottwice.model.sealing.keyring import make_key
from nottwice.model.sealing.secrets import (
    COVER,
    SHOWN,
    Known,
    covered,
    fingerprint,
    holds_fingerprint,
    is_fingerprint,
)

KEY, OTHER = make_key(bytes(range(32))), make_key(bytes(range(40, 72)))
CARD = "4111 1111 1111 1111"
PRINT = fingerprint(KEY, "charge.card", CARD)


def test_equal_secrets_of_one_parameter_have_equal_fingerprints_and_no_others() -> None:
    others = [
        fingerprint(KEY, "charge.card", CARD + " "),
        fingerprint(KEY, "charge.other", CARD),
        fingerprint(OTHER, "charge.card", CARD),
        # A value that looks like the fingerprint is a secret like any other.
        fingerprint(KEY, "charge.card", PRINT),
    ]
    assert fingerprint(KEY, "charge.card", CARD) == PRINT
    assert len({each["$secret"] for each in (PRINT, *others)}) == 5
    assert PRINT["$secret"].startswith(f"{KEY.id}:")
    assert all(map(is_fingerprint, (PRINT, *others)))


@pytest.mark.parametrize(
    "plain",
    [
        {"$secret": "k1:9f2c"},
        {"$secret": CARD},
        {"$secret": f"{PRINT['$secret']}0"},
        {"$secret": PRINT["$secret"], "a": 1},
        {"$secret": None},
        {"secret": PRINT["$secret"]},
        PRINT["$secret"],
        [],
    ],
)
def test_what_is_not_spelled_like_one_is_shown_as_it_is(plain: Any) -> None:
    assert not is_fingerprint(plain)
    assert not holds_fingerprint([plain])
    assert covered({"a": [plain]}) == {"a": [plain]}


def test_people_see_a_mark_wherever_a_fingerprint_is() -> None:
    args = {"card": PRINT, "options": {"tokens": [PRINT, 7]}, "note": SHOWN}
    assert holds_fingerprint(args)
    assert covered(args) == {"card": SHOWN, "options": {"tokens": [SHOWN, 7]}, "note": SHOWN}
    # Where values are written with their quotes, no text can be taken for the mark.
    assert (
        repr(covered(args, COVER))
        == f"{{'card': {SHOWN}, 'options': {{'tokens': [{SHOWN}, 7]}}, 'note': '{SHOWN}'}}"
    )


SECRET = 'pä"ss\\word\n/with+all?'


@pytest.mark.parametrize(
    "spelled",
    [
        SECRET,
        repr(SECRET),
        ascii(SECRET),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        SECRET.encode().hex(),
    ],
)
def test_a_secret_is_hidden_however_a_text_spells_it(spelled: str) -> None:
    known = Known()
    known.learn([{"deep": [SECRET]}])
    hidden = known.hide(f"refused: {spelled}!")
    assert SHOWN in hidden
    assert "word" not in hidden
    assert SECRET.encode().hex() not in hidden
    assert known.hide("refused: nothing") == "refused: nothing"


def test_numbers_and_single_lines_are_hidden_and_what_is_very_short_is_not() -> None:
    known = Known()
    known.learn(
        [4111111111111111, "-----BEGIN KEY-----\nMIIBVgIBADANBgkqhkiG9w0B\n--", "abc", True]
    )
    assert (
        known.hide("card 4111111111111111, line MIIBVgIBADANBgkqhkiG9w0B") == "card •••, line •••"
    )
    assert known.hide("abc True") == "abc True"


def test_in_plain_data_a_short_secret_counts_only_as_a_whole_text() -> None:
    known = Known()
    known.learn(["1234", "long-enough"])
    assert known.is_in('{"pin":"1234"}')
    assert not known.is_in('{"pin":"1234"}', short=False)
    assert not known.is_in('{"id":"ch_12345","cents":1234}')
    assert known.is_in('{"note":"was long-enough for"}', short=False)


def test_of_too_many_secrets_the_last_are_kept_in_mind() -> None:
    known = Known(most=2)
    assert not known
    for text in ("first-secret", "second-secret", "first-secret", "third-secret"):
        known.learn([text])
    assert known.hide("first-secret second-secret third-secret") == "••• second-secret •••"
