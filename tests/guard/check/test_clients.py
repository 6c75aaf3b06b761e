"""Is it known whether real clients retry, and is the setting of a client believed?"""

from __future__ import annotations

import types
from typing import Any

import aiohttp
import httpx
import pytest
import requests
import requests.adapters
import urllib3

from nottwice.guard.check.clients import (
    CLIENTS,
    RETRYING_DECORATORS,
    Opinion,
    Retries,
    form_opinion,
)


def opinion(value: Any, module: str) -> Opinion:
    found = form_opinion(value, module)
    assert found is not None
    return found


@pytest.mark.parametrize("module", [httpx, requests, aiohttp, urllib3])
def test_an_installed_client_is_known(module: types.ModuleType) -> None:
    assert form_opinion(module, module.__name__) is not None


@pytest.mark.parametrize("name", ["httpx", "requests", "smtplib", "urllib.request", "http.client"])
def test_clients_without_retries_are_named_as_such(name: str) -> None:
    found = opinion(None, name)
    assert found.retries is Retries.NONE_KNOWN
    assert found.text == f"{name.partition('.')[0]} does not retry on its own"


@pytest.mark.parametrize("name", sorted(name for name in CLIENTS if CLIENTS[name].retries))
def test_a_client_that_retries_says_how_often_and_how_to_switch_it_off(name: str) -> None:
    found = opinion(None, name)
    assert found.retries is Retries.YES
    assert found.text.startswith(f"{name} retries ")
    assert "; to turn it off, " in found.text
    assert CLIENTS[name].remedy


def test_the_figure_for_urllib3_is_its_real_default() -> None:
    assert urllib3.Retry.DEFAULT.total == 3
    assert "3 times" in opinion(urllib3.PoolManager(), "urllib3").text


def test_requests_really_does_not_retry_by_default() -> None:
    session = requests.Session()
    assert opinion(session, "requests.sessions").retries is Retries.NONE_KNOWN


def test_a_session_with_a_retrying_adapter_is_found() -> None:
    session = requests.Session()
    session.mount("https://", requests.adapters.HTTPAdapter(max_retries=urllib3.Retry(5)))
    found = opinion(session, "requests.sessions")
    assert found.retries is Retries.YES
    assert "5 times here" in found.text


@pytest.mark.parametrize("retries", [False, 0, urllib3.Retry(0), urllib3.Retry(total=False)])
def test_a_pool_that_was_told_not_to_retry_is_believed(retries: Any) -> None:
    found = opinion(urllib3.PoolManager(retries=retries), "urllib3.poolmanager")
    assert found.retries is Retries.NONE_KNOWN
    assert found.text == "urllib3 has its retries off"


@pytest.mark.parametrize("package", ["openai", "anthropic", "groq"])
def test_a_model_client_is_asked_for_its_own_setting(package: str) -> None:
    # These set `max_retries` on the instance.
    assert opinion(types.SimpleNamespace(max_retries=0), package).retries is Retries.NONE_KNOWN
    assert "7 times here" in opinion(types.SimpleNamespace(max_retries=7), package).text
    assert "2 times, by default" in opinion(print, package).text


def test_stripe_is_asked_for_its_module_wide_setting_and_sends_keys_itself() -> None:
    module = types.ModuleType("stripe")
    assert "2 times, with its own idempotency key" in opinion(module, "stripe").text
    assert opinion(module, "stripe").harmless
    vars(module)["max_network_retries"] = 0
    assert opinion(module, "stripe").retries is Retries.NONE_KNOWN


def test_an_aws_client_is_asked_for_its_configuration() -> None:
    def client(retries: dict[str, int]) -> Any:
        config = types.SimpleNamespace(retries=retries)
        return types.SimpleNamespace(meta=types.SimpleNamespace(config=config))

    once = opinion(client({"total_max_attempts": 1}), "botocore.client")
    assert once.retries is Retries.NONE_KNOWN
    assert "4 times here" in opinion(client({"total_max_attempts": 5}), "botocore.client").text
    assert "legacy mode" in opinion(client({}), "botocore.client").text


@pytest.mark.parametrize("package", RETRYING_DECORATORS)
def test_a_library_that_exists_to_retry_is_known(package: str) -> None:
    assert opinion(None, f"{package}._sync").retries is Retries.YES


def test_only_the_parts_of_a_namespace_that_send_are_clients() -> None:
    assert form_opinion(None, "google.cloud.storage.client") is not None
    assert form_opinion(None, "google.protobuf.message") is None


@pytest.mark.parametrize("module", ["my_agent", "", "pydantic", "requestsx"])
def test_about_anything_else_there_is_no_opinion(module: str) -> None:
    assert form_opinion(None, module) is None
