"""Does the proxy forward faithfully, and lose exactly what it was told to lose?"""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

import nottwice as nt
from nottwice.testing import World, WorldClient, WorldRefused
from nottwice.testing.proxy import LossyProxy


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World.start() as world:
        yield world


def test_what_is_not_lost_passes_unchanged_in_both_directions(world: World) -> None:
    with LossyProxy.start(world.url) as proxy:
        client = WorldClient(proxy.url)
        assert client.do("proxied", text="ä", result={"ok": True}) == {"ok": True}
        found = client.find("proxied", text="ä")
        with pytest.raises(WorldRefused) as refused:
            client.do("proxied", fail_with=503, retry_after=7)
    assert found is not None
    assert found.args == {"text": "ä"}
    assert (refused.value.status, refused.value.retry_after) == (503, 7.0)
    assert [(one.number, one.method, one.status) for one in proxy.passed()] == [
        (1, "POST", 200),
        (2, "GET", 200),
        (3, "POST", 503),
    ]


def test_a_lost_response_is_lost_after_the_effect(world: World) -> None:
    with LossyProxy.start(world.url, lose_responses=[2]) as proxy:
        client = WorldClient(proxy.url)
        client.do("answered", text="one")
        with pytest.raises(ConnectionError):
            client.do("answered", text="two")
        client.do("answered", text="three")
    assert [effect.args["text"] for effect in world.effects("answered")] == ["one", "two", "three"]
    assert [one.lost for one in proxy.passed()] == [None, "response", None]


def test_a_lost_request_never_reaches_the_upstream(world: World) -> None:
    with LossyProxy.start(world.url, lose_requests=[1]) as proxy:
        with pytest.raises(ConnectionError):
            WorldClient(proxy.url).do("unheard")
    assert world.effects("unheard") == []
    assert [one.lost for one in proxy.passed()] == ["request"]


def test_an_upstream_that_is_not_there_is_a_bad_gateway() -> None:
    with LossyProxy.start("http://127.0.0.1:1") as proxy:
        connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=10)
        connection.request("GET", "/")
        assert connection.getresponse().status == 502
        connection.close()
    (passed,) = proxy.passed()
    assert passed.lost is not None
    assert passed.lost.startswith("upstream")


def test_what_is_no_address_is_refused_before_anything_starts() -> None:
    with pytest.raises(nt.errors.UsageError, match="Nothing was started"):
        LossyProxy.start("127.0.0.1:8000")
