"""Which version of a graph is drawn, if only its name is given?"""

from __future__ import annotations

import pytest

from nottwice.errors import UsageError
from nottwice.model.graphs.graph import DeclaredNode, GraphDefinition, define, parse_version
from nottwice.views.run.drawings import draw_deployed


def version(text: str) -> GraphDefinition:
    return define("flow", parse_version(text, what="it"), [DeclaredNode("pay", None)])


def test_a_name_means_the_newest_version() -> None:
    known = [version("1.9.0"), version("1.10.0"), version("1.2.0")]
    assert draw_deployed(known, "flow").graph == "flow@1.10.0"
    assert draw_deployed(known, "flow@1.2.0").graph == "flow@1.2.0"


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(UsageError, match=r"There is no graph 'flow@2\.0\.0'.*flow@1\.0\.0"):
        draw_deployed([version("1.0.0")], "flow@2.0.0")
