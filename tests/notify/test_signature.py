"""Would a receiver that follows Standard Webhooks accept the signature? (P335)"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nottwice.notify.signature import signed_headers
from tests.notify.receiver import Received, is_signed


@given(secret=st.binary(min_size=1, max_size=200), body=st.binary(max_size=300))
def test_an_independent_implementation_finds_the_same_signature(secret: bytes, body: bytes) -> None:
    headers = signed_headers(secret, "msg_1", 1_700_000_000.9, body)
    assert headers["webhook-timestamp"] == "1700000000"
    assert is_signed(Received("/", headers, body), secret)


def test_a_changed_id_time_or_body_does_not_fit_the_signature() -> None:
    headers = signed_headers(b"key", "msg_1", 1_700_000_000.0, b"body")
    assert is_signed(Received("/", headers, b"body"), b"key")
    assert not is_signed(Received("/", headers, b"Body"), b"key")
    assert not is_signed(Received("/", headers, b"body"), b"kez")
    for name in ("webhook-id", "webhook-timestamp"):
        changed = {**headers, name: "17"}
        assert not is_signed(Received("/", changed, b"body"), b"key")
