"""Is LangGraph imported only if it is used, and does an error say that it is missing?"""

from __future__ import annotations

import sys

import pytest

import nottwice.langchain


def test_without_langgraph_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    # None in sys.modules makes an import fail, wherever these tests run.
    monkeypatch.setitem(sys.modules, "langgraph", None)
    monkeypatch.delitem(sys.modules, "nottwice.langchain.saver", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'nottwice\[langchain\]'"):
        _ = nottwice.langchain.NottwiceSaver


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        nottwice.langchain.Missing  # type: ignore[attr-defined]  # noqa: B018
    assert "NottwiceSaver" in dir(nottwice.langchain)
