"""What if a framework is missing? Its tests are skipped, or fail; they never pass."""

from __future__ import annotations

import sys

import pytest

from tests.test_frameworks import install

BROKEN = [sys.executable, "-c", "import sys; sys.exit('ERROR: there is no index')"]


def test_a_framework_that_cannot_be_installed_skips_its_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NOTTWICE_ADAPTERS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is no index"):
        install(BROKEN)


def test_a_framework_that_cannot_be_installed_fails_its_tests_where_it_is_required(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOTTWICE_ADAPTERS", "required")
    with pytest.raises(pytest.fail.Exception, match=r"there is no index .*must be here"):
        install(BROKEN)
