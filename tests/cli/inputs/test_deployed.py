"""Which graphs are meant by what --app names, and in which ledger do they run?"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nottwice as nt
from nottwice.cli.inputs.application import Application
from nottwice.cli.inputs.deployed import Deployed, app_of, ledger_for, named_ledger
from nottwice.cli.inputs.settings import Settings


def graph(name: str) -> nt.Graph[dict[str, Any]]:
    made = nt.Graph(name, version="1.0.0")
    made.node(lambda: None, name="only")  # type: ignore[call-overload]
    return made


def naming(named: Any) -> Application:
    return Application("it", ModuleType("it"), (), named)


def module(**content: Any) -> ModuleType:
    made = ModuleType("it")
    vars(made).update(content)
    return made


def test_an_app_or_a_graph_is_what_it_is() -> None:
    one = graph("one")
    app = nt.App(graphs=[one])
    assert app_of(naming(app)) is app
    assert app_of(naming(one)).graphs == (one,)


def test_a_module_stands_for_its_only_app_or_for_all_its_graphs() -> None:
    one, other = graph("one"), graph("other")
    app = nt.App(graphs=[one])
    assert app_of(naming(module(a=one, b=other, app=app))) is app
    assert app_of(naming(module(a=one, b=other, again=one))).graphs == (one, other)


@pytest.mark.parametrize(
    ("named", "text"),
    [
        (module(), "has neither an app nor a graph"),
        (7, "is int, neither an app nor a graph"),
        (module(a=nt.App(graphs=[]), b=nt.App(graphs=[])), "has several apps"),
    ],
)
def test_everything_else_is_refused_with_the_way_out(named: Any, text: str) -> None:
    with pytest.raises(nt.errors.UsageError, match=text) as caught:
        app_of(naming(named))
    assert "--app module:app" in str(caught.value)


def test_the_option_comes_before_the_ledger_of_the_app(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    app = nt.App(graphs=[], store="of-the-app.db")
    settings = Settings(store="given.db")
    with ledger_for(settings, app, create=True) as ledger:
        assert Path(ledger.location).name == "given.db"
    settings = Settings()
    with ledger_for(settings, app, create=True) as ledger:
        assert Path(ledger.location).name == "of-the-app.db"
    # What is printed from now on names the ledger in which the run is.
    assert settings.command("show", "a") == "nottwice show a --store of-the-app.db"


def test_no_ledger_is_created_unless_it_is_wanted(tmp_path: Path) -> None:
    app = nt.App(graphs=[], store=tmp_path / "a.db")
    with pytest.raises(nt.errors.NoLedger):
        ledger_for(Settings(), app, create=False)
    assert list(tmp_path.iterdir()) == []


def test_an_open_ledger_of_the_app_is_used_where_it_is(tmp_path: Path) -> None:
    with nt.Ledger(tmp_path / "a.db") as opened:
        settings = Settings()
        with ledger_for(settings, nt.App(graphs=[], store=opened), create=False) as ledger:
            assert ledger.location == opened.location
        assert settings.store == opened.location


def test_a_ledger_in_memory_is_refused(tmp_path: Path) -> None:
    for store in (":memory:", nt.Ledger(":memory:")):
        with pytest.raises(nt.errors.UsageError, match="in memory"):
            ledger_for(Settings(), nt.App(graphs=[], store=store), create=True)


def test_the_app_on_the_line_leads_to_its_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "led.py").write_text(
        "import nottwice as nt\napp = nt.App(graphs=[], store='of-the-app.db')\n"
    )
    (tmp_path / "tools_only.py").write_text("x = 1\n")
    for name in ("of-the-app.db", "nottwice.db", "given.db"):
        nt.Ledger(tmp_path / name).close()
    for settings, name in (
        (Settings(app="led.py:app"), "of-the-app.db"),
        (Settings(app="led.py"), "of-the-app.db"),
        (Settings(app="led.py", store="given.db"), "given.db"),
        (Settings(app="tools_only.py"), "nottwice.db"),
        (Settings(), "nottwice.db"),
    ):
        with named_ledger(settings) as ledger:
            assert Path(ledger.location).name == name


def test_in_another_ledger_an_app_keeps_its_graphs_and_limits(tmp_path: Path) -> None:
    limit = nt.Limit(graph="one", concurrency=1)
    app = nt.App(graphs=[graph("one")], limits=[limit])
    with nt.Ledger(tmp_path / "a.db") as ledger:
        placed = Deployed(naming(app), app).in_ledger(ledger)
    assert placed.limits == (limit,)
    assert placed.graphs == app.graphs
