"""The decorator that protects a tool: ``@nt.tool("unsafe_on_replay")`` (T1, T2, T3, E1).

What it returns is a real function with the signature, annotations and docstring of the one it
protects, so that other decorators and frameworks take it as they took the original.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import logging
import operator
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import (
    Any,
    Concatenate,
    Literal,
    NoReturn,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

from nottwice import lazy
from nottwice.engine.calls.dispatch import perform
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.calls.requests import Receipt, Request
from nottwice.engine.drivers import drive, drive_async, is_coroutine_function
from nottwice.engine.session import current_attempt
from nottwice.errors import InvalidTool, RunBlocked, UnclassifiedTool, UsageError
from nottwice.guard import registry
from nottwice.guard.declaration import Declaration, Duration, VerifyHook, read_declaration
from nottwice.guard.definition import Definition
from nottwice.guard.frames import without_our_frames
from nottwice.guard.request import Requests
from nottwice.guard.wording import check_wording, relative_place, summary_of
from nottwice.model.call import check_id
from nottwice.model.failure import Classifier
from nottwice.model.replay_class import KEYLESS, ReplayClass
from nottwice.model.retry import RetryPolicy
from nottwice.model.tool import OWN_PREFIX, Repeat, Tool, parse_duration

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
log = logging.getLogger("nottwice")
# A wrapper can lead back to itself, and no real function has this many.
_MOST_LAYERS = 100


class SyncTool(Protocol[P, R]):
    """A protected sync tool: call it as before."""

    tool: Tool
    """What it declares."""
    __name__: str

    @property
    def fn(self) -> Callable[P, R]:
        """The bare function, for unit tests: no run, no ledger."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    # Through the class, a method, a class method and a static method cannot be told apart. Through
    # an instance, that instance is passed. Only the call passes it: to get a method's receipt, use
    # the class.
    @overload
    def __get__(self, instance: None, owner: Any = None) -> SyncTool[..., R]: ...

    @overload
    def __get__(
        self: SyncTool[Concatenate[Any, Q], R], instance: object, owner: Any = None
    ) -> Callable[Q, R]: ...

    def receipt(self, *args: P.args, **kwargs: P.kwargs) -> Receipt[R]:
        """The same call, answered with its receipt: value, replayed, id, attempts."""

    def again(self, label: str) -> Callable[P, R]:
        """A deliberate repeat: ``refund.again("second parcel")(order_id=7)``."""

    def retry(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Allow new attempts for a call whose failure is on record."""


class AsyncTool(Protocol[P, R]):
    """A protected async tool: await it as before."""

    tool: Tool
    """What it declares."""
    __name__: str

    @property
    def fn(self) -> Callable[P, Coroutine[Any, Any, R]]:
        """The bare function, for unit tests: no run, no ledger."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]: ...

    # Through the class, a method, a class method and a static method cannot be told apart. Through
    # an instance, that instance is passed. Only the call passes it: to get a method's receipt, use
    # the class.
    @overload
    def __get__(self, instance: None, owner: Any = None) -> AsyncTool[..., R]: ...

    @overload
    def __get__(
        self: AsyncTool[Concatenate[Any, Q], R], instance: object, owner: Any = None
    ) -> Callable[Q, Coroutine[Any, Any, R]]: ...

    def receipt(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Receipt[R]]:
        """The same call, answered with its receipt: value, replayed, id, attempts."""

    def again(self, label: str) -> Callable[P, Coroutine[Any, Any, R]]:
        """A deliberate repeat."""

    def retry(self, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Allow new attempts for a call whose failure is on record."""


class Protector(Protocol):
    """What ``nt.tool(...)`` returns: it takes a function and returns its protected twin."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> AsyncTool[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R]) -> SyncTool[P, R]: ...


@overload
def tool(
    replay_class: Literal["pure"],
    *,
    name: str | None = None,
    classify: Classifier | None = None,
    retry: RetryPolicy | None = None,
    time_limit: Duration | None = None,
    volatile: Iterable[str] | Literal["*"] = (),
    durable: bool = False,
    bound_by: Iterable[str] | None = None,
    tags: Iterable[str] = (),
    keep: Duration | None = None,
    rate: str | None = None,
    redact: Callable[[str], str] | None = None,
    title: str | None = None,
    look: str | None = None,
) -> Protector: ...


@overload
def tool(
    replay_class: Literal["idempotent_with_key"],
    *,
    key: str | Callable[..., str],
    window: Duration,
    name: str | None = None,
    verify: VerifyHook | None = None,
    settles: Duration | None = None,
    classify: Classifier | None = None,
    retry: RetryPolicy | None = None,
    time_limit: Duration | None = None,
    verify_limit: Duration = "30s",
    volatile: Iterable[str] = (),
    once_per: Iterable[str] | None = None,
    bound_by: Iterable[str] | None = None,
    tags: Iterable[str] = (),
    approve: bool | Duration = False,
    repeat: Repeat = "ask",
    parallel: bool = False,
    keep: Duration | None = None,
    rate: str | None = None,
    redact: Callable[[str], str] | None = None,
    title: str | None = None,
    look: str | None = None,
) -> Protector: ...


@overload
def tool(
    replay_class: Literal["unsafe_on_replay", "idempotent"],
    *,
    name: str | None = None,
    verify: VerifyHook | None = None,
    settles: Duration | None = None,
    classify: Classifier | None = None,
    retry: RetryPolicy | None = None,
    time_limit: Duration | None = None,
    verify_limit: Duration = "30s",
    volatile: Iterable[str] = (),
    once_per: Iterable[str] | None = None,
    bound_by: Iterable[str] | None = None,
    tags: Iterable[str] = (),
    approve: bool | Duration = False,
    repeat: Repeat = "ask",
    parallel: bool = False,
    keep: Duration | None = None,
    rate: str | None = None,
    redact: Callable[[str], str] | None = None,
    title: str | None = None,
    look: str | None = None,
) -> Protector: ...


def tool(replay_class: Any = None, **declared: Any) -> Any:
    """Declare a tool and what a second run of it does to the world.

    ``replay_class`` is ``"pure"`` (nothing), ``"idempotent_with_key"`` (nothing, if the upstream
    gets the same key inside its window), ``"idempotent"`` (nothing, without any key, as for a PUT)
    or ``"unsafe_on_replay"`` (it happens again).

    For keyed tools, both required:
        key: a template such as ``"refund-{order_id}"``, a function of the parameters, or
            ``nt.key_per_call``.
        window: how long the upstream remembers a key, ``"24h"``.
    For keyed and unsafe tools:
        verify: a function of an ``nt.Call`` that checks whether it happened; sync or async.
        settles: how long after the end of an attempt the upstream may still apply it.
        verify_limit: how long ``verify`` may take.
        once_per: the arguments that identify the effect; all others do not count.
        approve: True: a person approves each call first; ``"24h"``: an approval is valid that long.
        repeat: may a model do exactly the same again? ``"ask"`` a person, ``"free"``, ``"never"``.
        parallel: True: its order among the calls of one model reply does not matter.
    For pure tools:
        durable: True: its result is durable before it is returned, because it cost something.
    For all tools:
        name: its name in the ledger; by default that of the function.
        classify: a function of an exception that says what it means.
        retry: an ``nt.RetryPolicy``.
        time_limit: how long one attempt may take.
        volatile: arguments that do not count for the identity; ``"*"`` (pure only): all.
        bound_by: for methods, required there: attributes that tell instances apart, or ``()``.
        tags: your own words, kept with the declaration.
        keep: how long its rows are kept after their run has ended.
        rate: the name of its rate-limit class, for policies.
        redact: a function that takes a text to be recorded and returns what may be recorded.
        title: one line about a call, for people: ``"Refund {cents} ct for order {order_id}"``.
        look: where a person checks whether a call happened, a text or a URL with arguments,
            ``call.id`` and, for keyed tools, ``call.key``:
            ``"https://pay.example/search?key={call.key}"``.
    """
    if callable(replay_class):
        try:
            _refuse_unclassified(getattr(replay_class, "__name__", "?"), None)
        except UsageError as error:
            raise without_our_frames(error) from None

    def protect(function: Callable[..., Any]) -> Any:
        try:
            return _protect(function, replay_class, declared)
        except UsageError as error:
            raise without_our_frames(error) from None

    return protect


def _shown_signature() -> inspect.Signature:
    """Return what ``help`` shows. ``tool`` takes any keyword, so a misspelt one gets a hint."""
    replay_class = inspect.Parameter(
        "replay_class",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        annotation='Literal["pure", "idempotent_with_key", "idempotent", "unsafe_on_replay"]',
    )
    options = list(inspect.signature(Declaration).parameters.values())[1:]
    return inspect.Signature([replay_class, *options], return_annotation="Protector")


cast("Any", tool).__signature__ = _shown_signature()


def _protect(function: Callable[..., Any], replay_class: object, words: dict[str, Any]) -> Any:
    given = words.get("name")
    name: str = getattr(function, "__name__", "?") if given is None else given
    kind = read_replay_class(name, replay_class)
    _check_function(function, name)
    declared = read_declaration(name, words)
    keyless = replay_class == KEYLESS
    declared.check(name, kind, keyless=keyless)
    requests = Requests(function, name=name, declared=declared, key=declared.key)
    wording = functools.partial(
        check_wording, name, parameters=requests.signature.parameter_names(), keyed=kind.keyed
    )
    record = Tool(
        name=requests.name,
        replay_class=kind,
        function=function,
        is_async=is_coroutine_function(function),
        result_type=requests.results.type_text,
        encode_result=requests.results.encode,
        decode_result=requests.results.decode,
        adopt_result=requests.results.adopt,
        rebuild=None if requests.is_method else requests.signature.rebuild,
        schemas=requests.signature.schemas,
        key_text=requests.key_text,
        window_seconds=_duration(declared.window, name, "window"),
        keyless=keyless,
        verify=declared.verify,
        settles_seconds=_duration(declared.settles, name, "settles"),
        classify=declared.classify,
        retry=declared.retry,
        time_limit_seconds=_duration(declared.time_limit, name, "time_limit"),
        verify_limit_seconds=parse_duration(
            declared.verify_limit, what=f"Tool {name!r}: verify_limit"
        ),
        volatile=requests.signature.volatile_names(),
        once_per=declared.once_per,
        durable=declared.durable or declared.volatile == "*",
        bound_by=declared.bound_by,
        tags=declared.tags,
        approve=declared.approve,
        approval_seconds=declared.approval_seconds,
        repeat=declared.repeat,
        parallel=bool(declared.parallel),
        keep_seconds=declared.keep_seconds,
        rate_class=declared.rate,
        redact=declared.redact,
        title=wording("title", declared.title),
        look=wording("look", declared.look),
        summary=summary_of(function),
        place=relative_place(function),
    )
    requests.tool = record
    protected = (_async_twin if record.is_async else _sync_twin)(function, requests)
    protected.definition = Definition(function, {**words, "replay_class": kind, KEYLESS: keyless})
    registry.register(protected, record)
    return protected


def _check_function(function: Any, name: str) -> None:
    """Refuse what is not a function, has no name, or works after it has returned."""
    if not callable(function):
        raise InvalidTool(f"nt.tool protects functions, and {function!r} is not one.")
    _check_kind(function, name)
    if name in ("?", "<lambda>"):
        raise InvalidTool(
            f"{function!r} was not declared: it has no name, so two such tools would be one tool. "
            "Give it a name: @nt.tool(..., name='refund')."
        )
    if str(name).startswith(OWN_PREFIX):
        raise InvalidTool(
            f"Tool {name!r} was not declared: names that begin with {OWN_PREFIX!r} are reserved "
            "for nottwice. Give it another one with name=..."
        )
    if isinstance(getattr(function, "tool", None), Tool):
        raise InvalidTool(f"Tool {name!r} is already declared. Remove one @nt.tool.")
    if not is_coroutine_function(function) and any(map(_yields, _layers(function))):
        raise InvalidTool(
            f"Tool {name!r} was not declared: it yields, so it would do its work after its "
            "receipt was written. Return a list, or protect what it calls. If a wrapper collects "
            "all that it yields, protect a function that calls the wrapper."
        )


def _layers(function: Any) -> Iterator[Any]:
    """Yield a function and what ``functools.partial`` and ``functools.wraps`` put it around."""
    for _ in range(_MOST_LAYERS):
        if not callable(function):
            return
        yield function
        is_partial = isinstance(function, functools.partial)
        function = function.func if is_partial else getattr(function, "__wrapped__", None)


def _yields(function: Any) -> bool:
    for code in (function, getattr(type(function), "__call__", None)):  # noqa: B004
        if inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code):
            return True
    return False


def _check_kind(function: Any, name: str) -> None:
    """Refuse what holds its own object: two of a kind would be one tool."""
    if inspect.isclass(function):
        raise InvalidTool(
            f"{function.__qualname__!r} is a class and was not declared: calling it returns an "
            "object, but a resume returns plain data. Protect a function that does the work: "
            f"@nt.tool(...) above `def {_verb(name)}(order_id: int) -> dict:`."
        )
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        what = "class" if inspect.isclass(owner) else "object"
        raise InvalidTool(
            f"{name!r} is bound to one {what} and was not declared: the same method of another "
            f"{what} would be the same tool, and get its receipts. Declare it in the class, with "
            "what tells its objects apart: @nt.tool(..., bound_by=('account',)). Or protect a "
            f"function that takes it as an argument: def {_verb(name)}(account: str, ...).",
            tool=name,
        )


def _verb(name: str) -> str:
    return name if name.isidentifier() and name.islower() else "refund"


def _sync_twin(function: Callable[..., Any], requests: Requests) -> Any:
    def entrance(give: Callable[[Receipt[Any]], Any], **how: Any) -> Callable[..., Any]:
        def protected(*args: Any, **kwargs: Any) -> Any:
            try:
                request = requests.make(args, kwargs, **how)
            except UsageError as error:
                raise without_our_frames(error) from None
            try:
                made = drive(perform(request, current_attempt.get()), request.scope.session.host)
            except RunBlocked as error:
                raise without_our_frames(error) from error.__cause__
            if not made.replayed:
                requests.look_after(request, args, kwargs)
            return give(made)

        return protected

    return _dress(function, requests, entrance)


def _async_twin(function: Callable[..., Any], requests: Requests) -> Any:
    def entrance(give: Callable[[Receipt[Any]], Any], **how: Any) -> Callable[..., Any]:
        async def protected(*args: Any, **kwargs: Any) -> Any:
            try:
                request = requests.make(args, kwargs, **how)
            except UsageError as error:
                raise without_our_frames(error) from None
            try:
                made = await call_async(request)
            except RunBlocked as error:
                raise without_our_frames(error) from error.__cause__
            if not made.replayed:
                requests.look_after(request, args, kwargs)
            return give(made)

        return protected

    return _dress(function, requests, entrance)


async def call_async(request: Request) -> Receipt[Any]:
    """Make one call in its own task: cancelling a waiter cancels nothing else."""
    parent = current_attempt.get()
    session = request.scope.session
    loop = lazy.asyncio.get_running_loop()
    task = loop.create_task(drive_async(perform(request, parent), session.host))
    session.in_flight.keep(task)
    over: lazy.asyncio.Future[None] = loop.create_future()

    def end(task: lazy.asyncio.Future[Receipt[Any]]) -> None:
        # One callback instead of asyncio.shield and a second one, because this runs in every call.
        session.in_flight.drop(task)
        if not over.done():
            over.set_result(None)
        elif not task.cancelled():
            # Retrieved, so that the loop does not report an error that was handled here.
            task.exception()

    task.add_done_callback(end)
    try:
        await over
        return task.result()
    except lazy.asyncio.CancelledError:
        if not task.done():
            if _may_have_begun(session.in_flight.find(request.identity)):
                task.add_done_callback(_log_unseen_error)
            else:
                # Nothing was recorded or sent, so the call can be dropped.
                task.cancel()
        raise


def _log_unseen_error(task: lazy.asyncio.Future[Receipt[Any]]) -> None:
    """Log the error of a call that has no waiter left."""
    if not task.cancelled() and task.exception() is not None:
        log.warning("a call whose waiter was cancelled ended with: %r", str(task.exception()))


def _may_have_begun(mine: InFlight | None) -> bool:
    return mine is not None and (mine.begun or mine.row is not None)


def _dress(function: Callable[..., Any], requests: Requests, entrance: Callable[..., Any]) -> Any:
    """Return the protected function with its attributes. It stays a real function."""
    value, dressed = operator.attrgetter("value"), functools.wraps(function)

    def again(label: str) -> Any:
        label = check_id(label, what="The label of a deliberate repeat")
        return dressed(entrance(value, label=label))

    protected: Any = dressed(entrance(value))
    protected.again = again
    protected.retry = entrance(value, retry=True)
    protected.receipt = entrance(lambda receipt: receipt)
    protected.fn = function
    protected.tool = requests.tool
    protected.requests = requests
    protected.notes = requests.signature.notes
    return protected


def read_replay_class(name: str, given: object) -> ReplayClass:
    """Return the replay class that a word names. Raises UnclassifiedTool."""
    if given == KEYLESS:
        return ReplayClass.IDEMPOTENT_WITH_KEY
    if isinstance(given, ReplayClass):
        return given
    try:
        return ReplayClass(given)
    except ValueError:
        _refuse_unclassified(name, given)


def _refuse_unclassified(name: str, given: object) -> NoReturn:
    choices = [*(kind.value for kind in ReplayClass), KEYLESS]
    near = difflib.get_close_matches(str(given), choices, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    said = "has no replay class" if given is None else f"has the unknown replay class {given!r}"
    raise UnclassifiedTool(
        f"Tool {name!r} {said} and was not declared.{hint} Choose what a second run of it does: "
        "'pure' (it only reads), 'idempotent_with_key' (the upstream recognises a key and does "
        "nothing twice), 'idempotent' (a repeat changes nothing, without a key) or "
        "'unsafe_on_replay' (it would happen twice). "
        "Example: @nt.tool('unsafe_on_replay')",
        tool=name,
    )


def _duration(value: Duration | None, name: str, what: str) -> float | None:
    return None if value is None else parse_duration(value, what=f"Tool {name!r}: {what}")
