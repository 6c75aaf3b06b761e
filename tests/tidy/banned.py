"""Which constructs are banned, because each of them once led to a duplicate effect?"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.tidy.source import PACKAGE, Finding, Tree, modules, room_of

CODE_CARRYING_FORMATS = {"pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
CODE_RUNNERS = {"eval", "exec", "compile", "__import__"}

CLOCK_READS = {
    *(
        f"time.{name}{unit}"
        for name in ("time", "monotonic", "perf_counter")
        for unit in ("", "_ns")
    ),
    "time.sleep",
    "asyncio.sleep",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
}
# The seam for chance; a worker that takes any of several ready runs; and tests that draw samples.
MAY_ROLL_DICE = (
    PACKAGE + "engine/clock.py",
    PACKAGE + "worker/choice.py",
    PACKAGE + "testing/",
    PACKAGE + "cli/",
)
# The one seam for time; and two places that deal with real child processes, where time is part of
# what happens and no decision of the engine hangs on it: the testing room and the demo.
MAY_READ_THE_CLOCK = (
    PACKAGE + "engine/clock.py",
    PACKAGE + "testing/",
    PACKAGE + "cli/demo/",
)

ROOMS_THAT_PRINT = ("cli", "testing", "__main__")

SQL_START = re.compile(
    r"\s*(?:(?:SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|PRAGMA|BEGIN|WITH)\b"
    # In lower case these words are English too; a second word decides.
    r"|(?i:select\s.*\sfrom\s|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s"
    r"|create\s+(?:table|index)\s|pragma\s+\w+))",
    re.DOTALL,
)

# Where a whole statement is spelled in the dialect of a database, or in the schema of a ledger. No
# parameter can be a type or the name of a schema.
MAY_SPELL_SQL = (
    PACKAGE + "store/statements.py",
    PACKAGE + "store/postgres/schema.py",
    PACKAGE + "langchain/rows.py",
    PACKAGE + "testing/crash/inside/scratch.py",
)
# Child processes of our own, which set up their interpreter.
MAY_CHANGE_SYS = (PACKAGE + "testing/", PACKAGE + "cli/demo/")

UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
# Python 3.12.0 to 3.12.3 takes ?1 for a name and warns if a sequence is passed.
NUMBERED_PARAMETER = re.compile(r"(?<=[=\s(,<>])\?\d")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:root|work|home/[a-z]\w*|Users/[A-Za-z]\w*)/")


def formats_that_carry_code(tree: Tree) -> Iterator[Finding]:
    """Bytes at rest never name code, so nothing in the package even mentions such a format."""
    fix = "Store plain data: canonical JSON, decoded by a declared type"
    for path, module in modules(tree):
        for node in ast.walk(module):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            for name in names:
                if name.split(".")[0] in CODE_CARRYING_FORMATS:
                    yield Finding(path, node.lineno, f"it imports {name}", fix)
        yield from _lines(path, tree[path], re.compile("pickl", re.IGNORECASE), fix)


def code_run_from_text(tree: Tree) -> Iterator[Finding]:
    """Text never becomes code."""
    for path, module in modules(tree):
        for node in ast.walk(module):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in CODE_RUNNERS
            ):
                yield Finding(
                    path,
                    node.lineno,
                    f"{node.func.id}() turns text into code",
                    "Use a table of the functions that are meant",
                )


def sql_built_from_values(tree: Tree) -> Iterator[Finding]:
    """SQL is a constant; values travel as parameters."""
    for path, module in modules(tree):
        for node in ast.walk(module):
            if isinstance(node, ast.JoinedStr):
                formatted = any(isinstance(part, ast.FormattedValue) for part in node.values)
                how = "an f-string" if formatted and any(map(_is_sql, node.values)) else ""
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
                how = "% formatting" if _is_sql(node.left) else ""
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                how = "concatenation" if _is_sql(node.left) and _varies(node) else ""
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                how = _method_that_builds_sql(node, node.func, spells=path in MAY_SPELL_SQL)
            else:
                continue
            if how:
                yield Finding(
                    path,
                    node.lineno,
                    f"SQL is put together by {how}",
                    "Write the statement as a constant and pass values as parameters",
                )


def _method_that_builds_sql(call: ast.Call, method: ast.Attribute, *, spells: bool) -> str:
    """The method of a string that puts SQL together; nothing if it does not."""
    if method.attr == "join":
        literals = (node for part in call.args for node in ast.walk(part))
        return "str.join" if any(map(_is_sql, literals)) else ""
    if method.attr == "replace":
        named = ast.unparse(method.value).lower().endswith(("sql", "statement", "query"))
        return "str.replace" if _is_sql(method.value) or (named and not spells) else ""
    formats = method.attr in ("format", "format_map")
    return "str.format" if formats and _is_sql(method.value) else ""


def bare_excepts(tree: Tree) -> Iterator[Finding]:
    """A handler says what it handles; KeyboardInterrupt is rarely it."""
    for path, module in modules(tree):
        for node in ast.walk(module):
            if isinstance(node, ast.ExceptHandler) and node.type is None:
                yield Finding(
                    path, node.lineno, "a bare except", "Name the exceptions that are expected"
                )


def patches(tree: Tree) -> Iterator[Finding]:
    """A module changes no other one, ours or not; what must be replaced has a seam."""
    for path, module in modules(tree):
        imported = _imported_names(module)
        for node in ast.walk(module):
            for target in _changed_by(node):
                changed = _dotted_name(target, imported)
                if changed is None:
                    continue
                if not (changed.startswith("sys.") and path.startswith(MAY_CHANGE_SYS)):
                    text = f"{ast.unparse(target)} of another module is changed"
                    yield Finding(
                        path, target.lineno, text, "Give it a seam, such as engine/host.py"
                    )


def _changed_by(node: ast.AST) -> list[ast.expr]:
    """The attributes that an assignment changes, and what a setattr changes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
        return node.args[:1]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    elif isinstance(node, ast.Delete):
        targets = node.targets
    several = ast.Tuple | ast.List
    each = [one for t in targets for one in (t.elts if isinstance(t, several) else [t])]
    return [one for one in each if isinstance(one, ast.Attribute)]


def clock_reads(tree: Tree) -> Iterator[Finding]:
    """Time has one seam, so that tests can own it. A mere mention counts, called or not."""
    for path, module in modules(tree):
        if path.startswith(MAY_READ_THE_CLOCK):
            continue
        imported = _imported_names(module)
        for node in ast.walk(module):
            if isinstance(node, ast.Attribute | ast.Name):
                name = _dotted_name(node, imported)
                if name in CLOCK_READS:
                    yield Finding(
                        path,
                        node.lineno,
                        f"{name} is used outside engine/clock.py",
                        "Take a clock as a parameter, or ask the driver to wait",
                    )


def dice(tree: Tree) -> Iterator[Finding]:
    """Chance has one seam, too: what is decided by it can be repeated by a test."""
    for path, module in modules(tree):
        if path.startswith(MAY_ROLL_DICE):
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [one.name for one in node.names]
                if "random" in (names if isinstance(node, ast.Import) else [node.module]):
                    yield Finding(
                        path,
                        node.lineno,
                        "decides by chance outside engine/clock.py",
                        "Ask the clock: clock.random_unit()",
                    )


def prints(tree: Tree) -> Iterator[Finding]:
    """A library is silent: it logs, raises or returns."""
    for path, module in modules(tree):
        if room_of(path) in ROOMS_THAT_PRINT:
            continue
        for node in ast.walk(module):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "print"
            ):
                yield Finding(
                    path, node.lineno, "it prints", "Log to the logger `nottwice`, or return it"
                )


def unfinished_work(tree: Tree) -> Iterator[Finding]:
    """What is shipped is finished; what is not belongs into an issue."""
    for path, text in sorted(tree.items()):
        yield from _lines(path, text, UNFINISHED, "Finish it, or leave it out")


def machine_paths(tree: Tree) -> Iterator[Finding]:
    """No other process has this folder."""
    for path, text in sorted(tree.items()):
        yield from _lines(path, text, MACHINE_PATH, "Use a relative path, or one below tmp_path")


def numbered_parameters(tree: Tree) -> Iterator[Finding]:
    """Every Python that we name executes every statement without a warning."""
    for path, text in sorted(tree.items()):
        yield from _lines(path, text, NUMBERED_PARAMETER, "Write ? or :name")


def _lines(path: str, text: str, pattern: re.Pattern[str], fix: str) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), start=1):
        if found := pattern.search(line):
            yield Finding(path, number, f"it says {found[0]!r}", fix)


def _is_sql(node: ast.AST | None) -> bool:
    """Tell whether a string literal, or what a concatenation begins with, reads like SQL."""
    while isinstance(node, ast.BinOp):
        node = node.left
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and SQL_START.match(node.value) is not None
    )


def _varies(node: ast.BinOp) -> bool:
    """Tell whether a concatenation adds more than literals and constants to its first part.

    A pragma takes no parameters, so a number has to be appended to it.
    """
    last = node.right
    named = last.attr if isinstance(last, ast.Attribute) else getattr(last, "id", "")
    pragma = isinstance(node.left, ast.Constant) and str(node.left.value).startswith("PRAGMA ")
    return not (isinstance(last, ast.Constant) or named.isupper() or pragma)


def _imported_names(module: ast.Module) -> dict[str, str]:
    """Map each local name to what it was imported from: `sleep` to `time.sleep`."""
    names = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                names[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted_name(node: ast.expr, imported: dict[str, str]) -> str | None:
    """Spell an attribute chain by what its first name was imported as; None if it was not."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in imported:
        return None
    return ".".join([imported[node.id], *reversed(parts)])
