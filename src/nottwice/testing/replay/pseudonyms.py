"""Which values of a ledger are secret, and what replaces them in a recording?

A value is secret if it is under a name that is declared secret, or if it looks like an e-mail
address, a card number, a bearer token or an API key, wherever it is. The same value has the same
pseudonym everywhere in a recording, including inside longer texts and as the name of a field. It
keeps its type and its shape. Pseudonyms are made with a key that no recording contains, so values
cannot be found by trying them all. Promise kept here: P52.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import string
from collections.abc import Iterable, Iterator
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.sealing.secrets import is_fingerprint

SECRET_NAMES = (
    "access_token",
    "api_key",
    "apikey",
    "authorization",
    "card_number",
    "client_secret",
    "cookie",
    "cvc",
    "cvv",
    "iban",
    "password",
    "passwd",
    "phone",
    "private_key",
    "refresh_token",
    "secret",
    "ssn",
    "token",
)
# A version is not a domain: refund@1.0.0 is a graph.
_EMAIL = r"[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+[A-Za-z]{2,}"
# Only prefixes of card issuers: a time in milliseconds has as many digits.
_CARD = r"(?<![\w.-])(?:4|3[0-9]|5[1-5]|6[0-9]|2[2-7])(?:[ -]?\d){11,18}(?![\w-])"
_TOKEN = (
    r"(?<=Bearer )[A-Za-z0-9._~+/-]{8,}=*"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r"|(?<![A-Za-z0-9])(?:sk|pk|rk|whsec|ghp|gho|ghs|github_pat|glpat|xox[abprs]|AKIA|AIza|hf)"
    r"[-_A-Za-z0-9]{16,}"
)
_OTHER_SHAPES = re.compile(f"(?P<token>{_TOKEN})|(?P<card>{_CARD})")
_SHAPES = re.compile(f"(?P<email>{_EMAIL})|{_OTHER_SHAPES.pattern}")
_LEAST_INSIDE = 5
"""Shorter values are only replaced where they were found, as they occur in many other texts."""
_LEAST_NUMBER = 10_000
_TRIES = 100
_NUMBER = re.compile(r"-?[1-9]\d*(?:\.\d+)?(?:e[+-]?\d+)?|-?0\.\d+(?:e[+-]?\d+)?")
_PREFIX = re.compile(r"^(?:[A-Za-z]{2,10}[-_])+|^(?:AKIA|AIza|eyJ)")
_LETTERS = (string.digits, string.ascii_lowercase, string.ascii_uppercase)


class Pseudonyms:
    """Finds secrets, gives each a pseudonym, and replaces them.

    First ``look`` at everything, then ``replace``: a value that is secret in one place is secret
    everywhere. A value in the ``public`` text is not secret because of its shape alone.
    """

    def __init__(self, key: bytes, names: Iterable[str] = (), *, public: str = "") -> None:
        self._key = key
        self._public = public
        self._paths = [_path_of(name) for name in (*SECRET_NAMES, *names)]
        self._secrets: dict[str, str] = {}
        """Texts that are secret everywhere, with their shape."""
        self._local: dict[str, str] = {}
        """Texts that are secret only under their names, because they are short."""
        self._judged: dict[tuple[str, ...], bool] = {}
        self._table: dict[str, str] | None = None
        self._pattern: re.Pattern[str] | None = None

    def __len__(self) -> int:
        return len(self._secrets) + len(self._local)

    def look(self, value: Any, path: tuple[str, ...] = ()) -> None:
        """Collect all secrets in some plain data."""
        assert self._table is None, "everything is looked at before anything is replaced"
        for text, shape, everywhere in self._found(value, path):
            (self._secrets if everywhere else self._local).setdefault(text, shape)

    def replace(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """Return the data with a pseudonym for every secret. Types and shape are kept."""
        secret = self._is_secret(path)
        match value:
            case str():
                return self._pseudonym(value) if secret else self._replace_inside(value)
            case bool() | None:
                return value
            case int() | float():
                return self._replace_number(value, secret=secret)
            case list():
                return [self.replace(item, path) for item in value]
            case dict() if is_fingerprint(value):
                # What it represents is unknown, so there is nothing to disguise.
                return value
            case dict():
                return {
                    self._replace_inside(name): self.replace(item, (*path, normal_name(name)))
                    for name, item in value.items()
                }
            case _:
                return value

    def _found(self, value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str, bool]]:
        secret = self._is_secret(path)
        match value:
            case str():
                if secret and value:
                    yield value, _shape_of(value), len(value) >= _LEAST_INSIDE
                yield from self._shaped(value)
            case bool() | None:
                return
            case int() | float():
                if secret:
                    text = _digits(value)
                    yield text, _shape_of(text), abs(value) >= _LEAST_NUMBER
                elif isinstance(value, int):
                    yield from self._shaped(str(value))
            case list():
                for item in value:
                    yield from self._found(item, path)
            case dict() if not is_fingerprint(value):
                for name, item in value.items():
                    yield from self._shaped(name)
                    yield from self._found(item, (*path, normal_name(name)))

    def _shaped(self, text: str) -> Iterator[tuple[str, str, bool]]:
        """Yield what is secret because of its shape."""
        # The search for an address tries every letter of a long word, up to the end of the word.
        # Skip it where there can be no address.
        shapes = _SHAPES if "@" in text else _OTHER_SHAPES
        for found in shapes.finditer(text):
            shape = str(found.lastgroup)
            if (shape != "card" or _is_card(found[0])) and found[0] not in self._public:
                yield found[0], shape, True

    def _is_secret(self, path: tuple[str, ...]) -> bool:
        """Return whether a place is under a secret name, however deep."""
        found = self._judged.get(path)
        if found is None:
            found = self._judged[path] = any(
                path[start : start + len(secret)] == secret
                for secret in self._paths
                for start in range(len(path) - len(secret) + 1)
            )
        return found

    def _replace_inside(self, text: str) -> str:
        table = self._all()
        assert self._pattern is not None
        return self._pattern.sub(lambda found: table[found[0]], text)

    def _replace_number(self, value: int | float, *, secret: bool) -> int | float:
        text = _digits(value)
        if not secret and text not in self._secrets:
            return value
        made = self._pseudonym(text)
        return float(made) if isinstance(value, float) else int(made)

    def _pseudonym(self, text: str) -> str:
        table = self._all()
        return table[text] if text in table else self._replace_inside(text)

    def _all(self) -> dict[str, str]:
        """Return every secret with its pseudonym. All differ, and none is itself a secret."""
        if self._table is None:
            shapes = {**self._local, **self._secrets}
            taken, self._table = set(shapes), {}
            for text in sorted(shapes):
                number = 0
                while (made := self._make(text, shapes[text], number)) in taken:
                    number += 1
                taken.add(made)
                self._table[text] = made
            longest_first = sorted(self._secrets, key=lambda text: (-len(text), text))
            self._pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
        return self._table

    def _make(self, text: str, shape: str, number: int) -> str:
        stream = _Stream(self._key, f"{number}:{text}")
        # A short text may have too few others of its shape. Then use a longer one.
        longer = stream.like("1") * (number // _TRIES)
        if shape == "email":
            return f"user-{stream.hexadecimal(12)}@example.com"
        if shape == "number":
            return _disguise_number(text, stream) + longer
        if shape == "card":
            return _disguise_card(text, stream)
        prefix = _PREFIX.match(text) if shape == "token" else None
        kept = prefix[0] if prefix else ""
        return kept + "".join(stream.like(letter) for letter in text[len(kept) :]) + longer


def _shape_of(text: str) -> str:
    whole = _SHAPES.fullmatch(text)
    shape = "text" if whole is None else str(whole.lastgroup)
    if shape in ("text", "card") and not (shape == "card" and _is_card(text)):
        return "number" if _NUMBER.fullmatch(text) else "text"
    return shape


def _path_of(name: str) -> tuple[str, ...]:
    parts = tuple(normal_name(part) for part in name.split("."))
    if not all(parts):
        raise UsageError(
            f"{name!r} names no value that could be secret. Nothing was recorded. Write the name "
            "of a field, like email, or its path, like customer.email."
        )
    return parts


def normal_name(name: str) -> str:
    """Return a name for comparison: case and dashes do not matter."""
    return name.strip().lower().replace("-", "_")


def _digits(value: int | float) -> str:
    """Return a number as text. 10 and 10.0 are the same value."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def _is_card(text: str) -> bool:
    """Return whether digits are a card number: the check digit is right (ISO/IEC 7812)."""
    digits = [int(letter) for letter in text if letter.isdigit()]
    return len(set(digits)) > 1 and _check_sum(digits) % 10 == 0


def _check_sum(digits: list[int]) -> int:
    doubled = [each * 2 - 9 * (each > 4) for each in digits[-2::-2]]
    return sum(digits[-1::-2]) + sum(doubled)


def _disguise_card(text: str, stream: _Stream) -> str:
    first = next(letter for letter in text if letter.isdigit())
    made = [letter if not letter.isdigit() else stream.like(letter) for letter in text]
    places = [place for place, letter in enumerate(made) if letter.isdigit()]
    made[places[0]], made[places[-1]] = first, "0"
    rest = _check_sum([int(made[place]) for place in places]) % 10
    made[places[-1]] = str((10 - rest) % 10)
    return "".join(made)


def _disguise_number(text: str, stream: _Stream) -> str:
    """Return other digits, as many. The first is not 0, so the number keeps its length."""
    mantissa, mark, exponent = text.partition("e")
    made: list[str] = []
    for letter in mantissa:
        drawn = stream.like(letter)
        leads = letter.isdigit() and letter != "0" and not any(one.isdigit() for one in made)
        made.append(str(int(drawn) % 9 + 1) if leads else drawn)
    return "".join(made) + mark + exponent


class _Stream:
    """Letters and digits derived from a key and a text, which reveal nothing about them."""

    def __init__(self, key: bytes, text: str) -> None:
        self._key = key
        self._text = text.encode("utf-8", "backslashreplace")
        self._block = b""
        self._blocks = 0

    def hexadecimal(self, letters: int) -> str:
        return "".join(f"{self._draw() % 16:x}" for _ in range(letters))

    def like(self, letter: str) -> str:
        """Return another letter of the same kind: a digit for a digit, a capital for a capital."""
        drawn = self._draw()
        for kind in _LETTERS:
            if letter in kind:
                return kind[drawn % len(kind)]
        return string.ascii_lowercase[drawn % 26] if letter.isalpha() else letter

    def _draw(self) -> int:
        if not self._block:
            counted = self._blocks.to_bytes(4, "big") + self._text
            self._block = hmac.new(self._key, counted, hashlib.sha256).digest()
            self._blocks += 1
        drawn, self._block = self._block[0], self._block[1:]
        return drawn
