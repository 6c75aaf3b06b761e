"""Is a run never resumed from a version without a state or a position?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from nottwice.errors import LedgerCorrupt
from nottwice.model.run import CheckpointRecord
from nottwice.model.saving.image import load_image, resume_image

IMAGE = {"state": {"x": 1}, "position": {"node": "a", "visits": {"a": 1}}}


def chain(image: Any) -> list[CheckpointRecord]:
    return [CheckpointRecord("r", 0, 0, "/", json.dumps(image), 0.0)]


def test_what_was_saved_is_loaded() -> None:
    assert load_image(chain(IMAGE)) == IMAGE
    image, saved = resume_image(chain(IMAGE))
    assert (image, saved.version) == (IMAGE, 0)


@pytest.mark.parametrize(
    "image",
    [
        None,
        7,
        [],
        {},
        {**IMAGE, "state": 7},
        {**IMAGE, "state": []},
        {"state": {}},
        {**IMAGE, "position": []},
        {**IMAGE, "position": {"node": "a"}},
        {**IMAGE, "position": {"node": 7, "visits": {}}},
        {**IMAGE, "position": {"node": "a", "visits": []}},
        {**IMAGE, "position": {"node": "a", "visits": {"a": "x"}}},
        {**IMAGE, "position": {"node": "a", "visits": {}, "branches": 7}},
        {**IMAGE, "position": {"node": "a", "visits": {}, "branches": [{"node": "b"}]}},
        {**IMAGE, "position": {"node": "a", "visits": {}, "branches": [{"node": 1, "update": {}}]}},
        {
            **IMAGE,
            "position": {"node": "a", "visits": {}, "branches": [{"node": "b", "update": 1}]},
        },
    ],
)
def test_what_nottwice_cannot_have_saved_is_not_believed(image: Any) -> None:
    for load in (load_image, resume_image):
        with pytest.raises(LedgerCorrupt):
            load(chain(image))
