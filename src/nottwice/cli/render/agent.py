"""How is the run of an agent printed: its task, its cost, and what was said?

Promise kept here: P214.
"""

from __future__ import annotations

from collections.abc import Iterator

from nottwice.agent.state import Cost, RunState
from nottwice.cli.render.output import show_line
from nottwice.views.run.agent import AgentView
from nottwice.views.run.conversation import said_lines
from nottwice.views.text import count_noun, safe, shorten

MOST_CHARACTERS = 400
MOST_ANSWER_CHARACTERS = 2000


def agent_facts(state: RunState) -> list[tuple[str, object]]:
    """How far an agent came; not everything that was said."""
    spent = state.spent
    has_workers = spent.with_workers != spent.own
    lost = f"up to ${spent.unanswered_usd:.4f} more, for requests whose answer never arrived"
    steps = [
        f"[{'x' if number < state.cursor else ' '}] {step}"
        for number, step in enumerate(state.plan)
    ]
    return [
        ("goal", shorten(state.goal, MOST_CHARACTERS) or None),
        ("answer", None if state.answer is None else shorten(state.answer, MOST_ANSWER_CHARACTERS)),
        ("plan", " ".join(steps) or None),
        *(
            ("done when", shorten(f"{name}: {state.evidence.get(name, 'no evidence yet')}"))
            for name in state.done_when
        ),
        ("turns", state.turn),
        ("spent", _cost_text(spent.with_workers)),
        ("of it own", _cost_text(spent.own) if has_workers else None),
        ("unanswered", lost if spent.with_workers.unanswered_tokens else None),
    ]


def _cost_text(cost: Cost) -> str:
    usd = f"${cost.usd:.4f}" if cost.unpriced == 0 else f"${cost.usd:.4f} and more"
    return f"{usd}, {cost.tokens:,} tokens in {count_noun(cost.requests, 'request')}"


def show_conversation(agent: AgentView, *, limit: int | None, whole: str) -> None:
    """What was said, called and answered, as `nottwice run` prints it; the last part of it."""
    lines = [
        *_lines(agent.state),
        *(
            ("hear", f"{text} (no model was asked about it yet)", "bold")
            for text in agent.unanswered
        ),
    ]
    left_out = 0 if limit is None else max(0, len(lines) - limit)
    show_line("Conversation", style="bold")
    if left_out:
        show_line(f"  … and {left_out} lines before: {safe(whole)}")
    for what, text, style in lines[left_out:]:
        line = what if not text else f"  {what:<6}  {shorten(text, MOST_CHARACTERS)}"
        show_line(line, style=style)
    if not lines:
        show_line("  Nothing was said yet.")


_STYLES = {"call": "cyan", "result": "green", "hear": "bold", "remark": "bold"}


def _lines(state: RunState) -> Iterator[tuple[str, str, str | None]]:
    """One line for each thing that was said: what it is, its text, its colour."""
    for kind, text, is_error in said_lines(state):
        if kind == "turn":
            yield f"turn {text}", "", "bold"
        else:
            yield kind, text, "red" if is_error else _STYLES.get(kind)
