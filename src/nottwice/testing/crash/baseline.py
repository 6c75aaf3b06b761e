"""Does the work do anything when it is not killed? If not, killing it proves nothing (P145)."""

from __future__ import annotations

from nottwice.testing.crash.course import Baseline
from nottwice.testing.crash.scenario import CrashTestRefused, Scenario

_NOTHING = "Nothing was killed, and no tool ran for real."


def check_it_works(scenario: Scenario, baseline: Baseline) -> None:
    """Refuse work that fails even without a crash, makes no effect, or has no point to kill at."""
    _check_ending(scenario, baseline)
    if not baseline.lived.names:
        raise CrashTestRefused(
            f"{scenario.name} has no point at which it could be killed: it opens no run and "
            f"records nothing. {_NOTHING} Pass the function that opens the run: "
            "lambda: handle('ticket-7')."
        )
    _check_effects(scenario, baseline)


def _check_ending(scenario: Scenario, baseline: Baseline) -> None:
    ending = baseline.lived.ending
    if ending is None:
        raise CrashTestRefused(f"Even without a crash {scenario.name} does not end. {_NOTHING}")
    if ending.error is not None and not ending.expected:
        raise CrashTestRefused(
            f"Even without a crash {scenario.name} raises {ending.error}: {ending.text}. "
            f"{_NOTHING} Make it work first. If it should end like this, declare it: "
            f"raises={ending.error} (on the command line: --raises {ending.error})."
        )
    if ending.error is None and scenario.expected:
        names = " or ".join(
            one if isinstance(one, str) else one.__name__ for one in scenario.expected
        )
        raise CrashTestRefused(
            f"{scenario.name} should raise {names}, but it {ending.shown}. {_NOTHING} Omit "
            "raises=, or give it input that makes it fail."
        )


def _check_effects(scenario: Scenario, baseline: Baseline) -> None:
    effects = baseline.upstream.effects
    if scenario.effects and not effects:
        raise CrashTestRefused(
            f"{scenario.name} has no effect: no effectful tool was called inside a run. "
            f"{_NOTHING} Give it input that leads to one. Your own threads do not inherit "
            "the run: start them with contextvars.copy_context().run, or use nt.map. If the work "
            "should change nothing, declare it: effects=False (on the command line: --no-effects)."
        )
    if effects and not scenario.effects:
        raise CrashTestRefused(
            f"{scenario.name} should have no effect, but it made {effects[0].what}. {_NOTHING} "
            "Omit effects=False."
        )
