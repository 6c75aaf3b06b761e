"""Is a key read as it was written, refused when it can be guessed, and never shown?"""

from __future__ import annotations

import base64

import pytest

from nottwice.errors import UsageError
from nottwice.model.sealing.keyring import Key, Keyring, make_key, parse_keyring, spell_key

ONE = bytes(range(32))
OTHER = bytes(range(100, 140))


@pytest.mark.parametrize(
    "text",
    [
        ONE.hex(),
        ONE.hex().upper(),
        base64.b64encode(ONE).decode(),
        base64.urlsafe_b64encode(ONE).decode().rstrip("="),
        f"\n  # made in May\n\n  {ONE.hex()}  \n",
        spell_key(make_key(ONE)),
    ],
)
def test_base64_and_hexadecimal_digits_are_one_key(text: str) -> None:
    assert parse_keyring(text, where="here") == Keyring(make_key(ONE))


def test_the_first_line_is_in_use_and_the_others_are_found_by_their_ids() -> None:
    ring = parse_keyring(f"{ONE.hex()}\n{OTHER.hex()}\n{ONE.hex()}\n", where="here")
    one, other = make_key(ONE), make_key(OTHER)
    assert (ring.current, ring.older, ring.keys) == (one, (other,), (one, other))
    assert ring.find(one.id) == one
    assert ring.find(other.id) == other
    assert ring.find("k00000000") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing but a remark",
        ONE[:31].hex(),
        base64.b64encode(ONE[:31]).decode(),
        "00" * 32,
        "ab" * 100,
        "this is a passphrase, and not a key!",
        "pässword" * 8,
        f"{ONE.hex()}\n{ONE[:16].hex()}",
        f"{ONE.hex()} {OTHER.hex()}",
    ],
)
def test_what_can_be_guessed_or_not_read_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="nottwice key") as caught:
        parse_keyring(text, where="NOTTWICE_KEY")
    assert "NOTTWICE_KEY" in str(caught.value)
    for line in text.splitlines():
        assert line.startswith("#") or line not in str(caught.value)


def test_purposes_have_bytes_of_their_own_and_so_have_keys() -> None:
    one, other = make_key(ONE), make_key(OTHER)
    made = {one.derive("seal"), one.derive("secret"), other.derive("seal"), one.secret}
    assert len(made) == 4
    assert one.derive("seal") == make_key(ONE).derive("seal")
    assert one.id != other.id


def test_the_bytes_of_a_key_show_in_no_text() -> None:
    key = make_key(ONE)
    for text in (repr(key), str(key), repr(Keyring(key, (key,))), f"{key}"):
        assert key.id in text
        assert "\\x00" not in text
        assert ONE.hex()[:12] not in text
    assert isinstance(key, Key)
