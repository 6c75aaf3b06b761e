"""Who may change runs from outside: no person, unless the app says so."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import NotPermitted, UsageError
from nottwice.graphs.admins import check_admin, read_admins


def check(admins: Any, who: str) -> None:
    check_admin(read_admins(admins), who, what_for="migrate runs")


def test_names_and_functions_say_who_may() -> None:
    check(["ann", "bob"], "ann")
    check((name for name in ["ann"]), "ann")
    check(lambda who: who.startswith("a"), "ann")
    for admins in (["ann"], [], lambda who: False):
        with pytest.raises(NotPermitted, match="'bob' is not an admin"):
            check(admins, "bob")


def test_without_admins_no_person_may() -> None:
    with pytest.raises(NotPermitted, match=r"nt\.App\(\.\.\., admins="):
        check(None, "ann")


@pytest.mark.parametrize("answer", [None, "yes", 1])
def test_an_answer_that_is_neither_yes_nor_no_is_no(answer: Any) -> None:
    with pytest.raises(NotPermitted, match="return True or False"):
        check(lambda who: answer, "ann")


def test_a_coroutine_is_no_permission() -> None:
    async def ask_the_directory(who: str) -> bool:
        return False

    with (
        pytest.warns(RuntimeWarning, match="never awaited"),
        pytest.raises(NotPermitted, match="returned coroutine"),
    ):
        check(ask_the_directory, "ann")


def test_a_function_that_fails_permits_nothing() -> None:
    def broken(who: str) -> bool:
        raise ConnectionError("no directory")

    with pytest.raises(NotPermitted, match="raised ConnectionError: no directory"):
        check(broken, "ann")


@pytest.mark.parametrize("given", ["ann", ["ann", 3], [""], 7])
def test_what_is_no_list_of_names_is_refused_when_the_app_is_made(given: Any) -> None:
    with pytest.raises(UsageError, match="takes a list of names"):
        nt.App(graphs=[], admins=given)
