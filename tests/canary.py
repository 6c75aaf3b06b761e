"""Twenty secrets of all shapes, and how to find them in bytes, in any encoding."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

_PEM = "\n".join(
    [
        "-----BEGIN CANARY KEY-----",
        "MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBAKcanary0017",
        "Qz9xV3l1b2ZyZWVjYW5hcnliaXJkaW5hY29hbG1pbmVzaW5naW5nMDAxNw==",
        "-----END CANARY KEY-----",
    ]
)
SECRETS: dict[str, str] = {
    "card number": "4929381332664295",
    "card number in groups": "5186 0011 7234 9908",
    "private key": _PEM,
    "web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.s5x0kDq7Zc2mYw1pLr8tVbNhGfE",
    "key with SQL in it": "sk_live_'; DROP TABLE runs;--9XQz",
    "other alphabets": "пароль-秘密-🔑-Zürich",
    "quotes and backslashes": 'ab"cd\\ef\\\\gh\'ij"kl/mn',
    "base64": "Y2FuYXJ5K2JpcmQvc2luZ3M/eWVzKzE3Lw==",
    "quoted for a URL": "p%40ss%2Fc%C3%A4nary%21-17",
    "URL with a password": "https://canary:s1ng!ng@db.internal.example/x?token=zz81kk",
    "e-mail": "canary.bird+17@aviary.example",
    "very short": "Ω7жq",
    "digest": "9c1185a5c5e9fc54612808977ee8f548b2258d31ddadef707ba62c166051b9e3",
    "id": "6f1de0b2-5c1f-4f6e-9b52-c0ffee17canary"[:36],
    "lines and tabs": "first canary\tcolumn\nsecond canary line\r\nthird",
    "JSON": '{"user": "canary", "password": "zebra-17-\\u00e9"}',
    "very long": "".join(f"canary-{number:04d}-" for number in range(400)),
    "digits": "8472615509374421",
    "steers a terminal": "\x1b[31mcanary-bell\x07\x1b]0;x",
    "markup": "<b onclick=\"canary('17')\">&amp;[red]",
}
UNMARKED = "unmarked-canary-3141592653"


def spellings(secret: str) -> set[bytes]:
    """A secret as a file, a log or a screen may hold it; of several lines, each."""
    raw = secret.encode()
    texts = {
        secret,
        *(line for line in secret.splitlines() if len(line) >= 12),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        quote(secret, safe=""),
        base64.b64encode(raw).decode().rstrip("="),
        raw.hex(),
    }
    return {text.encode() for text in texts} | {secret.encode("utf-16-le")}


def found_in(haystack: bytes, secrets: dict[str, str]) -> set[str]:
    """The names of those secrets that some bytes hold."""
    return {
        name
        for name, secret in secrets.items()
        if any(spelling in haystack for spelling in spellings(secret))
    }


def found_below(folder: Path, secrets: dict[str, str]) -> dict[str, set[str]]:
    """The same for every file of a folder, by its path."""
    looked = {
        str(file.relative_to(folder)): found_in(file.read_bytes(), secrets)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    assert looked
    return {path: names for path, names in looked.items() if names}
