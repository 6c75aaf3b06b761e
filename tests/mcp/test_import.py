"""Are the SDK and FastMCP needed only by those who use them, and is it said when one is missing?"""

from __future__ import annotations

import sys

import pytest

import nottwice.mcp


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [("Nottwice", "extension", "mcp"), ("NottwiceToolMiddleware", "middleware", "fastmcp")],
)
def test_without_the_package_the_error_says_what_to_install(
    name: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None in sys.modules makes an import fail, wherever these tests run.
    for package in ("mcp", "mcp_types", "fastmcp"):
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"nottwice.mcp.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'nottwice\[{extra}\]'"):
        getattr(nottwice.mcp, name)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Missing'"):
        nottwice.mcp.Missing  # noqa: B018
    assert {"Nottwice", "NottwiceToolMiddleware"} <= set(dir(nottwice.mcp))
