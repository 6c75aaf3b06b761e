"""The pytest plugin: ``kill_everywhere``, ``replay_checkpoint``, ``fake_models``, their options.

It is loaded into every suite of an environment that has nottwice, so it does nothing until a test
asks for one of them: not even nottwice itself is imported, and no hook slows a suite down. That is
why it is a package of its own. The one exception costs a look into ``sys.modules``: tools that a
test declares end with it, because a name belongs to one tool until its process ends (P140).
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nottwice.store.interface import Store
    from nottwice.testing.crash.levels import Numbers
    from nottwice.testing.crash.scenario import Raises
    from nottwice.testing.crash.verdict import Verdict
    from nottwice.testing.models.fake import FakeModels
    from nottwice.testing.replay.gate import Result

PROPERTY = "nottwice crash"
CHECKPOINTS = "nottwice_checkpoints"
REPLAY = "replay_checkpoint"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let people choose where to kill, and for how long."""
    group = parser.getgroup("nottwice", "crash tests (the fixture kill_everywhere)")
    group.addoption(
        "--kill-at",
        metavar="POINT",
        help="examine only this point, as the verdict names it: 12, or 68,12",
    )
    group.addoption(
        "--kill-level",
        action="append",
        metavar="LEVEL",
        help="boundaries, double, lines, takeover, io, power; can be given several times",
    )
    group.addoption(
        "--kill-budget",
        metavar="TIME",
        help="how long one crash test may take, as in 60s; what does not fit is sampled",
    )
    parser.addini(
        CHECKPOINTS,
        default="tests/checkpoints",
        help="the folder of recorded checkpoints, for the fixture replay_checkpoint",
    )


class KillEverywhere:
    """What the fixture is: call it with the work; it fails the test if anything is wrong."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._request = request
        self._config = request.config

    def __call__(
        self,
        work: Callable[[], Any],
        *,
        tools: Mapping[str, Any] | None = None,
        answers: Mapping[str, Any] | None = None,
        raises: Raises = (),
        effects: bool = True,
        store: Callable[[Path], Store] | None = None,
        at_most_repeated: int | None = None,
        levels: Iterable[str] | None = None,
        budget: Any = None,
        seed: int | None = None,
    ) -> Verdict:
        """Kill ``work`` everywhere and resume it; fail the test if anything differs.

        See ``nottwice.testing.crash_test`` for the arguments. The options of the command line
        override ``levels`` and ``budget``. The test is skipped if this machine can examine none of
        the levels, and fails if the work cannot be judged (P145).
        """
        __tracebackhide__ = True
        from nottwice.testing.crash.entry import (
            DEFAULT_BUDGET,
            DEFAULT_LEVELS,
            crash_test,
            parse_points,
        )
        from nottwice.testing.crash.scenario import CrashTestRefused, LevelsUnavailable

        at = self._config.getoption("--kill-at")
        try:
            with self._progress() as report:
                verdict = crash_test(
                    work,
                    tools=tools,
                    answers=answers,
                    raises=raises,
                    effects=effects,
                    store=store,
                    at_most_repeated=at_most_repeated,
                    levels=self._config.getoption("--kill-level") or levels or DEFAULT_LEVELS,
                    budget=self._config.getoption("--kill-budget") or budget or DEFAULT_BUDGET,
                    points=[parse_points(at)] if at else (),
                    seed=seed,
                    name=self._request.node.name,
                    report=report,
                    reproduce=self._reproduce,
                )
        except LevelsUnavailable as error:
            pytest.skip(str(error))
        except CrashTestRefused as error:
            # The sentence says it all; the chain would print it twice.
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        text = "\n".join(verdict.lines())
        self._request.node.user_properties.append((PROPERTY, text))
        if verdict.failures:
            pytest.fail(text, pytrace=False)
        return verdict

    def _reproduce(self, level: str, numbers: Numbers) -> str:
        node = shlex.quote(self._request.node.nodeid)
        chosen = "" if level == "boundaries" else f" --kill-level {level}"
        return f"pytest {node} --kill-at {','.join(map(str, numbers))}{chosen}"

    @contextlib.contextmanager
    def _progress(self) -> Iterator[Any]:
        """A bar, past pytest's capture, where a person watches the terminal."""
        from nottwice.testing.crash.progress import progress_bar

        capture = self._config.pluginmanager.getplugin("capturemanager")
        aside = contextlib.nullcontext()
        if capture is not None:
            aside = capture.global_and_fixture_disabled()
        with aside, progress_bar(sys.stderr, lines=False) as report:
            yield report


@pytest.fixture(autouse=True)
def _nottwice_tools_end_with_the_test() -> Iterator[None]:
    """Forget the tools that a test has declared, unless a module that it imported has them.

    Fixtures of a wider scope are made before this one, so what they declare stays.
    """
    registry = sys.modules.get("nottwice.guard.registry")
    before = {} if registry is None else registry.remember_tools()
    yield
    registry = sys.modules.get("nottwice.guard.registry")
    if registry is not None:
        declared = registry.remember_tools()
        imported = {name: tool for name, tool in declared.items() if _is_in_its_module(tool)}
        registry.forget_tools(known=imported | before)


def _is_in_its_module(tool: Any) -> bool:
    place = sys.modules.get(tool.__module__)
    return vars(place or object).get(tool.__name__) is tool


@pytest.fixture
def kill_everywhere(request: pytest.FixtureRequest) -> KillEverywhere:
    """Kill some work at every point it has, and check that nothing happens twice or is lost."""
    return KillEverywhere(request)


@pytest.fixture(scope="session")
def _nottwice_fake_models() -> Iterator[FakeModels]:
    from nottwice.testing.models.fake import FakeModels

    with FakeModels.start() as fake:
        yield fake


@pytest.fixture
def fake_models(_nottwice_fake_models: FakeModels) -> FakeModels:
    """Fake APIs of Anthropic and OpenAI that reject what the real ones reject, and count.

    One process serves the whole session; each test begins with an empty script.
    """
    _nottwice_fake_models.reset()
    return _nottwice_fake_models


class ReplayCheckpoint:
    """What the fixture is: call it with the app; it fails the test if a checkpoint does."""

    def __init__(self, path: Path | None, folder: Path) -> None:
        self.path = path
        self._folder = folder

    def __call__(
        self,
        app: Any,
        *,
        tools: Mapping[str, Any] | None = None,
        drains_elsewhere: bool = False,
        works: Sequence[Callable[..., Any]] = (),
    ) -> Result:
        """Resume the recorded checkpoint with this app; fail the test if anything differs.

        ``tools``: what pure tools return that are new, by name. ``drains_elsewhere``: runs of
        versions that the app lacks finish on a deployment of their own. ``works``: the functions
        that resume runs without a graph, given the id of one.
        """
        __tracebackhide__ = True
        from nottwice.testing.replay.gate import Terms, replay_file
        from nottwice.testing.replay.report import failure_lines

        if self.path is None:
            pytest.fail(
                f"There is no recorded checkpoint in {self._folder}. Record some: nottwice replay "
                f"--record 50 {shlex.quote(str(self._folder))}",
                pytrace=False,
            )
        terms = Terms(answers=tools or {}, drains_elsewhere=drains_elsewhere, works=tuple(works))
        result = replay_file(app, self.path, terms=terms)
        if result.skipped is not None:
            pytest.skip(result.skipped)
        if not result.passed:
            pytest.fail("\n".join(failure_lines(result)), pytrace=False)
        return result


@pytest.fixture
def replay_checkpoint(request: pytest.FixtureRequest) -> ReplayCheckpoint:
    """Resume one recorded checkpoint without calling anything; a test for each that there is."""
    found: ReplayCheckpoint = request.param
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of every recorded checkpoint; without any, one that says so."""
    if REPLAY not in metafunc.fixturenames:
        return
    from nottwice.testing.replay.fixture import fixture_paths

    folder = metafunc.config.rootpath / metafunc.config.getini(CHECKPOINTS)
    paths: list[Path | None] = [*fixture_paths(folder)]
    metafunc.parametrize(
        REPLAY,
        [ReplayCheckpoint(path, folder) for path in paths or [None]],
        ids=["none" if path is None else str(path.relative_to(folder)) for path in paths or [None]],
        indirect=True,
    )


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Show the verdict of every crash test that passed; a failed one shows its own."""
    found = [
        text
        for report in terminalreporter.getreports("passed")
        if report.when == "call"
        for name, text in report.user_properties
        if name == PROPERTY
    ]
    if found:
        terminalreporter.section("crash tests")
        for text in found:
            terminalreporter.line(text)
