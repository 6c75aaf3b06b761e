"""Is what an annotation marks as secret found, however it is nested, and nothing else?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, NewType, Optional, TypedDict, Union

import pydantic
import pytest
from pydantic import BaseModel, Field, RootModel, SecretBytes, SecretStr, model_serializer

from nottwice.guard.arguments.secrets import Secret, find_secrets, holds_secret, replace_secrets

Marked = Annotated[str, Secret]
Token = NewType("Token", Marked)


class Login(BaseModel):
    name: str
    password: SecretStr
    pin: Annotated[int, Secret] = 0
    api_key: Marked = Field(default="", alias="apiKey")


class Tree(BaseModel):
    token: Marked
    children: list[Tree] = []


@dataclass
class Account:
    owner: str
    token: Marked
    login: Login | None = None


class Options(TypedDict, total=False):
    name: str
    token: Marked


class Pair(NamedTuple):
    name: str
    token: Marked


class Written(BaseModel):
    token: Marked

    @model_serializer
    def write(self) -> dict[str, str]:
        return {"t": self.token}


LOGIN = {"name": "a", "password": "b", "pin": 1, "apiKey": "c", "api_key": "d"}
NO_LOGIN = {"name": "a", "password": "*", "pin": "*", "apiKey": "*", "api_key": "*"}


@pytest.mark.parametrize(
    ("annotation", "plain", "expected"),
    [
        (Marked, "a", "*"),
        (Annotated[str, Secret()], "a", "*"),
        (Annotated[dict[str, Any], Secret], {"a": [1]}, "*"),
        (SecretStr, "a", "*"),
        (SecretBytes, "a", "*"),
        (pydantic.Secret[int], 7, "*"),
        (Token, "a", "*"),
        (Optional[Marked], "a", "*"),  # noqa: UP045
        (Marked | None, None, None),
        (Union[int, SecretStr], 7, "*"),  # noqa: UP007
        (list[Marked], ["a", "b", None], ["*", "*", None]),
        (tuple[int, SecretStr], [1, "a"], ["*", "*"]),
        (Sequence[Login], [LOGIN], [NO_LOGIN]),
        (dict[str, Marked], {"a": "b"}, {"a": "*"}),
        (Mapping[Marked, int], {"a": 1}, "*"),
        (dict[str, list[SecretStr]], {"a": ["b"]}, {"a": ["*"]}),
        (Login, LOGIN, NO_LOGIN),
        (
            Account,
            {"owner": "a", "token": "b", "login": LOGIN},
            {"owner": "a", "token": "*", "login": NO_LOGIN},
        ),
        (Options, {"name": "a", "token": "b"}, {"name": "a", "token": "*"}),
        (Pair, ["a", "b"], "*"),
        (RootModel[list[Marked]], ["a"], ["*"]),
        (Written, {"t": "a"}, "*"),
        (
            Tree,
            {"token": "a", "children": [{"token": "b", "children": []}]},
            {"token": "*", "children": [{"token": "*", "children": []}]},
        ),
        (Login | Account, LOGIN | {"token": "a"}, NO_LOGIN | {"token": "*"}),
    ],
)
def test_what_is_marked_is_replaced(annotation: Any, plain: Any, expected: Any) -> None:
    shape = find_secrets({"it": annotation})["it"]
    assert replace_secrets(plain, shape, lambda value: "*") == expected


@pytest.mark.parametrize(
    "annotation",
    [str, Any, None, int | None, list[str], dict[str, Any], bytes, object, type, "Unknown", tuple],
)
def test_what_is_not_marked_is_not_secret(annotation: Any) -> None:
    assert not holds_secret(annotation)


def test_two_types_that_may_both_be_meant_replace_a_secret_once() -> None:
    seen: list[Any] = []
    shape = find_secrets({"it": Login | Tree | dict[str, SecretStr]})["it"]

    def replace(value: Any) -> dict[str, Any]:
        seen.append(value)
        return {"was": value}

    assert replace_secrets({"password": "a"}, shape, replace) == {"password": {"was": "a"}}
    assert seen == ["a"]


def test_a_class_whose_annotations_cannot_be_looked_up_is_secret_if_they_say_so() -> None:
    @dataclass
    class Local:
        token: Annotated[Unheard, Secret]  # type: ignore[name-defined]  # noqa: F821

    @dataclass
    class Harmless:
        name: Unheard  # type: ignore[name-defined]  # noqa: F821

    assert holds_secret(Local)
    assert not holds_secret(Harmless)
