"""What does a Python process do that has imported nottwice already and waits for a program?

For every request it forks a child that becomes `python -c CODE`, `python -m MODULE` or `python
FILE`: with the words, folder, environment and files of its request, a `__main__` of its own, and
the end that every interpreter has, except that it does not free what it found imported (forks.py).
What a child cannot have is a start of its own: the options of the interpreter, a hash seed, the
order of imports. A test of those starts a process.
"""

from __future__ import annotations

import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import signal
import sys
import time
import types
from pathlib import Path
from typing import Any

# This file is started by its path; the interpreter was told not to look for modules beside it.
sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.nursery import forks

del sys.path[0]
# These declare tools of their own, and a program has none before it declares some.
DECLARING = ("nottwice.cli.demo", "nottwice.cli.render.comparison", "nottwice.testing.compare")
# These need a framework that this environment does not have.
ADAPTERS = (
    "nottwice.langchain",
    "nottwice.mcp.extension",
    "nottwice.mcp.middleware",
    "nottwice.mcp.sdk",
    "nottwice.temporal.",
    "nottwice.dbos.",
    "nottwice.celery.",
    "nottwice.restate.",
)


def import_all() -> None:
    """Import every module of nottwice, and what they import."""
    package = importlib.import_module("nottwice")
    for found in pkgutil.walk_packages(package.__path__, "nottwice."):
        if not found.name.startswith(DECLARING + ADAPTERS) and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    assert importlib.import_module("nottwice.guard.registry").declared_tools() == []
    # The terminal of a command imports these when it first draws.
    for name in ("rich.console", "rich.table", "rich.markup", "asyncio", "psycopg"):
        importlib.import_module(name)


def become(request: forks.Request, hidden: list[str]) -> tuple[list[str], list[str]]:
    """Take over the place that the request describes. Returns what to run, and its words."""
    order: dict[str, Any] = json.loads(request.line)
    for name in hidden:
        del sys.modules[name]
    for number, descriptor in enumerate(request.descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    request.connection.close()
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _open_streams()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.orig_argv[1:] = order["words"]
    return order["words"][: order["options"]], order["words"][order["options"] :]


def _open_streams() -> None:
    """Open the standard streams as an interpreter in UTF-8 mode does."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    for name, number, errors in (
        ("stdin", 0, "surrogateescape"),
        ("stdout", 1, "surrogateescape"),
        ("stderr", 2, "backslashreplace"),
    ):
        raw = io.FileIO(number, "rb" if number == 0 else "wb", closefd=False)
        stream = io.TextIOWrapper(
            _buffered(raw, unbuffered),
            encoding="utf-8",
            errors=errors,
            line_buffering=not unbuffered and (number == 2 or raw.isatty()),
            write_through=unbuffered,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _buffered(raw: io.FileIO, unbuffered: bool) -> Any:
    if raw.readable():
        return io.BufferedReader(raw)
    return raw if unbuffered else io.BufferedWriter(raw)


def look_for_modules(first: str) -> None:
    """Let the program find modules where an interpreter of its own would."""
    named = os.environ.get("PYTHONPATH", "")
    sys.path[:0] = [first, *(os.path.abspath(one) for one in named.split(os.pathsep) if one)]
    importlib.invalidate_caches()


def run(how: list[str], words: list[str]) -> None:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    match how:
        case ["-m", module]:
            look_for_modules(os.getcwd())
            sys.argv = ["-m", *words]
            # What the interpreter itself calls for -m.
            runpy._run_module_as_main(module)  # type: ignore[attr-defined]
        case ["-c", code]:
            look_for_modules("")
            sys.argv = ["-c", *words]
            exec(compile(code, "<string>", "exec"), main.__dict__)
        case [file]:
            look_for_modules(os.path.dirname(os.path.realpath(file)))
            sys.argv = [file, *words]
            main.__file__ = os.path.abspath(file)
            with io.open_code(main.__file__) as source:
                code_of_file = compile(source.read(), main.__file__, "exec")
            exec(code_of_file, main.__dict__)


if __name__ == "__main__":
    listening = forks.listen(sys.argv[1])
    import_all()
    # What this process has imported to serve is not what a program finds imported. The names are
    # found here: a child that looked through all of them would copy the memory that they are in.
    serving = [name for name in sys.modules if name.split(".")[0] == "tests"]
    gc.collect()
    gc.freeze()
    os.write(1, b"ready\n")
    if (asked := forks.serve(listening)) is not None:
        run(*become(asked, serving))
