"""How does a graph's state look to its nodes, and what does a node's return value change? (D8)

State is stored as plain data. A node receives a copy in the declared type. The copy is always built
from what would be recorded, so it is the same live and after a resume. The return value is checked
against the declared types before anything is saved. A node that changes its copy instead of
returning the change is refused, because the change would be lost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_type_hints

import typing_extensions
from pydantic import AliasChoices, BaseModel, TypeAdapter

from nottwice.engine.advance import Ending
from nottwice.errors import InvalidArguments, InvalidGraph, NotPlainData
from nottwice.graphs.parts import parts_of
from nottwice.guard.plain_data.codec import Codec
from nottwice.guard.plain_data.typed_dicts import spelled_out
from nottwice.guard.plain_data.typed_form import build_adapter, explain, restore
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.saving.delta import same
from nottwice.model.saving.frozen import (
    FrozenDict,
    FrozenList,
    changed_keys,
    freeze,
    shared_ends,
    shared_items,
    thaw,
)

_EMPTY: Mapping[str, Any] = MappingProxyType({})
_NOTHING = FrozenList()


@frozen_record(frozen=True, slots=True)
class Go:
    """The next node and what changes. Created by ``nt.goto``."""

    to: str
    update: Any = None

    def __repr__(self) -> str:
        update = "" if self.update is None else f", {self.update!r}"
        return f"goto({self.to!r}{update})"


def goto(to: str, update: Any = None) -> Go:
    """Return this from a node that both chooses the next node and changes the state."""
    return Go(to, update)


class StateType:
    """The declared type of a graph's state."""

    def __init__(self, annotation: Any, *, graph: str, append: tuple[str, ...]) -> None:
        annotation = self.annotation = spelled_out(annotation)
        self.append = append
        self._graph = graph
        self.fields = _fields(annotation, graph)
        self._spellings = _spellings(annotation, graph)
        """The aliases under which the type reads its parts, where they differ from the names."""
        self._made = _made_by_factories(annotation)
        self._adapter: TypeAdapter[Any] | None = None
        if self.fields is not None:
            self._adapter, note = build_adapter(annotation)
            if note is not None:
                raise InvalidGraph(f"The state of graph {graph!r} cannot be used: {note}.")
            for name in append:
                if name not in self.fields:
                    raise InvalidGraph(
                        f"Graph {graph!r} appends to {name!r}, which its state does not have. "
                        f"Its parts: {', '.join(self.fields)}."
                    )
        self._parts_alone = None if self.fields is None else parts_of(annotation, self.fields)
        """Validates parts one by one. None for a type with rules across parts."""
        self._codecs: dict[str, Codec] = {}

    def schema(self) -> Any:
        """Return the JSON schema of the state, or None if it may hold any plain data."""
        if self._adapter is None:
            return None
        return Codec(self.annotation, where=f"the state of graph {self._graph!r}").json_schema()

    def first(self, given: Any) -> dict[str, Any]:
        """Return the state that a run starts with, complete and plain."""
        given = {} if given is None else given
        if self._adapter is None:
            if not isinstance(given, Mapping):
                raise InvalidGraph(
                    f"Graph {self._graph!r} got {type(given).__name__} as its input. "
                    "Nothing was started. Pass a dict."
                )
            return self._plain_changes(dict(given))
        try:
            whole = restore(self._adapter, given)
        except Exception as error:
            path, text = explain(error, root="input")
            raise InvalidGraph(
                f"The input of graph {self._graph!r} does not fit its state: {path}: {text}. "
                "Nothing was started."
            ) from None
        return self._plain_changes(self._parts(whole))

    def stable(self, given: Any) -> dict[str, Any]:
        """Return the first state without the values that factories filled in.

        A factory may return another value each time, such as an id or the time. Whether two inputs
        are the same must not depend on it. The full first state of a run is on record.
        """
        filled = self._filled_in(given)
        return {key: value for key, value in self.first(given).items() if key not in filled}

    def began_with(self, first: Mapping[str, Any], given: Any) -> bool:
        """Whether a run that started with this state was given this input."""
        filled = self._filled_in(given)
        known = {key: value for key, value in first.items() if key not in filled}
        return values.hash_of(known) == values.hash_of(self.stable(given))

    def _filled_in(self, given: Any) -> set[str]:
        if isinstance(given, Mapping) or given is None:
            named = set(given or ())
        elif isinstance(given, BaseModel):
            named = set(given.model_fields_set)
        else:
            return set()
        return {name for name in self._made if not named & {name, self._spellings.get(name, name)}}

    def adopt(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a state of another version, complete and plain. InvalidGraph if it does not fit.

        Factory values are filled in here, once, and not again on each read.
        """
        by = f"the state passed to graph {self._graph!r}"
        if self._adapter is None:
            return self._plain_changes(dict(state), by=by)
        for key in state:
            if key not in (self.fields or ()):
                raise InvalidGraph(self._not_a_part(key, by))
        try:
            whole = self._whole(state)
        except Exception as error:
            path, text = explain(error, root="state")
            raise InvalidGraph(f"{by} does not fit: {path}: {text}. Nothing was saved.") from None
        return self._plain_changes(self._parts(whole), by=by)

    def lend(self, state: Mapping[str, Any]) -> Any:
        """Return the state in its type, for a node to read. Unchangeable parts are shared."""
        if self._adapter is None:
            return FrozenDict(state)
        if self._parts_alone is not None:
            with contextlib.suppress(Exception):
                return self._parts_alone.lend(state)
        # Validate as a whole for a useful error.
        return self.hand_out(state)

    def hand_out(self, state: Mapping[str, Any]) -> Any:
        """Return a copy of the state in its declared type. The copy belongs to the caller."""
        if self._adapter is None:
            return thaw(dict(state))
        try:
            return self._whole(state)
        except Exception as error:
            path, text = explain(error, root="state")
            raise InvalidGraph(
                f"The recorded state no longer fits the state of graph {self._graph!r}: {path}: "
                f"{text}. The run was not changed. Make the new type accept what the old one wrote."
            ) from None

    def show(self, state: Mapping[str, Any]) -> Any:
        """Return the state for display: plain, as it is stored, if the type cannot hold it.

        A type that loads the state but lacks a part would drop that part silently.
        """
        if self.fields is None or state.keys() <= self.fields.keys():
            with contextlib.suppress(InvalidGraph):
                return self.hand_out(state)
        return thaw(dict(state))

    def unshow(self, shown: Any) -> dict[str, Any]:
        """Reverse ``show``: return the whole state as plain data."""
        if self.fields is not None and type(shown) is dict:
            if not shown.keys() <= self.fields.keys():
                return shown
            try:
                return self.first(shown)
            except InvalidGraph:
                return shown
        return self.first(shown)

    def _whole(self, state: Mapping[str, Any]) -> Any:
        """Return the state in its declared type, or raise what validation raises."""
        assert self._adapter is not None
        spelled = {self._spellings.get(key, key): thaw(value) for key, value in state.items()}
        return restore(self._adapter, spelled)

    def read(self, handed: Any, returned: Any, state: Mapping[str, Any], node: str) -> Ending:
        """Interpret a node's return value."""
        self._check_unchanged(handed, state, node)
        choice: str | None = None
        if isinstance(returned, Go):
            choice, returned = returned.to, returned.update
        elif isinstance(returned, str):
            choice, returned = returned, None
        if returned is None:
            return Ending(choice, {}, {})
        changes = self._changes(handed, returned, state, node)
        added = {key: changes.pop(key) for key in self.append if key in changes}
        for key, items in added.items():
            if not isinstance(items, list):
                raise InvalidGraph(
                    f"Node {node!r} of graph {self._graph!r} returned {type(items).__name__} for "
                    f"{key!r}, to which it can only add. Return the new items as a list."
                )
        self._check_fits(state, changes, added, node)
        return Ending(choice, changes, added)

    def _check_fits(
        self,
        state: Mapping[str, Any],
        changes: Mapping[str, Any],
        added: Mapping[str, FrozenList],
        node: str,
    ) -> None:
        """Refuse an update whose parts are valid but which does not fit the type as a whole.

        If it were saved, no node could receive the state any more.
        """
        if self._adapter is None:
            return
        if self._parts_alone is not None:
            with contextlib.suppress(Exception):
                for key, value in changes.items():
                    self._parts_alone.check(key, value)
                for key, items in added.items():
                    self._parts_alone.check_added(key, state.get(key, _NOTHING), items)
                return
        try:
            self._whole({**state, **changes, **_longer(state, added)})
        except Exception as error:
            path, text = explain(error, root="state")
            raise InvalidGraph(
                f"What node {node!r} of graph {self._graph!r} returned does not fit the state: "
                f"{path}: {text}. Nothing was saved, and the run stays at this node."
            ) from None

    def _changes(
        self, handed: Any, returned: Any, state: Mapping[str, Any], node: str
    ) -> dict[str, Any]:
        if isinstance(returned, Mapping):
            return self._plain_changes(dict(returned), node=node, state=state, handed=handed)
        if self.fields is not None and isinstance(returned, typing.cast(type, self.annotation)):
            given = {
                key: value
                for key, value in self._parts(returned).items()
                if self._parts_alone is None or not self._parts_alone.is_lent(state.get(key), value)
            }
            whole = self._plain_changes(given, node=node, state=state, handed=handed)
            changed = {key: value for key, value in whole.items() if not _same(value, state, key)}
            for key in self.append:
                if key in changed:
                    changed[key] = self._tail(changed[key], state.get(key, []), key, node)
            return changed
        if inspect.iscoroutine(returned):
            # An async function behind a plain wrapper. None of it has run, and none of it will.
            returned.close()
        raise InvalidGraph(
            f"Node {node!r} of graph {self._graph!r} returned {type(returned).__name__}. The run "
            "stays at this node. Return a dict of what changes, None, or the name of a route."
        )

    def _tail(self, value: Any, known: list[Any], key: str, node: str) -> Any:
        begins_alike = isinstance(value, list) and (
            shared_items(known, value) == len(known)
            or values.encode(value[: len(known)]) == values.encode(known)
        )
        if begins_alike:
            return value[len(known) :]
        raise InvalidGraph(
            f"Node {node!r} of graph {self._graph!r} changed {key!r}, to which it can only add."
        )

    def _plain_changes(
        self,
        changes: dict[Any, Any],
        *,
        node: str | None = None,
        by: str | None = None,
        state: Mapping[str, Any] = _EMPTY,
        handed: Any = _EMPTY,
    ) -> dict[str, Any]:
        if by is None:
            graph = self._graph
            by = f"Node {node!r} of graph {graph!r}" if node else f"The input of {graph!r}"
        plain: dict[str, Any] = {}
        for key, value in changes.items():
            if not isinstance(key, str) or (self.fields is not None and key not in self.fields):
                raise InvalidGraph(self._not_a_part(key, by))
            lent = handed.get(key) if isinstance(handed, Mapping) else getattr(handed, key, None)
            plain[key] = self._take_over(key, value, state.get(key), lent, by)
        return plain

    def _take_over(self, key: str, value: Any, old: Any, lent: Any, by: str) -> Any:
        """Return a value for the state, frozen. What it has in common with the old one is shared.

        ``lent`` is the old value as the node received it.
        """
        if self.fields is None or (self._parts_alone and self._parts_alone.are_alone(key)):
            # The error about a new entry is left to the whole, which names the right place.
            with contextlib.suppress(InvalidGraph, NotPlainData):
                if type(value) is list and type(old) is FrozenList and isinstance(lent, list):
                    return self._take_over_list(key, value, old, lent, by)
                if type(value) is dict and type(old) is FrozenDict and isinstance(lent, dict):
                    return self._take_over_dict(key, value, old, lent, by)
        return freeze(self._write(key, value, by))

    def _take_over_list(
        self, key: str, value: list[Any], old: FrozenList, lent: list[Any], by: str
    ) -> Any:
        """Write only what is between the items that the node took over."""
        if lent is old and old.is_exact and len(value) > len(old):
            copy = old.head_of(value)
            if copy is not None:
                return old.grown(self._write(key, value[len(old) :], by), copy=copy)
        head, rest = shared_ends(lent, value)
        if not head + rest or len(lent) != len(old):
            return freeze(self._write(key, value, by))
        if head == len(old) == len(value):
            return old
        return old.spliced(head, rest, self._write(key, value[head : len(value) - rest], by))

    def _take_over_dict(
        self, key: str, value: dict[str, Any], old: FrozenDict, lent: dict[str, Any], by: str
    ) -> FrozenDict:
        """Write only the entries that the node did not take over."""
        changed = {name: value[name] for name in changed_keys(lent, value)}
        inside: dict[str, Any] = {}
        if self.fields is None:
            for name, each in changed.items():
                if type(each) in (dict, list) and name in old:
                    inside[name] = self._take_over(key, each, old[name], lent[name], by)
        new = {name: each for name, each in changed.items() if name not in inside}
        written = self._write(key, new, by)
        return old.updated(value, {name: inside.get(name, written.get(name)) for name in changed})

    def _not_a_part(self, key: object, by: str) -> str:
        known = "" if self.fields is None else f" Its parts: {', '.join(self.fields)}."
        return f"{by} names {key!r}, which is not part of the state. Nothing was saved.{known}"

    def _write(self, key: str, value: Any, by: str) -> Any:
        codec = self._codec(key)
        if self.fields is not None:
            try:
                value = codec.validate_plain(value)
            except InvalidArguments as error:
                raise InvalidGraph(f"{by}: {error.message}") from None
        try:
            return codec.encode(value, root=key).plain
        except NotPlainData as error:
            raise NotPlainData(f"{by}: {error.message}", path=error.path) from None

    def _codec(self, key: str) -> Codec:
        codec = self._codecs.get(key)
        if codec is None:
            annotation = Any if self.fields is None else self.fields[key]
            where = f"the part {key!r} of the state of graph {self._graph!r}"
            codec = Codec(annotation, where=where, outcome="Nothing was saved.")
            if self.fields is not None:
                # The keys of a plain dict are chosen by the user, and there may be many.
                self._codecs[key] = codec
        return codec

    def _parts(self, whole: Any) -> dict[str, Any]:
        assert self.fields is not None
        if isinstance(whole, Mapping):
            return dict(whole)
        return {name: getattr(whole, name) for name in self.fields}

    def _check_unchanged(self, handed: Any, state: Mapping[str, Any], node: str) -> None:
        if self._adapter is not None and not self._is_unchanged(handed, state):
            raise InvalidGraph(
                f"Node {node!r} of graph {self._graph!r} changed the state in place, and such "
                "changes are not saved. The run stays at this node. Return what changes: "
                "return {'name': new_value}."
            )

    def _is_unchanged(self, handed: Any, state: Mapping[str, Any]) -> bool:
        if self._parts_alone is not None:
            found = self._parts(handed)
            return found.keys() >= state.keys() and all(
                self._parts_alone.is_unchanged(key, plain, found[key])
                for key, plain in state.items()
            )
        return bool(self._dumped(handed) == self._dumped(self._whole(state)))

    def _dumped(self, value: Any) -> Any:
        assert self._adapter is not None
        return self._adapter.dump_python(value, warnings=False)


def _fields(annotation: Any, graph: str) -> dict[str, Any] | None:
    """Return the parts of a typed state by name, or None for a plain dict."""
    if annotation is dict or typing.get_origin(annotation) is dict:
        return None
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {name: field.annotation for name, field in annotation.model_fields.items()}
    if dataclasses.is_dataclass(annotation) and isinstance(annotation, type):
        hints = get_type_hints(annotation, include_extras=True)
        return {field.name: hints[field.name] for field in dataclasses.fields(annotation)}
    if typing_extensions.is_typeddict(annotation):
        hints = typing_extensions.get_type_hints(annotation, include_extras=True)
        return {name: _bare(hint) for name, hint in hints.items()}
    raise InvalidGraph(
        f"Graph {graph!r} cannot have the state type {annotation!r}. Nothing happened. Use dict, a "
        "TypedDict, a dataclass or a pydantic model."
    )


def _spellings(annotation: Any, graph: str) -> dict[str, str]:
    """Return the alias of each part that is not read by its name."""
    found: dict[str, str] = {}
    for name, field in getattr(annotation, "__pydantic_fields__", {}).items():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices):
            alias = next((one for one in alias.choices if isinstance(one, str)), alias)
        if isinstance(alias, str):
            found[name] = alias
        elif alias is not None:
            raise InvalidGraph(
                f"The state of graph {graph!r} reads its part {name!r} from inside another part. "
                "Nothing happened. Give it an alias that is a name, or none."
            )
    return found


def _made_by_factories(annotation: Any) -> set[str]:
    """Return the parts whose default comes from a factory."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        fields = annotation.model_fields.items()
        return {name for name, field in fields if field.default_factory is not None}
    if dataclasses.is_dataclass(annotation):
        made = dataclasses.fields(annotation)
        return {one.name for one in made if one.default_factory is not dataclasses.MISSING}
    return set()


def _longer(state: Mapping[str, Any], added: Mapping[str, list[Any]]) -> dict[str, Any]:
    return {key: [*state.get(key, ()), *items] for key, items in added.items()}


def _bare(hint: Any) -> Any:
    if typing_extensions.get_origin(hint) in (typing.Required, typing.NotRequired):
        return typing_extensions.get_args(hint)[0]
    return hint


def _same(value: Any, state: Mapping[str, Any], key: str) -> bool:
    return key in state and same(value, state[key])
