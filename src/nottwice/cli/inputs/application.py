"""Where is the user's code, and what does its import declare?

Importing runs a module, so everything it prints goes to stderr: a script that reads our output must
not find it there. What it raises is reported, never shown as a traceback of ours. What it would
start is refused: a command that only looks must not send anything (P141).
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from nottwice.cli.inputs.settings import Settings
from nottwice.errors import NottwiceError, UsageError, WorkDuringImport
from nottwice.guard import registry
from nottwice.guard.check.importing import importing
from nottwice.model.data.records import frozen_record


@frozen_record(frozen=True, slots=True)
class Application:
    """An imported module, and the tools that importing it declared."""

    name: str
    module: ModuleType
    tools: tuple[Callable[..., Any], ...]
    named: Any
    """What the target names: the attribute after the colon, or the module itself."""


def load_application(target: str) -> Application:
    """Import a module, a module's attribute or a .py file.

    UsageError if that does not work; its ``__cause__`` is what was raised. WorkDuringImport if the
    module opens a run, or starts something else, at its top level.
    """
    path, _, attribute = target.partition(":")
    known = set(map(id, registry.declared_tools()))
    try:
        with contextlib.redirect_stdout(sys.stderr), importing():
            module = _import_file(Path(path)) if path.endswith(".py") else _import_module(path)
            named = _find(module, attribute)
    except (KeyboardInterrupt, WorkDuringImport):
        raise
    except BaseException as error:
        raise UsageError(_why(target, error), target=target) from error
    tools = tuple(
        tool
        for tool in registry.declared_tools()
        if id(tool) not in known or _belongs_to(tool, module)
    )
    return Application(target, module, tools, named)


def need_application(
    settings: Settings, *, what_for: str, needed: str = "tools", example: str = "agent"
) -> Application:
    """The application; UsageError if none is named."""
    target = settings.application()
    if target is None:
        raise UsageError(
            f"{what_for} needs your {needed}. Nothing was done. Name the module that declares "
            f'them: --app {example}, or `app = "{example}"` under [tool.nottwice] in '
            "pyproject.toml."
        )
    return load_application(target)


def _import_module(name: str) -> ModuleType:
    _put_first(Path.cwd())
    return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    """Import a file under the name that other code of its package uses."""
    file = path.resolve()
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    name, folder = file.stem, file.parent
    while (folder / "__init__.py").is_file():
        name, folder = f"{folder.name}.{name}", folder.parent
    _put_first(folder)
    if "." in name:
        return importlib.import_module(name.removesuffix(".__init__"))
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    if known is not None or name in sys.stdlib_module_names:
        # A file may have the name of a module that others need; it must not take its place.
        name = f"{name}_file"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _put_first(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _find(module: ModuleType, attribute: str) -> Any:
    found: Any = module
    for name in filter(None, attribute.split(".")):
        if not hasattr(found, name):
            close = difflib.get_close_matches(name, dir(found), cutoff=0.5)
            remedy = f"Did you mean {' or '.join(close)}?" if close else "Name what it defines."
            raise UsageError(
                f"{module.__name__}:{attribute} does not exist: {module.__name__!r} has no "
                f"attribute {name!r}. Nothing was done. {remedy}"
            )
        found = getattr(found, name)
    return found


def _why(target: str, error: BaseException) -> str:
    if isinstance(error, NottwiceError):
        return str(error)
    if isinstance(error, SystemExit):
        what = "it ended the process"
        remedy = "Put what starts your program behind: if __name__ == '__main__':"
    else:
        what = f"{type(error).__name__}: {error}"
        remedy = "Run it with Python to see where it fails."
    if isinstance(error, ModuleNotFoundError) and error.name == target.partition(":")[0]:
        remedy = "Modules are looked for in this folder first; a path such as agent.py works, too."
    return f"{target} could not be imported: {what}. Nothing was done. {remedy}"


def _belongs_to(tool: Callable[..., Any], module: ModuleType) -> bool:
    """Whether a tool that was declared before is what this module declares or uses."""
    return tool.__module__ == module.__name__ or any(
        value is tool for value in vars(module).values()
    )
