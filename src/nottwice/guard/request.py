"""From a call in user code to what the engine needs: arguments, identity and key (T2, T4, L5)."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from nottwice.engine.calls.requests import Request
from nottwice.engine.session import Scope, Session, current_scope
from nottwice.engine.traces import trace_id
from nottwice.errors import InvalidArguments, InvalidTool, NotInRun
from nottwice.guard.arguments.binding import BoundArguments, Signature
from nottwice.guard.arguments.changed import ChangeWatch
from nottwice.guard.arguments.covering import Covered, cover
from nottwice.guard.arguments.secrets import Shape
from nottwice.guard.declaration import Declaration
from nottwice.guard.keys import KeyFunction, KeyTemplate, repeated_key
from nottwice.guard.plain_data.codec import Codec
from nottwice.guard.plain_data.results import Results
from nottwice.model import values
from nottwice.model.call import CallIdentity, check_id
from nottwice.model.tool import Tool


def key_per_call(**arguments: Any) -> str:
    """A ready-made key, one per run, step, tool and arguments, for ``key=nt.key_per_call``.

    For tools without a business identity such as an order number. nottwice computes the key.
    """
    raise InvalidTool("nt.key_per_call is a mark for key=..., not a function to call.")


class Requests:
    """Makes the requests of one tool."""

    tool: Tool

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        declared: Declaration,
        key: str | Callable[..., str] | None,
    ) -> None:
        self.name = check_id(name, what="The tool's name")
        self.is_method = _is_method(function)
        qualname: str = getattr(function, "__qualname__", "")
        self._owner, _, self._method = qualname.rpartition(".")
        self._bound_by = declared.bound_by or ()
        self._check_method(declared.bound_by)
        self.signature = Signature(
            function,
            tool=name,
            volatile=declared.volatile,
            once_per=declared.once_per,
            skip_first=self.is_method,
        )
        self.results = Results(self.signature, tool=name)
        self._watch = ChangeWatch(self.signature, tool=name, function=function)
        self._key: KeyTemplate | KeyFunction | None = None
        self._key_is_call_id = key is key_per_call
        self.key_text = "per call" if self._key_is_call_id else None
        if key is not None and not self._key_is_call_id:
            self._read_key(key)

    def make(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        label: str | None = None,
        retry: bool = False,
    ) -> Request:
        """Build the request of one call, and check all of it before anything happens."""
        scope = current_scope.get()
        if scope is None:
            raise self._not_in_run()
        instance: tuple[Any, ...] = ()
        if self.is_method:
            instance, args = self._split(args)
        given = self._bind(args, kwargs)
        shapes = self.signature.secrets()
        covered = self._covered(given, shapes, scope) if shapes else None
        bound = given if covered is None else covered.bound
        identity = self._identity(scope, bound, instance, label)
        if instance:
            self._check_class(instance[0], scope.session, identity)
        key = self._make_key(bound, identity, label)
        if covered is not None:
            covered.check(tool=self.name, key=key, label=label)
        call_args, call_kwargs = self.signature.invoke_with(given)
        if self.tool.is_async:
            # It starts later, so changes that the caller makes to its lists meanwhile do not count.
            call_args = tuple(_own(each) for each in call_args)
            call_kwargs = {name: _own(each) for name, each in call_kwargs.items()}
        return Request(
            tool=self.tool,
            scope=scope,
            identity=identity,
            args_json=values.encode_known(bound.plain),
            args=(*instance, *call_args),
            kwargs=call_kwargs,
            key=key,
            label=label,
            retry=retry,
            trace_id=trace_id(),
            clear_json=None if covered is None else covered.clear_json,
            secrets=None if covered is None else covered.secrets,
        )

    def look_after(self, request: Request, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Warn if the tool, which has just run, changed the caller's arguments."""
        invoked = request.args
        if self.is_method:
            args, invoked = args[1:], invoked[1:]
        recorded = request.clear_json or request.args_json
        self._watch.look(args, kwargs, recorded, (invoked, request.kwargs))

    def _covered(self, given: BoundArguments, shapes: Mapping[str, Shape], scope: Scope) -> Covered:
        volatile = self.signature.volatile_names()
        session = scope.session
        return cover(given, shapes, tool=self.name, volatile=volatile, session=session)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundArguments:
        try:
            return self.signature.bind(args, kwargs)
        except InvalidArguments as error:
            name = error.facts.get("parameter")
            if name not in self.signature.secrets():
                raise
            raise InvalidArguments(
                f"Tool {self.name!r} was not run: its argument {name!r} does not fit. The reason "
                "is not shown, because the argument is secret and a validator may repeat it.",
                tool=self.name,
                parameter=name,
            ) from None

    def _identity(
        self,
        scope: Scope,
        bound: BoundArguments,
        instance: tuple[Any, ...],
        label: str | None,
    ) -> CallIdentity:
        if label is not None or self._bound_by:
            # A list, where normal calls have an object, so no arguments can produce the same.
            hashed = values.hash_of([bound.identity, label, self._bound_parts(instance)])
        elif bound.surveyed is None:
            hashed = values.hash_of(bound.identity)
        else:
            hashed = values.hash_surveyed(bound.identity, bound.surveyed)
        return CallIdentity(
            scope.session.run_id, scope.node_id, scope.checkpoint_id, self.name, hashed
        )

    def _make_key(
        self, bound: BoundArguments, identity: CallIdentity, label: str | None
    ) -> str | None:
        if self._key_is_call_id:
            return identity.call_id
        if self._key is None:
            return None
        if isinstance(self._key, KeyTemplate):
            key = self._key.render(bound.normal)
        else:
            key = self._key.render(bound.values)
        return repeated_key(key, label, tool=self.name)

    def _read_key(self, key: str | Callable[..., str]) -> None:
        parameters = self.signature.parameter_names()
        volatile = self.signature.volatile_names()
        secret = self.signature.secret_names()
        if isinstance(key, str):
            self._key = KeyTemplate(
                key, tool=self.name, parameters=parameters, volatile=volatile, secret=secret
            )
            self.key_text = key
        elif callable(key):
            self._key = KeyFunction(
                key, tool=self.name, parameters=parameters, volatile=volatile, secret=secret
            )
            self.key_text = f"{getattr(key, '__name__', 'a function')}(…)"
        else:
            raise InvalidTool(
                f"Tool {self.name!r} was not declared: key must be a template such as "
                f"'refund-{{order_id}}', a function or nt.key_per_call, not {key!r}."
            )

    def _check_method(self, bound_by: tuple[str, ...] | None) -> None:
        if self.is_method and bound_by is None:
            raise InvalidTool(
                f"Tool {self.name!r} is a method and was not declared: two instances may represent "
                "two accounts, and their calls must not be taken for one. Say which "
                "attributes tell instances apart, bound_by=('account',), or bound_by=() if none."
            )
        if bound_by is not None and not self.is_method:
            raise InvalidTool(
                f"Tool {self.name!r} was not declared: bound_by= is only for methods."
            )

    def _split(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Split off the instance of a method."""
        if not args or not self._can_be_instance(args[0]):
            owner = self._owner.rpartition(".")[2]
            raise InvalidArguments(
                f"Tool {self.name!r} is a method and was called without its instance. The tool "
                f"was not run. Pass it first: {owner}.{self._method}.receipt(instance, ...). Do "
                "the same with again and retry."
            )
        return args[:1], args[1:]

    def _can_be_instance(self, value: Any) -> bool:
        """Whether this may be the instance that the method belongs to.

        ``account.refund.receipt(7)`` is not bound, and 7 must not be taken for the account.
        """
        kinds = value.__mro__ if isinstance(value, type) else type(value).__mro__
        owned = any(kind.__qualname__ == self._owner for kind in kinds)
        return owned or hasattr(value, self._method)

    def _check_class(self, instance: Any, session: Session, identity: CallIdentity) -> None:
        """Refuse a call that only the class of its instance tells from another one (P140)."""
        kind = instance if isinstance(instance, type) else type(instance)
        owner = next((one for one in kind.__mro__ if one.__qualname__ == self._owner), None)
        if owner is None or not owner.__subclasses__():
            return
        first = session.tools.class_of(identity, kind.__qualname__)
        if first != kind.__qualname__:
            raise InvalidArguments(
                f"Tool {self.name!r} was not run: {first} and {kind.__qualname__} inherit it, and "
                "nothing else tells this call from an earlier one in this run, so it would get "
                "that call's receipt. Bind the tool by an attribute in which the classes differ: "
                "bound_by=('kind',).",
                tool=self.name,
            )

    def _bound_parts(self, instance: tuple[Any, ...]) -> dict[str, Any]:
        parts: dict[str, Any] = {}
        for name in self._bound_by:
            try:
                value = getattr(instance[0], name)
            except AttributeError:
                raise InvalidArguments(
                    f"Tool {self.name!r} is bound by {name!r}, which its instance does not have. "
                    "The tool was not run."
                ) from None
            where = f"the attribute {name!r} that tool {self.name!r} is bound by"
            codec = Codec(type(value), where=where, outcome="The tool was not run.")
            parts[name] = codec.normal_form(value, root=name)
        return parts

    def _not_in_run(self) -> NotInRun:
        return NotInRun(
            f"Tool {self.name!r} was called outside a run. Nothing was sent. Open one around it: "
            "with nt.run('ticket-7', store='agent.db'): ... A new thread does not inherit the "
            "run: start it with contextvars.copy_context().run(function). "
            f"In a unit test call the bare function: {self.name}.fn(...)",
            tool=self.name,
        )


def _own(value: Any) -> Any:
    return copy.deepcopy(value) if type(value) in (list, dict) else value


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether a function is defined in a class body and takes its instance first."""
    qualname = getattr(function, "__qualname__", "")
    owner = qualname.rpartition(".")[0]
    if not owner or owner.endswith("<locals>"):
        return False
    if isinstance(function, staticmethod | classmethod):
        raise InvalidTool(
            f"{qualname} was not declared: put @nt.tool under @staticmethod, and let a class "
            "method be a plain function."
        )
    parameters = list(inspect.signature(function).parameters)
    return bool(parameters) and parameters[0] in ("self", "cls")
