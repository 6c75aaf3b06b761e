"""Does the saver pass LangGraph's published suite, with all optional capabilities?"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator
from pathlib import Path

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import Capability

from nottwice.langchain import NottwiceSaver
from tests.langchain.inside.places import place_for


def test_the_saver_passes_the_published_suite_with_every_capability(tmp_path: Path) -> None:
    numbers = itertools.count()

    async def made() -> AsyncGenerator[NottwiceSaver, None]:
        yield NottwiceSaver(place_for(tmp_path / str(next(numbers))))

    for number in range(len(Capability)):
        (tmp_path / str(number)).mkdir()
    report = asyncio.run(validate(checkpointer_test(name="NottwiceSaver")(made)))
    failures = [one for result in report.results.values() for one in result.failures]
    assert failures == []
    assert report.conformance_level() == "FULL"
    passed = {name for name, result in report.results.items() if result.passed}
    assert passed == {capability.value for capability in Capability}
