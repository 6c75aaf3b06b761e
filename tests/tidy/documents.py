"""What do README and docs claim that a machine can check? Code, commands, promises, proofs.

A fenced block may be preceded by a comment that says how to treat it:

    <!-- no-run: why -->   a `python` block is compiled, not executed
    <!-- import: why -->   a `python` block is executed as by an import, not as a program
    <!-- run -->           a `console` block's `$ nottwice …` lines are executed
    <!-- run: exit 1 -->   the same, and the last of them ends with this exit code

A console line that is not executed is compared with the commands and options that exist.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import click

from tests.tidy.source import Finding, Tree, parse

FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,})(?P<language>[\w+-]*)")
DIRECTIVE = re.compile(r"^\s*<!--\s*(?P<verb>no-run|import|run)\s*(?::\s*(?P<rest>.*?))?\s*-->\s*$")
PROMISE_HEADING = re.compile(r"^### P(?P<number>\d+)\. (?P<title>\S.*)$")
PROMISE_NUMBER = re.compile(r"\bP(\d{1,3})\b")
# A Python file with its folder, and perhaps a test in it. The outer folders may be left out.
NAMED_FILE = re.compile(r"`(?P<file>[\w./-]*\w/\w+\.py)(?P<test>(?:::\w+)*)`")
# A list or a heading that was wrapped like prose leaves two spaces in the middle of a line.
FOLDED = re.compile(r"^(?!\||    ).*\S {2,}\S")
# The suite for stores is shipped, and `tests/store/test_conformance.py` holds every store to it.
PROOF = re.compile(r"(?:tests|src/nottwice/testing/conformance)/[\w./-]+\.py(?:::\w+)*")
DECLARES = re.compile(r"^@nt\.tool|\bnt\.(Graph|Agent|App|Scratchpad|recipes\.\w+)\(", re.MULTILINE)
STARTS = re.compile(r"(?<!subprocess)\.(run|arun|enqueue|enqueue_all|migrate|migrate_all|send)$")
SHELL_STOPS = {"|", "||", "&&", ";", ">", ">>", "<", "&", "2>&1"}


@dataclass(frozen=True)
class Block:
    """One fenced block: where its code begins, and what the comment before it asks for."""

    path: str
    line: int
    language: str
    code: str
    verb: str = ""
    rest: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Command:
    """One `$ nottwice …` line, without the name of the program."""

    line: int
    words: tuple[str, ...]


@dataclass(frozen=True)
class Promise:
    """One numbered promise and the tests that it names as its proof."""

    number: int
    line: int
    proofs: tuple[str, ...]


def blocks(path: str, text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order."""
    opened: re.Match[str] | None = None
    start, last_words = 0, ""
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if opened is None:
            if fence:
                opened, start, lines = fence, number + 1, []
            elif line.strip():
                last_words = line
        elif fence and not fence["language"] and len(fence["ticks"]) >= len(opened["ticks"]):
            asked = DIRECTIVE.match(last_words)
            yield Block(
                path,
                start,
                opened["language"],
                textwrap.dedent("\n".join(lines) + "\n"),
                asked["verb"] if asked else "",
                (asked["rest"] or "") if asked else "",
            )
            opened, last_words = None, ""
        else:
            lines.append(line)
    if opened is not None:
        raise ValueError(f"{path}:{start - 1}: the block that begins here has no end")


def unexplained_exceptions(found: Iterable[Block]) -> Iterator[Finding]:
    """A block that is not executed says why."""
    for block in found:
        if block.language == "python" and block.verb in ("no-run", "import") and not block.rest:
            yield Finding(
                block.path,
                block.line,
                "a block is not executed as a program",
                f"Write <!-- {block.verb}: why -->",
            )


def unguarded_starts(found: Iterable[Block]) -> Iterator[Finding]:
    """A block that declares something and starts it can be pasted, and imported by a command."""
    for block in found:
        if block.language != "python" or not DECLARES.search(block.code):
            continue
        for statement in ast.parse(block.code).body:
            line = _first_start(statement)
            if line is not None:
                yield Finding(
                    block.path,
                    block.line + line - 1,
                    "importing this code starts something",
                    'Write if __name__ == "__main__": above it',
                )


def _first_start(statement: ast.stmt) -> int | None:
    """The line in which a statement at the top level starts something, unless it is guarded."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return None
    if isinstance(statement, ast.If) and "__name__" in ast.dump(statement.test):
        return None
    for node in ast.walk(statement):
        if isinstance(node, ast.Call) and STARTS.search(ast.unparse(node.func)):
            return node.lineno
    return None


def commands(block: Block) -> list[Command]:
    """Read the `$ nottwice …` lines of a console block; a backslash continues a line."""
    found = []
    lines = iter(enumerate(block.code.splitlines(), start=block.line))
    for number, line in lines:
        if not re.match(r"\$ nottwice(\s|$)", line):
            continue
        while line.endswith("\\"):
            line = line[:-1] + next(lines, (0, ""))[1].strip()
        words = shlex.split(line, comments=True)[2:]
        stops = [place for place, word in enumerate(words) if word in SHELL_STOPS]
        found.append(Command(number, tuple(words[: min(stops, default=len(words))])))
    return found


def impossible_commands(found: Iterable[Block], program: click.Command) -> Iterator[Finding]:
    """Every subcommand and option that a console block shows exists."""
    for block in found:
        if block.language != "console":
            continue
        for command in commands(block):
            if problem := _problem_with(command.words, program):
                yield Finding(
                    block.path, command.line, problem, "Show what `nottwice --help` offers"
                )


def _problem_with(words: tuple[str, ...], program: click.Command) -> str | None:
    current, rest = program, list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            # What follows is the command of another program.
            return None
        if word.startswith("-") and word != "-":
            name, _, value = word.partition("=")
            option = _options(current).get(name)
            if option is None:
                return f"{current.name} has no option {name}"
            takes_value = isinstance(option, click.Option) and not (
                option.is_flag or option.count or value
            )
            if takes_value and rest:
                rest.pop(0)
        elif isinstance(current, click.Group):
            command = current.get_command(click.Context(current), word)
            if command is None:
                return f"there is no command {word!r}"
            current = command
    return None


def _options(command: click.Command) -> dict[str, click.Parameter]:
    context = click.Context(command, info_name=command.name)
    return {
        spelling: parameter
        for parameter in command.get_params(context)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }


def undocumented_commands(program: click.Command, page_path: str, page: str) -> Iterator[Finding]:
    """Every command appears on the page as `nottwice …`."""
    for name in command_names(program):
        if not re.search(rf"\bnottwice {re.escape(name)}\b", page):
            yield Finding(
                page_path, 1, f"it does not mention `nottwice {name}`", "Document the command"
            )


def command_names(program: click.Command, prefix: str = "") -> Iterator[str]:
    """Yield every visible command below a program, nested ones as `group command`."""
    if isinstance(program, click.Group):
        context = click.Context(program)
        for name in program.list_commands(context):
            command = program.get_command(context, name)
            if command is not None and not command.hidden:
                yield prefix + name
                yield from command_names(command, prefix=f"{prefix}{name} ")


def promises(page: str) -> list[Promise]:
    """Read the promises of a page: `### P12. title`, then somewhere a paragraph `Proof: …`."""
    found: list[Promise] = []
    proofs: list[str] = []
    number, start, in_proof = 0, 0, False
    for line_number, line in enumerate([*page.splitlines(), "### end"], start=1):
        if re.match(r"^#{1,3} ", line):
            if number:
                found.append(Promise(number, start, tuple(proofs)))
            heading = PROMISE_HEADING.match(line)
            number = int(heading["number"]) if heading else 0
            start, proofs, in_proof = line_number, [], False
        else:
            in_proof = line.strip() != "" and (in_proof or line.lstrip(" *_").startswith("Proof:"))
            if in_proof:
                proofs += PROOF.findall(line)
    return found


def broken_promises(page_path: str, page: str, tests: Tree) -> Iterator[Finding]:
    """Every promise has a number of its own and names tests that exist."""
    seen: set[int] = set()
    for promise in promises(page):
        if promise.number in seen:
            yield Finding(
                page_path, promise.line, f"P{promise.number} is promised twice", "Renumber it"
            )
        seen.add(promise.number)
        if not promise.proofs:
            yield Finding(
                page_path,
                promise.line,
                f"P{promise.number} names no test",
                "Add a line `Proof: tests/….py::test_…`",
            )
        for proof in promise.proofs:
            if not _exists(proof, tests):
                yield Finding(
                    page_path,
                    promise.line,
                    f"P{promise.number} names {proof}, which does not exist",
                    "Name a test function that exists, as tests/….py::test_…",
                )


def stale_names(page_path: str, page: str, tree: Tree) -> Iterator[Finding]:
    """Every file and every test that a page names exists, also after files were moved."""
    for line_number, line in enumerate(page.splitlines(), start=1):
        for named in NAMED_FILE.finditer(line):
            path, test = named["file"], named["test"]
            is_there = any(f"/{known}".endswith(f"/{path}") for known in tree)
            if not is_there or (test and not _exists(path + test, tree)):
                yield Finding(
                    page_path,
                    line_number,
                    f"it names {path}{test}, which does not exist",
                    "Name the file where it is now",
                )


def folded_lines(page_path: str, page: str) -> Iterator[Finding]:
    """No list and no heading of a page was folded into a paragraph."""
    in_block = False
    for line_number, line in enumerate(page.splitlines(), start=1):
        if FENCE.match(line):
            in_block = not in_block
        elif not in_block and FOLDED.match(line):
            yield Finding(
                page_path,
                line_number,
                "there are two spaces in the middle of a line",
                "Begin the list or the paragraph on a line of its own",
            )


def without_a_question(pages: Tree) -> Iterator[Finding]:
    """Every page asks, in its first paragraph, the question that it answers."""
    for path, page in sorted(pages.items()):
        paragraphs = [part for part in page.split("\n\n") if not part.startswith(("#", "<!--"))]
        if not paragraphs or "?" not in paragraphs[0]:
            yield Finding(path, 1, "its first paragraph asks nothing", "Begin with its question")


def unkept_citations(page: str, source: Tree) -> Iterator[Finding]:
    """Every promise number that code cites is on the page."""
    promised = {promise.number for promise in promises(page)}
    for path, text in sorted(source.items()):
        for line_number, line in enumerate(text.splitlines(), start=1):
            for number in PROMISE_NUMBER.findall(line):
                if int(number) not in promised:
                    yield Finding(
                        path,
                        line_number,
                        f"it cites P{number}, which is not a promise",
                        "Cite a number of docs/promises.md, or add the promise there",
                    )


def uncited_promises(page_path: str, page: str, source: Tree) -> Iterator[Finding]:
    """Every promise is cited by the code that keeps it, so that one grep finds both."""
    cited = {int(number) for text in source.values() for number in PROMISE_NUMBER.findall(text)}
    for promise in promises(page):
        if promise.number not in cited:
            yield Finding(
                page_path,
                promise.line,
                f"no code cites P{promise.number}",
                "Name it at the top of the module that keeps it",
            )


def _exists(proof: str, tests: Tree) -> bool:
    path, *names = proof.split("::")
    if path not in tests or not names:
        return False
    scope: Iterable[ast.stmt] = parse(tests[path]).body
    for name in names:
        found = next(
            (
                node
                for node in scope
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and node.name == name
            ),
            None,
        )
        if found is None:
            return False
        scope = found.body
    return names[-1].startswith("test_")
