"""Is a model shown the very file that was meant, and only a reference kept of it? (P208)"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.context import estimate_tokens, recall
from nottwice.agent.messages import Message, Role, ToolCall, ToolResult, said
from nottwice.agent.requests.files import IMAGE_TOKENS, PAGE_TOKENS, files_in
from nottwice.errors import LedgerCorrupt
from nottwice.testing import FakeModels, Fault
from tests.nursery import starting

both = pytest.mark.parametrize("api", ["anthropic", "openai"])
PNG = b"\x89PNG\r\n\x1a\n" + b"the picture of a cat" * 20
PDF = b"%PDF-1.7 << /Type /Pages >> << /Type /Page >> << /Type/Page >>"
OTHER = b"\x89PNG\r\n\x1a\n" + b"the picture of a dog" * 20


def picture(folder: Path, content: bytes = PNG, name: str = "cat.png") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def agent(provider: Any, *tools: Any, **options: Any) -> nt.Agent:
    return nt.Agent("seeing", version="1.0.0", provider=provider, tools=tools, **options)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@both
def test_a_goal_a_message_and_a_result_show_the_bytes_and_record_the_reference(
    fake_models: FakeModels, tmp_path: Path, api: str
) -> None:
    @nt.tool("pure", name="take_picture")
    def take_picture(number: int) -> list[str | nt.agent.File]:
        """Take a picture."""
        content = PNG + b"taken"
        return ["Here it is:", nt.agent.File(str(picture(tmp_path, content, "taken.png")))]

    fake_models.will_say({"take_picture": {"number": 1}}, "A cat.", "A page.")
    seeing = agent(getattr(fake_models, api)(), take_picture)
    goal: list[str | nt.agent.File] = ["What is this?", nt.agent.File(str(picture(tmp_path)))]
    path = str(tmp_path / "agent.db")
    assert seeing.run("t", goal=goal, store=path).state.answer == "A cat."
    sheet = picture(tmp_path, PDF, "sheet.pdf")
    outcome = seeing.run("t", message=["And this?", nt.agent.File(sheet)], store=path)
    assert outcome.state.answer == "A page."
    assert fake_models.rejected == []
    first, second, third = (str(request.body) for request in fake_models.requests)
    assert encoded(PNG) in first
    assert encoded(PNG + b"taken") not in first
    assert encoded(PNG + b"taken") in second
    assert encoded(PDF) in third
    assert first.count("What is this?") == 1
    kept = b"".join(each.read_bytes() for each in tmp_path.glob("agent.db*"))
    for content in (PNG, PNG + b"taken", PDF):
        assert hashlib.sha256(content).hexdigest().encode() in kept
        assert content not in kept
        assert encoded(content).encode() not in kept


@both
def test_text_is_shown_as_text_and_an_address_as_an_address(
    fake_models: FakeModels, tmp_path: Path, api: str
) -> None:
    table = picture(tmp_path, "tea;3 €\n".encode(), "table.csv")
    shown = [
        nt.agent.File(str(table)),
        nt.agent.File("https://example.com/a%20cat.png?size=2"),
        nt.agent.File("https://example.com/sheet.pdf"),
    ]
    fake_models.will_say("Seen.")
    agent(getattr(fake_models, api)()).run("t", goal=shown, store=nt.Ledger(":memory:"))
    assert fake_models.rejected == []
    body = str(fake_models.requests[0].body)
    for part in ("tea;3 €", "table.csv", *(str(file.where) for file in shown[1:])):
        assert part in body
    assert "Look at table.csv, a cat.png, sheet.pdf." in body


@both
@pytest.mark.parametrize("change", ["changed", "missing"])
def test_a_file_that_is_not_what_it_was_is_not_shown_and_nothing_is_asked(
    fake_models: FakeModels, tmp_path: Path, api: str, change: str
) -> None:
    path = picture(tmp_path)
    fake_models.will_say("Fine.", "A cat.")
    seeing = agent(getattr(fake_models, api)())
    store = nt.Ledger(":memory:")
    seeing.run("t", goal="wait for it", store=store)
    file = nt.agent.File(str(path))
    path.write_bytes(OTHER) if change == "changed" else path.unlink()
    for _ in range(2):
        with pytest.raises(nt.errors.FileChanged, match=str(path)):
            seeing.run("t", message=["And this?", file], store=store)
    assert len(fake_models.requests) == 1
    picture(tmp_path)
    assert seeing.run("t", store=store).state.answer == "A cat."
    assert [request.turn for request in fake_models.requests] == [1, 2]


@both
@pytest.mark.parametrize("change", ["changed", "missing"])
def test_a_file_that_the_model_has_seen_may_go_and_the_model_is_told(
    fake_models: FakeModels, tmp_path: Path, api: str, change: str
) -> None:
    path = picture(tmp_path)
    fake_models.will_say("A cat.", "It was one.")
    seeing = agent(getattr(fake_models, api)())
    store = nt.Ledger(":memory:")
    seeing.run("t", goal=["What is this?", nt.agent.File(str(path))], store=store)
    path.write_bytes(OTHER) if change == "changed" else path.unlink()
    outcome = seeing.run("t", message="Really?", store=store)
    assert outcome.state.answer == "It was one."
    assert fake_models.rejected == []
    body = str(fake_models.requests[-1].body)
    assert "The file cat.png belongs here, and is not shown" in body
    assert encoded(OTHER) not in body


@both
@pytest.mark.parametrize("said_in", ["goal", "message"])
def test_a_file_that_is_lost_is_left_behind_by_the_next_message(
    fake_models: FakeModels, tmp_path: Path, api: str, said_in: str
) -> None:
    path = picture(tmp_path)
    shown: Any = ["What is this?", nt.agent.File(str(path))]
    path.unlink()
    fake_models.will_say("Without it, then.")
    seeing = agent(getattr(fake_models, api)())
    store = nt.Ledger(":memory:")
    told: Any = {"goal": shown} if said_in == "goal" else {"goal": "look", "message": shown}
    with pytest.raises(nt.errors.FileChanged, match="send a message"):
        seeing.run("t", **told, store=store)
    assert fake_models.requests == []
    outcome = seeing.run("t", message="Go on without it.", store=store)
    assert outcome.state.answer == "Without it, then."
    assert "is not shown: it cannot be read" in str(fake_models.requests[0].body)
    assert "Go on without it." in str(fake_models.requests[0].body)


@both
def test_a_file_that_a_tool_made_may_be_gone_and_the_model_is_told(
    fake_models: FakeModels, tmp_path: Path, api: str
) -> None:
    @nt.tool("pure", name="take_short_picture")
    def take_picture() -> nt.agent.File:
        """Take a picture that does not last."""
        path = picture(tmp_path)
        file = nt.agent.File(str(path))
        path.unlink()
        return file

    fake_models.will_say({"take_short_picture": {}}, "It is gone.")
    seeing = agent(getattr(fake_models, api)(), take_picture)
    outcome = seeing.run("t", goal="look", store=nt.Ledger(":memory:"))
    assert outcome.state.answer == "It is gone."
    assert "is not shown: it cannot be read" in str(fake_models.requests[1].body)
    assert fake_models.rejected == []


def test_a_fallback_is_not_asked_about_a_file_that_is_gone(
    fake_models: FakeModels, tmp_path: Path
) -> None:
    file = nt.agent.File(str(picture(tmp_path)))
    (tmp_path / "cat.png").unlink()
    provider = nt.providers.fallback(fake_models.anthropic(), fake_models.openai())
    with pytest.raises(nt.errors.FileChanged):
        agent(provider).run("t", goal=[file], store=nt.Ledger(":memory:"))
    assert fake_models.requests == []


PROGRAM = """
import sys
import nottwice as nt
url, store, path = sys.argv[1:]
provider = nt.providers.anthropic("claude-sonnet-5-5", api_key="key", base_url=url)
agent = nt.Agent("seeing", version="1.0.0", provider=provider)
print(agent.run("t", goal=["What is this?", nt.agent.File(path)], store=store).state.answer)
"""


def test_a_killed_run_shows_the_same_file_again(fake_models: FakeModels, tmp_path: Path) -> None:
    path = picture(tmp_path)
    fake_models.will_say("A cat.")
    fake_models.will_fail(Fault.slow(60.0))
    store = str(tmp_path / "a.db")
    command = [sys.executable, "-c", PROGRAM, fake_models.url, store, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not fake_models.requests:
            assert process.poll() is None
        process.kill()
    done = starting.run(command, check=True)
    assert done.stdout == "A cat.\n"
    first, second = (request.body for request in fake_models.requests)
    assert first == second


def test_the_same_words_with_another_file_are_another_message(
    fake_models: FakeModels, tmp_path: Path
) -> None:
    fake_models.will_say("Hello.", "A cat.", "A dog.")
    seeing = agent(fake_models.anthropic())
    store = nt.Ledger(":memory:")
    seeing.run("t", goal="look", store=store)
    cat = nt.agent.File(str(picture(tmp_path)))
    for _ in range(2):
        outcome = seeing.run("t", message=["And this?", cat], store=store)
        assert outcome.state.answer == "A cat."
    dog = nt.agent.File(str(picture(tmp_path, OTHER)))
    with pytest.raises(nt.errors.FileChanged):
        seeing.run("t", message=["And that?", cat], store=store)
    picture(tmp_path)
    assert dog.sha256 != cat.sha256
    assert len(fake_models.requests) == 2


def test_what_a_file_takes_is_reserved(fake_models: FakeModels, tmp_path: Path) -> None:
    fake_models.will_say("A cat.")
    thrifty = agent(fake_models.anthropic(), budget=nt.Budget(tokens=9_000))
    store = nt.Ledger(":memory:")
    assert thrifty.run("without", goal="x", store=store).status == "completed"
    seen = [nt.agent.File(str(picture(tmp_path)))]
    assert thrifty.run("with", goal=seen, store=store).status == "waiting"
    assert len(fake_models.requests) == 1


def test_images_pages_and_text_are_estimated(tmp_path: Path) -> None:
    cat = nt.agent.File(str(picture(tmp_path)))
    sheet = nt.agent.File(str(picture(tmp_path, PDF, "sheet.pdf")))
    text = nt.agent.File(str(picture(tmp_path, b"x" * 30_000, "long.txt")))
    assert cat.tokens == IMAGE_TOKENS
    assert sheet.tokens == 2 * PAGE_TOKENS
    assert text.tokens == 10_001
    plain = Message(Role.USER, (cat, sheet)).to_plain()
    assert estimate_tokens(plain) > IMAGE_TOKENS + 2 * PAGE_TOKENS
    result = Message(Role.USER, (ToolResult("c", "x", files=(text,)),)).to_plain()
    assert 10_001 < estimate_tokens(result) < 11_000
    assert estimate_tokens(said("x").to_plain()) < 100
    tricky = ToolCall("c", "x", {"kind": "file", "tokens": 10**9, "files": [cat.to_plain()]})
    assert estimate_tokens(Message(Role.ASSISTANT, (tricky,)).to_plain()) < 300


def test_a_file_comes_back_from_the_record_without_being_read(tmp_path: Path) -> None:
    path = picture(tmp_path)
    file = nt.agent.File(path)
    message = Message(Role.USER, (file, ToolResult("c", "x", files=(file,))))
    path.unlink()
    assert Message.from_plain(message.to_plain()) == message
    assert message.files == (file,)
    assert list(files_in({"a": [file, 7], "b": file})) == [file, file]


@pytest.mark.parametrize(
    "change", [{"sha256": None}, {"where": 7}, {"media_type": "audio/wav"}, {"tokens": "many"}]
)
def test_a_reference_that_was_not_written_here_is_not_believed(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    file = {**nt.agent.File(str(picture(tmp_path))).to_plain(), **change}
    for block in (file, {"kind": "tool_result", "call_id": "c", "content": "", "files": [file]}):
        with pytest.raises(LedgerCorrupt, match="cannot be read"):
            Message.from_plain({"role": "user", "blocks": [block]})


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("nowhere.png", "cannot be read"),
        ("sound.wav", "audio/"),
        ("unnamed", "its name does not tell"),
        ("s3://bucket/cat.png", "nor a web address"),
        ("https://example.com/page.html", "text at an address"),
    ],
)
def test_what_cannot_be_shown_is_refused_immediately(where: str, why: str) -> None:
    with pytest.raises(nt.errors.UsageError, match=why):
        nt.agent.File(where)


@pytest.mark.parametrize("message", ["  ", [], [" "], [7], 7, {"text": "x"}])
def test_what_says_nothing_is_refused(fake_models: FakeModels, message: Any) -> None:
    fake_models.will_say("Hi")
    with pytest.raises(nt.errors.UsageError, match="says nothing"):
        agent(fake_models.anthropic()).run("t", message=message, store=nt.Ledger(":memory:"))


def test_a_file_can_be_recalled_by_its_name(tmp_path: Path) -> None:
    recalling = agent(nt.providers.scripted(["Hi"]))
    shown = [nt.agent.File(str(picture(tmp_path)))]
    state = recalling.run("t", goal="x", message=shown, store=nt.Ledger(":memory:")).state
    assert "[file cat.png]" in recall(state, 0, 5, most_characters=1000)
