"""Do README and docs tell the truth? Their code runs, their commands exist, their proofs exist.

The checks are in `tests/tidy/documents.py`, which also says how a page marks what is not executed.
As in `tests/test_tidy.py`, each check is also applied to a sample that breaks it.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import click
import pytest
from click.testing import CliRunner

from tests.tidy import documents, links
from tests.tidy.documents import Block
from tests.tidy.source import ROOT, Finding, read_tree

PAGES = {
    "README.md": (ROOT / "README.md").read_text(encoding="utf-8"),
    **read_tree("docs", suffixes=(".md",)),
}
# The code of the others is not executed.
ALL_PAGES = {
    **PAGES,
    **{
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    },
}
CLI_PAGE = "docs/reference/cli.md"
PROMISES_PAGE = "docs/promises.md"
LIST_PAGE = "docs/README.md"


def assert_clean(findings: Iterable[Finding]) -> None:
    report = [str(finding) for finding in findings]
    assert not report, "\n" + "\n".join(report)


def places(findings: Iterable[Finding]) -> list[str]:
    return [f"{finding.path}:{finding.line}" for finding in findings]


def page(path: str) -> str:
    # A page that is gone is a failure, not a reason to skip what it promised.
    assert path in PAGES, f"{path} is missing"
    return PAGES[path]


@functools.cache
def python_files() -> dict[str, str]:
    return read_tree("tests", "src", "examples", "bench", "tools")


@pytest.fixture
def program() -> click.Command:
    return load_program()


def load_program() -> click.Command:
    from nottwice.cli import main

    found = [value for value in vars(main).values() if isinstance(value, click.Group)]
    assert found, "nottwice.cli.main defines no click group"
    # The program is the group that no other group contains.
    inner = [command for group in found for command in group.commands.values()]
    (outermost,) = {id(group): group for group in found if group not in inner}.values()
    return outermost


def run_page(path: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Execute the blocks of one page in order, in one namespace and one folder; count them.

    As `python page.py` would: the code under `if __name__ == "__main__":` is executed.
    """
    monkeypatch.chdir(folder)
    module = ModuleType("__main__")
    # Dataclasses and annotations look their module up by name.
    for name in ("__main__", "page"):
        monkeypatch.setitem(sys.modules, name, module)
    # What a page puts into the environment is gone when it ends.
    with patch.dict(os.environ):
        return _run_blocks(path, text, module)


def _run_blocks(path: str, text: str, module: ModuleType) -> int:
    executed = 0
    for block in documents.blocks(path, text):
        if block.language == "python":
            # Blank lines in front make tracebacks and warnings name the line of the page.
            source = "\n" * (block.line - 1) + block.code
            code = compile(source, str(ROOT / path), "exec", dont_inherit=True)
            if block.verb != "no-run":
                name = "page" if block.verb == "import" else "__main__"
                module.__dict__["__name__"] = name
                exec(code, module.__dict__)
                executed += 1
        elif block.language == "console" and block.verb == "run":
            run_console(block, load_program())
            executed += 1
    return executed


def run_console(block: Block, program: click.Command) -> None:
    found = documents.commands(block)
    assert found, f"{block}: it is marked to be run but shows no `$ nottwice` line"
    expected = int(block.rest.removeprefix("exit ")) if block.rest else 0
    for command in found:
        result = CliRunner().invoke(program, command.words)
        wanted = expected if command is found[-1] else 0
        if result.exit_code != wanted:
            pytest.fail(
                f"{block.path}:{command.line}: nottwice {' '.join(command.words)} ended with "
                f"{result.exit_code}, not {wanted}.\n{result.output}\n{result.exception!r}"
            )


# The pages as they are


@pytest.mark.parametrize("path", sorted(PAGES))
def test_the_code_on_the_page_runs(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_page(path, PAGES[path], tmp_path, monkeypatch)


@pytest.mark.parametrize("path", ["README.md", "docs/guides/graphs.md"])
def test_what_a_reader_sees_can_be_started_twice(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These pages say that the same program resumes a run, so a reader starts it again."""
    seen = re.sub(r"<!--.*?-->", "", PAGES[path], flags=re.DOTALL)
    for _ in range(2):
        assert run_page(path, seen, tmp_path, monkeypatch)


@pytest.mark.parametrize("path", sorted(PAGES))
def test_code_that_declares_and_starts_can_be_imported_without_starting(path: str) -> None:
    """What is pasted into a file can be given to `nottwice check` (P141)."""
    assert_clean(documents.unguarded_starts(documents.blocks(path, PAGES[path])))


@pytest.mark.parametrize("path", sorted(PAGES))
def test_code_that_is_not_run_says_why(path: str) -> None:
    assert_clean(documents.unexplained_exceptions(documents.blocks(path, PAGES[path])))


@pytest.mark.parametrize("path", sorted(PAGES))
def test_the_commands_on_the_page_exist(path: str, program: click.Command) -> None:
    assert_clean(documents.impossible_commands(documents.blocks(path, PAGES[path]), program))


def test_every_command_is_documented(program: click.Command) -> None:
    assert_clean(documents.undocumented_commands(program, CLI_PAGE, page(CLI_PAGE)))


def test_every_promise_names_tests_that_exist() -> None:
    text = page(PROMISES_PAGE)
    assert documents.promises(text), f"{PROMISES_PAGE} has no heading `### P1. …`"
    assert_clean(documents.broken_promises(PROMISES_PAGE, text, read_tree("tests", "src")))


@pytest.mark.parametrize("path", sorted(ALL_PAGES))
def test_the_files_and_tests_that_the_page_names_exist(path: str) -> None:
    assert_clean(documents.stale_names(path, ALL_PAGES[path], python_files()))


@pytest.mark.parametrize("path", sorted(ALL_PAGES))
def test_lists_and_headings_of_the_page_are_lines_of_their_own(path: str) -> None:
    assert_clean(documents.folded_lines(path, ALL_PAGES[path]))


def test_every_page_begins_with_the_question_that_it_answers() -> None:
    assert_clean(documents.without_a_question(read_tree("docs", suffixes=(".md",))))


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    inside = ("docs", "src", "tests", "examples", "bench", "tools")
    paths = [path for folder in inside for path in (ROOT / folder).rglob("*")]
    found = {path.relative_to(ROOT).as_posix() for path in (*paths, *ROOT.glob("*"))}
    assert_clean(links.broken_links(ALL_PAGES, found))


def test_the_list_of_pages_is_complete() -> None:
    assert_clean(links.unlisted_pages(LIST_PAGE, PAGES))


def test_every_promise_that_code_cites_was_made() -> None:
    assert_clean(documents.unkept_citations(page(PROMISES_PAGE), read_tree("src")))


def test_every_promise_is_cited_by_the_code_that_keeps_it() -> None:
    text = page(PROMISES_PAGE)
    assert_clean(documents.uncited_promises(PROMISES_PAGE, text, read_tree("src")))


# Samples that break each check


def fenced(language: str, code: str, directive: str = "") -> str:
    return f"Words.\n\n{directive}\n```{language}\n{code}\n```\n"


def test_blocks_are_read_with_place_language_and_directive() -> None:
    text = (
        fenced("python", "a = 1", "<!-- no-run: it needs a server -->")
        + "1. In a list:\n\n   ```console\n   $ nottwice\n   ```\n"
        + "````markdown\n```python\nnot ours\n```\n````\n"
    )
    assert list(documents.blocks("a.md", text)) == [
        Block("a.md", 5, "python", "a = 1\n", "no-run", "it needs a server"),
        Block("a.md", 10, "console", "$ nottwice\n"),
        Block("a.md", 13, "markdown", "```python\nnot ours\n```\n"),
    ]


def test_a_page_that_asks_nothing_is_found() -> None:
    pages = {
        "a.md": "# A\n\n<!-- Made by a tool. -->\n\nWhat is it? This.\n",
        "b.md": "# B\n\nThis page is about it.\n\nWhat is it?\n",
        "c.md": "# C\n",
    }
    assert places(documents.without_a_question(pages)) == ["b.md:1", "c.md:1"]


def test_a_link_to_a_file_or_heading_that_is_gone_is_found() -> None:
    pages = {
        "docs/a.md": "# A\n\n## `The` key\n\n```text\n[x](gone.md)\n# Not a heading\n```\n",
        "docs/b/c.md": "[1](../a.md#the-key)\n[2](../a.md#not-a-heading)\n[3](../d.md)\n[4](#c)",
    }
    found = links.broken_links(pages, {"docs/a.md", "docs/b/c.md"})
    assert places(found) == ["docs/b/c.md:2", "docs/b/c.md:3", "docs/b/c.md:4"]


def test_a_page_that_no_list_names_is_found() -> None:
    pages = {"docs/README.md": "[a](a.md)", "docs/a.md": "", "docs/b.md": "", "README.md": ""}
    (found,) = links.unlisted_pages("docs/README.md", pages)
    assert "docs/b.md" in str(found)


def test_a_directive_holds_for_the_next_block_only() -> None:
    text = fenced("python", "a = 1", "<!-- no-run: why -->\n") + "```python\nb = 2\n```\n"
    assert [block.verb for block in documents.blocks("a.md", text)] == ["no-run", ""]


def test_a_block_without_an_end_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"a\.md:3: the block that begins here has no end"):
        list(documents.blocks("a.md", "A\n\n```python\nb = 1\n"))


def test_blocks_of_a_page_share_a_namespace_and_a_folder_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = fenced("python", "from pathlib import Path\nx = 1") + fenced(
        "python", "Path('made').write_text(str(x + 1))"
    )
    assert run_page("a.md", text, tmp_path, monkeypatch) == 2
    assert (tmp_path / "made").read_text() == "2"


def test_code_behind_the_guard_of_a_program_is_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guarded = 'if __name__ == "__main__":\n    open("made", "w").close()'
    imported = fenced("python", guarded, "<!-- import: it kills itself -->")
    assert run_page("a.md", imported, tmp_path, monkeypatch) == 1
    assert not (tmp_path / "made").exists()
    assert run_page("a.md", fenced("python", guarded), tmp_path, monkeypatch) == 1
    assert (tmp_path / "made").exists()


DECLARES = '@nt.tool("pure")\ndef look() -> int:\n    return 1\n'


@pytest.mark.parametrize(
    "starts",
    [
        'with nt.run("r"):\n    look()',
        'with nt.Ledger("a.db") as ledger, ledger.run("r"):\n    look()',
        'outcome = flow.run("r", {})',
        'app.enqueue("flow", "r")',
        "asyncio.run(main())",
        "for name in names:\n    app.enqueue('flow', name)",
    ],
)
def test_code_that_starts_what_it_declares_without_the_guard_is_found(starts: str) -> None:
    def check(code: str, directive: str = "") -> list[str]:
        blocks = documents.blocks("a.md", fenced("python", code, directive))
        return places(documents.unguarded_starts(blocks))

    indented = "    " + starts.replace("\n", "\n    ")
    line = 9 if starts.startswith("for") else 8
    assert check(DECLARES + starts) == [f"a.md:{line}"]
    assert check(f'{DECLARES}if __name__ == "__main__":\n{indented}') == []
    assert check(f"{DECLARES}def test_it():\n{indented}") == []
    assert check(starts) == [], "a part of a file that is shown alone"


def test_an_error_on_a_page_names_the_line_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        run_page("a.md", fenced("python", "x = 1\nx / 0"), tmp_path, monkeypatch)
    assert caught.traceback[-1].lineno == 5  # Counted from 0: the sixth line of the page.


def test_a_block_marked_no_run_is_compiled_but_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directive = "<!-- no-run: it fails -->"
    assert run_page("a.md", fenced("python", "1 / 0", directive), tmp_path, monkeypatch) == 0
    with pytest.raises(SyntaxError):
        run_page("a.md", fenced("python", "1 /", directive), tmp_path, monkeypatch)


def test_a_block_that_is_not_run_without_a_reason_is_found() -> None:
    for verb in ("no-run", "import"):
        text = fenced("python", "1 / 0", f"<!-- {verb} -->") + fenced(
            "python", "1 / 0", f"<!-- {verb}: it fails -->"
        )
        found = documents.unexplained_exceptions(documents.blocks("a.md", text))
        assert places(found) == ["a.md:5"]


@click.group(name="nottwice", invoke_without_command=True)
@click.option("--store")
def sample_program(store: str | None) -> None:
    """Stand in for the real program in samples."""


@sample_program.command("show")
@click.argument("id")
@click.option("--json", "as_json", is_flag=True)
def sample_show(id: str, as_json: bool) -> None:
    if id == "missing":
        raise click.ClickException("no such run")
    click.echo(id)


@sample_program.command("internal", hidden=True)
def sample_internal() -> None:
    """Play a command that no person is meant to type."""


def sample_block(code: str, *, rest: str = "") -> Block:
    return Block("a.md", 5, "console", code, "run", rest)


@pytest.mark.parametrize(
    "line",
    [
        "$ nottwice",
        "$ nottwice --store a.db show ticket-7 --json   # a comment",
        "$ nottwice --store=a.db show --json ticket-7 | head -n 3",
        "$ nottwice show ticket-7 \\\n    --json",
        "$ nottwice show --help",
        "$ make demo\nnottwice is printed here --with-nothing",
    ],
)
def test_a_command_that_exists_is_let_through(line: str) -> None:
    assert_clean(documents.impossible_commands([sample_block(line)], sample_program))


@pytest.mark.parametrize(
    "line",
    [
        "$ nottwice shows ticket-7",
        "$ nottwice show ticket-7 --yaml",
        "$ nottwice --json show ticket-7",
        "$ nottwice show ticket-7 \\\n    --yaml",
    ],
)
def test_a_command_or_option_that_does_not_exist_is_found(line: str) -> None:
    found = documents.impossible_commands([sample_block("$ nottwice\n" + line)], sample_program)
    assert places(found) == ["a.md:6"]


def test_only_console_blocks_are_read_as_commands() -> None:
    text = fenced("text", "$ nottwice shows ticket-7")
    assert_clean(documents.impossible_commands(documents.blocks("a.md", text), sample_program))


def test_a_console_block_that_ends_as_it_says_is_let_through() -> None:
    run_console(sample_block("$ nottwice show ticket-7\n$ nottwice"), sample_program)
    run_console(sample_block("$ nottwice show missing", rest="exit 1"), sample_program)


@pytest.mark.parametrize(
    ("code", "rest"),
    [
        ("$ nottwice show missing", ""),
        ("$ nottwice show ticket-7", "exit 1"),
        ("$ nottwice show missing\n$ nottwice show ticket-7", ""),
    ],
)
def test_a_console_block_that_ends_otherwise_fails(code: str, rest: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"a\.md:5: nottwice show"):
        run_console(sample_block(code, rest=rest), sample_program)


def test_a_console_block_to_run_without_a_command_fails() -> None:
    with pytest.raises(AssertionError, match="shows no"):
        run_console(sample_block("$ ls"), sample_program)


def test_an_undocumented_command_is_found() -> None:
    def check(text: str) -> list[str]:
        return places(documents.undocumented_commands(sample_program, "cli.md", text))

    assert check("Use `nottwice show ID`.") == []
    assert check("Use `nottwice shows ID`, or show it.") == ["cli.md:1"]


PROMISES = """\
# Promises

### P1. Nothing happens twice

Really.

Proof: tests/test_a.py::test_one,
tests/test_a.py::TestAll::test_two

An aside on tests/test_a.py::test_unknown.

### P7. Nothing is lost

Proof: tests/test_a.py::test_one

## Later

Proof: tests/none.py::test_nothing
"""
PROOFS = {
    "tests/test_a.py": "def test_one(): ...\nclass TestAll:\n  async def test_two(self): ...\n"
}


def test_promises_are_read_with_their_proofs() -> None:
    assert documents.promises(PROMISES) == [
        documents.Promise(
            1, 3, ("tests/test_a.py::test_one", "tests/test_a.py::TestAll::test_two")
        ),
        documents.Promise(7, 12, ("tests/test_a.py::test_one",)),
    ]
    assert_clean(documents.broken_promises("p.md", PROMISES, PROOFS))


@pytest.mark.parametrize(
    "section",
    [
        "### P1. Promised twice\n\nProof: tests/test_a.py::test_one\n",
        "### P2. Unproven\n\nSee tests/test_a.py::test_one.\n",
        "### P2. Whole file\n\nProof: tests/test_a.py\n",
        "### P2. No such file\n\nProof: tests/test_b.py::test_one\n",
        "### P2. No such test\n\nProof: tests/test_a.py::test_three\n",
        "### P2. No such method\n\nProof: tests/test_a.py::TestAll::test_one\n",
        "### P2. Not a test\n\nProof: tests/test_a.py::TestAll\n",
    ],
)
def test_a_promise_without_proof_is_found(section: str) -> None:
    text = PROMISES + section
    found = documents.broken_promises("p.md", text, PROOFS)
    assert places(found) == [f"p.md:{PROMISES.count(chr(10)) + 1}"]


def test_a_citation_of_no_promise_is_found() -> None:
    source = {"a.py": "# Promises kept here: P1 (once),\n# P7 (kept) and P12 (invented).\n"}
    assert places(documents.unkept_citations(PROMISES, source)) == ["a.py:2"]


def test_a_promise_that_no_code_cites_is_found() -> None:
    source = {"a.py": "# Promise kept here: P1 (once), and not P70.\n"}
    assert places(documents.uncited_promises("p.md", PROMISES, source)) == ["p.md:12"]


def test_a_file_or_a_test_that_is_gone_is_found() -> None:
    tree = {"src/nottwice/store/machine/locks.py": "", **PROOFS}
    text = "`store/machine/locks.py`, `locks.py`, `tests/test_a.py::test_one`\n"
    assert places(documents.stale_names("p.md", text, tree)) == []
    text = "`store/locks.py`\n`tests/test_a.py::test_gone`\n`tests/test_b.py`\n"
    found = documents.stale_names("p.md", text, tree)
    assert places(found) == ["p.md:1", "p.md:2", "p.md:3"]


def test_a_list_that_was_folded_into_a_paragraph_is_found() -> None:
    text = "It is not asked  - for this; - for that.\n\n## A heading  And its text.\n"
    assert places(documents.folded_lines("p.md", text)) == ["p.md:1", "p.md:3"]
    kept = "| a  | b |\n\n    make  quick\n\n```text\na  b\n```\n\n  - an item\n"
    assert places(documents.folded_lines("p.md", kept)) == []
