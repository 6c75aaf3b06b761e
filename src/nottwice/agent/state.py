"""What is on record about an agent's run, independent of the process and the model (A1).

The state is plain data: the contract (goal, conditions), the plan with its cursor, what is
completed and why we believe it, what the model asked for, memory as pointers, the transcript, the
cost. What happened in the world is not copied into it: that is in the ledger. The transcript is
append-only, so a checkpoint is as large as one beat, however long the conversation is, and readers
of the state do not copy it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

from nottwice.agent.conditions import check_markers
from nottwice.agent.messages import Message, block_from_plain, block_to_plain
from nottwice.agent.requests.files import File
from nottwice.engine.advance import Ending
from nottwice.errors import InvalidGraph, UsageError
from nottwice.graphs.state import StateType
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked, not_believed
from nottwice.model.saving.frozen import thaw

APPENDED = ("transcript", "heard", "asked", "completed", "memory")
"""Parts of the state to which beats only append."""
_CONTRACT = ("goal", "done_when", "plan", "files")


class Transcript(Sequence[Message]):
    """Everything that was said, parsed when it is accessed."""

    def __init__(self, plain: Sequence[Mapping[str, Any]]) -> None:
        self._plain = plain

    def __len__(self) -> int:
        return len(self._plain)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            return [Message.from_plain(plain) for plain in self._plain[index]]
        return Message.from_plain(self._plain[index])

    def __iter__(self) -> Iterator[Message]:
        return map(Message.from_plain, self._plain)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Transcript) and self._plain == other._plain

    def __hash__(self) -> int:
        return hash(values.hash_of(self._plain))


@frozen_record(frozen=True, slots=True)
class CompletedStep:
    """A step of the plan that is done, and why we believe it."""

    step: str
    evidence: str
    turn: int


@frozen_record(frozen=True, slots=True)
class MemoryReference:
    """Where something can be found again; never the thing itself."""

    name: str
    where: str
    turn: int


@frozen_record(frozen=True, slots=True)
class AskedCall:
    """An effect that the model asked for; the ledger has its outcome, under this id."""

    receipt_id: str
    tool: str
    turn: int
    message: int
    """The number of the transcript message that asked for it."""
    index: int
    """The index of the tool call in that message."""
    outcome: str
    """``done``; ``failed``: it took no effect; ``unavailable``: it took no effect, and trying again
    may help; ``refused``: it was not allowed, or not made."""


@frozen_record(frozen=True, slots=True)
class Cost:
    """What requests to a model cost."""

    usd: float = 0.0
    tokens: int = 0
    requests: int = 0
    unpriced: int = 0
    """How many of the requests were answered by a model whose price is unknown."""
    unanswered_usd: float = 0.0
    """What was reserved for requests whose answer never came: they may have been billed."""
    unanswered_tokens: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            round(self.usd + other.usd, 9),
            self.tokens + other.tokens,
            self.requests + other.requests,
            self.unpriced + other.unpriced,
            round(self.unanswered_usd + other.unanswered_usd, 9),
            self.unanswered_tokens + other.unanswered_tokens,
        )

    def answered(self) -> dict[str, Any]:
        """As plain data, without lost requests, because those differ from one crash to another."""
        return {name: getattr(self, name) for name in ("usd", "tokens", "requests", "unpriced")}


def cost_of(plain: Mapping[str, Any]) -> Cost:
    """Read the recorded cost of answers."""
    with not_believed("What a run has spent"):
        return checked(Cost(**plain))


@frozen_record(frozen=True, slots=True)
class Spent:
    """What a run cost: alone, and together with its workers and theirs."""

    own: Cost
    with_workers: Cost

    @property
    def usd(self) -> float:
        """Dollars, for the run and all its workers."""
        return self.with_workers.usd

    @property
    def tokens(self) -> int:
        """Tokens, for the run and all its workers."""
        return self.with_workers.tokens

    @property
    def requests(self) -> int:
        """How often a model answered the run and all its workers."""
        return self.with_workers.requests

    @property
    def unpriced(self) -> int:
        """How many of these requests were answered by a model whose price is unknown."""
        return self.with_workers.unpriced

    @property
    def unanswered_usd(self) -> float:
        """Dollars reserved for requests whose answer never came: they may have been billed."""
        return self.with_workers.unanswered_usd


class RunState:
    """The state of an agent's run, for reading. Only the beats change it."""

    __slots__ = ("_own", "_show", "_workers", "plain")

    def __init__(
        self,
        plain: Mapping[str, Any],
        show: Callable[[Any], Any] | None = None,
        *,
        own: Cost | None = None,
        workers: Cost | None = None,
    ) -> None:
        self.plain = plain
        """The same as plain data; do not change it."""
        self._show = show
        self._own = own
        self._workers = workers

    @property
    def goal(self) -> str:
        """What is to be done."""
        return str(self.plain["goal"])

    @property
    def done_when(self) -> tuple[str, ...]:
        """What must be true at the end: text, or the name of a function that checks it."""
        return tuple(self.plain["done_when"])

    @property
    def evidence(self) -> Mapping[str, str]:
        """The evidence for each of ``done_when`` that is known to be true."""
        found: Mapping[str, str] = self.plain["evidence"]
        return found

    @property
    def plan(self) -> tuple[str, ...]:
        """The steps planned by the model, or by the caller that started the run."""
        return tuple(self.plain["plan"])

    @property
    def cursor(self) -> int:
        """The index of the current step; the length of the plan when all are done."""
        return int(self.plain["cursor"])

    @property
    def completed(self) -> list[CompletedStep]:
        """The steps that are done, with evidence."""
        return [CompletedStep(**plain) for plain in self.plain["completed"]]

    @property
    def memory(self) -> list[MemoryReference]:
        """Where things can be found again."""
        return [MemoryReference(**plain) for plain in self.plain["memory"]]

    @property
    def asked(self) -> list[AskedCall]:
        """The effects that the model asked for, in order; ``Agent.effects`` has the details."""
        return [AskedCall(**plain) for plain in self.plain["asked"]]

    @property
    def transcript(self) -> Transcript:
        """Everything that was said, including compacted turns."""
        return Transcript(self.plain["transcript"])

    @property
    def heard(self) -> list[Message]:
        """What the user said, in order, without what the harness said in the user's role."""
        return [self.transcript[number] for number in self.plain["heard"]]

    @property
    def first_recent(self) -> int:
        """The number of the first message that still fits into the model's window."""
        return int(self.plain["window"]["first"])

    @property
    def recent(self) -> list[Message]:
        """The recent messages that fit into the model's window."""
        return self.transcript[self.first_recent :]

    @property
    def turn(self) -> int:
        """How often the model was asked."""
        return int(self.plain["turn"])

    @property
    def answer(self) -> str | None:
        """The model's final answer; None before it has finished."""
        found: str | None = self.plain["answer"]
        return found

    @property
    def value(self) -> Any:
        """The answer in the type of ``Agent(answer=...)``; None before there is one.

        Plain data, as stored, if the type of the deployed agent does not fit it.
        """
        plain = thaw(self.plain["value"])
        return plain if plain is None or self._show is None else self._show(plain)

    def changed(self, **parts: Any) -> RunState:
        """Return the same state with other parts, for looking ahead; nothing is recorded."""
        return RunState({**self.plain, **parts}, self._show)

    def costing(self, own: Cost, workers: Cost) -> RunState:
        """Return the same state with the costs from the ledger."""
        return RunState(self.plain, self._show, own=own, workers=workers)

    @property
    def spent(self) -> Spent:
        """The cost of requests to the model; lost ones are included if the ledger was read."""
        own, workers = self._own, self._workers
        if own is None:
            own = cost_of(self.plain["spent"])
        if workers is None:
            workers = sum(map(cost_of, self.plain["workers"].values()), Cost())
        return Spent(own, own + workers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunState) and self.plain == other.plain

    def __hash__(self) -> int:
        return hash(values.hash_of(self.plain))

    def __repr__(self) -> str:
        return (
            f"<RunState of {self.goal[:40]!r}: turn {self.turn}, "
            f"{len(self.transcript)} messages, {self.spent.tokens} tokens>"
        )


def first_state(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that a run begins with."""
    strange = sorted(set(given) - set(_CONTRACT), key=str)
    if strange:
        raise InvalidGraph(
            f"An agent's run takes {', '.join(_CONTRACT)}, but not {strange[0]!r}. Nothing was "
            "started. Leave it out."
        )
    goal = given.get("goal", "")
    if not isinstance(goal, str):
        raise InvalidGraph(f"goal={goal!r} is not a text. Nothing was started. Say it in words.")
    conditions = texts(given.get("done_when", ()), "done_when")
    return {
        "goal": goal,
        "done_when": conditions,
        "own_conditions": len(conditions),
        "plan": texts(given.get("plan", ()), "plan"),
        "files": _files(given.get("files", ())),
        "cursor": 0,
        "completed": [],
        "evidence": {},
        "memory": [],
        "asked": [],
        "transcript": [],
        "heard": [],
        "left_out": [],
        "summary": {"until": -1, "text": ""},
        "turn": 0,
        "round": {"number": 1, "first_visit": 1},
        "window": {"first": 0, "until": 0, "tokens": 0, "most": None},
        "reply": None,
        "refused_by": [],
        "repeats": {"of": [], "runs": [], "count": 0, "period": 1},
        "spent": {"usd": 0.0, "tokens": 0, "requests": 0, "unpriced": 0},
        "workers": {},
        "raised": {},
        "partial": "",
        "answer": None,
        "value": None,
    }


def is_state(plain: Mapping[str, Any]) -> bool:
    """Whether this is the state of an agent's run, and not of another graph's run."""
    return {"spent", "workers", "transcript", "round"} <= plain.keys()


def texts(given: Any, name: str) -> list[str]:
    """Return a list of texts; InvalidGraph before anything is started if it is something else."""
    if isinstance(given, list | tuple) and all(isinstance(one, str) and one for one in given):
        return list(given)
    raise InvalidGraph(
        f"{name}={given!r} is not a list of texts. Nothing was started. Write {name}=['...']."
    )


def _files(given: Any) -> list[dict[str, Any]]:
    """Return references to files in their recorded form."""
    if isinstance(given, list | tuple):
        read = [one if isinstance(one, File) else block_from_plain(one) for one in given]
        if all(isinstance(one, File) for one in read):
            return [block_to_plain(one) for one in read]
    raise InvalidGraph(f"files={given!r} is not a list of nt.agent.File(...). Nothing was started.")


class AgentState(StateType):
    """How the state of an agent's run is passed to beats and read from them.

    Beats are ours and change nothing in place, so nothing is copied or compared. Both would take
    longer with every message of the conversation.
    """

    def __init__(self, *, agent: str, show: Callable[[Any], Any] | None = None) -> None:
        super().__init__(dict, graph=agent, append=APPENDED)
        self._show_value = show

    def first(self, given: Any) -> dict[str, Any]:
        if isinstance(given, RunState):
            return envelope(given)
        if not (given is None or isinstance(given, Mapping)):
            raise InvalidGraph(
                f"Agent {self._graph!r} was given {type(given).__name__} as its input. Nothing was "
                'started. Pass {"goal": "..."}.'
            )
        state = first_state(given or {})
        check_markers(state["done_when"])
        values.check_plain(state, root="input")
        return state

    def stable(self, given: Any) -> dict[str, Any]:
        return self.first(given)

    def hand_out(self, state: Mapping[str, Any]) -> RunState:
        return RunState(state, self._show_value)

    def lend(self, state: Mapping[str, Any]) -> RunState:
        return RunState(state, self._show_value)

    def read(self, handed: Any, returned: Any, state: Mapping[str, Any], node: str) -> Ending:
        if node == "/" and returned is not None:
            raise UsageError(
                "The state of an agent's run cannot be changed from outside. Nothing was done. "
                "Send it a message instead: agent.run(run_id, message='...')."
            )
        return super().read(handed, returned, state, node)

    def _check_unchanged(self, handed: Any, state: Mapping[str, Any], node: str) -> None:
        return None

    def _write(self, key: str, value: Any, by: str) -> Any:
        values.check_plain(value, root=key)
        return value


def envelope(state: RunState) -> dict[str, Any]:
    """Return what a parent run keeps of a child: its contract, answer, evidence and cost.

    The child's transcript stays in the ledger, under the child's own id.
    """
    plain = first_state({name: state.plain[name] for name in _CONTRACT if name in state.plain})
    counted = ("turn", "spent", "workers", "raised")
    kept = ("cursor", "completed", "evidence", *counted, "answer", "value")
    return {**plain, **{name: state.plain[name] for name in kept}}
