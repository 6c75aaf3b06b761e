"""Does every version load as it was saved, at a bounded cost, whatever was removed around it?"""

from __future__ import annotations

import copy
import random
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import LedgerCorrupt, NotPlainData
from nottwice.model import values
from nottwice.model.run import CheckpointRecord
from nottwice.model.saving import checkpoint
from nottwice.model.saving.checkpoint import (
    DELTA_COST,
    MOST_UNPACKED,
    Saved,
    pack,
    path_of,
    restore,
    resume,
    save,
    saved_as,
    without,
)
from nottwice.model.saving.delta import diff
from tests.model.saving.test_delta import histories, text_of

NOW = 1_700_000_000.0


class Shelf:
    """A run's checkpoints, kept as a store keeps them."""

    def __init__(self) -> None:
        self.records: dict[int, CheckpointRecord] = {}
        self.saved: Saved | None = None
        self.image: Any = None
        self.packs = True
        self.written = 0
        """How many characters, with those that were overwritten later."""

    def save(self, image: Any, *, changed: Any = None) -> CheckpointRecord:
        record, self.saved = save(
            self.saved,
            workflow_id="run",
            node_id="work",
            old=self.image,
            new=image,
            changed=changed,
            now=NOW,
        )
        packed = pack(self.saved) if self.packs else None
        written = () if packed is None else packed[0]
        if packed is not None:
            self.saved = packed[1]
        for one in (record, *written):
            self.records[one.version] = one
            self.written += len(one.json)
        self.image = image
        return record

    def chain(self, version: int) -> list[CheckpointRecord]:
        """What a store would hand out."""
        wanted = self.records[version]
        first, last = sorted((version, wanted.snapshot))
        if wanted.is_turned:
            first = self.records[last].snapshot
        return [
            one
            for at, one in sorted(self.records.items())
            if first <= at <= last and (at >= version or not one.is_turned)
        ]

    def segment(self, version: int) -> list[CheckpointRecord]:
        """A snapshot and everything that rests on it, as far as it is there."""
        found: list[CheckpointRecord] = []
        for _, one in sorted(self.records.items()):
            if one.is_snapshot and any(each.version == version for each in found):
                break
            found = [one] if one.is_snapshot else [*found, one]
        return found

    def remove_everywhere(self, versions: Collection[int]) -> None:
        """Remove versions, whichever chains they belong to."""
        for snapshot in self.snapshots:
            here = {one.version for one in self.segment(snapshot)} & set(versions)
            if here:
                self.remove(here)

    def remove(self, versions: Collection[int]) -> None:
        """Remove versions of one chain."""
        for record in without(self.segment(min(versions)), versions):
            assert record.version not in versions
            self.records[record.version] = record
        for version in versions:
            del self.records[version]

    @property
    def turned(self) -> list[int]:
        return [version for version, one in sorted(self.records.items()) if one.is_turned]

    @property
    def snapshots(self) -> list[int]:
        return [version for version, one in sorted(self.records.items()) if one.is_snapshot]

    @property
    def size(self) -> int:
        return sum(len(record.json) for record in self.records.values())

    def assert_holds(self, images: dict[int, str]) -> None:
        assert self.records.keys() == images.keys()
        for version, text in images.items():
            assert text_of(restore(self.chain(version))) == text


def message(number: int, *, length: int = 460) -> dict[str, Any]:
    return {"role": "tool", "number": number, "text": "x" * length}


def growing(steps: int, *, length: int = 460) -> Iterator[Any]:
    """The images of a run whose list of messages grows by 500 characters a step."""
    messages: list[Any] = []
    for number in range(steps):
        yield {"state": {"messages": messages}, "position": {"node": "work", "visit": number}}
        messages = [*messages, message(number, length=length)]


def overwriting(steps: int, *, length: int = 4_000) -> Iterator[Any]:
    """The images of a run that changes a little of a large state, each time elsewhere."""
    state: dict[str, Any] = {f"part {number}": "x" * (length // 10) for number in range(10)}
    for number in range(steps):
        yield {"state": state, "position": {"visit": number}}
        state = {**state, f"part {number % 10}": f"{number:>{length // 10}}"}


def a_chain_of_sixty() -> tuple[Shelf, dict[int, str]]:
    """Sixty versions with several snapshots among them, and what each of them holds."""
    shelf = Shelf()
    images = [*overwriting(10, length=3_000), *growing(40, length=3_000), *overwriting(10)]
    for image in images:
        shelf.save(image)
    assert len(shelf.snapshots) > 5
    assert len(shelf.snapshots) < 30
    assert len(shelf.turned) > 10
    return shelf, {version: text_of(image) for version, image in enumerate(images)}


# Saving and loading


@given(histories())
def test_every_version_loads_as_it_was_saved(history: list[Any]) -> None:
    shelf = Shelf()
    for image in history:
        shelf.save(image)
    shelf.assert_holds({version: text_of(image) for version, image in enumerate(history)})


def test_the_first_version_is_zero_and_whole() -> None:
    record = Shelf().save({"state": {}})
    assert (record.version, record.is_snapshot, record.json) == (0, True, '{"state":{}}')
    assert (record.node_id, record.created_at, record.workflow_id) == ("work", NOW, "run")


def test_a_version_says_what_changed_and_since_when() -> None:
    shelf = Shelf()
    *_, before, after = growing(9)
    shelf.save(before)
    record = shelf.save(after)
    since, size, delta = values.decode(record.json)
    assert since == 0
    assert size == len(values.encode(after))
    # The position is so short that it is put whole.
    assert delta == {
        "keys": {"state": {"keys": {"messages": {"parts": [[0, 7], {"new": [message(7)]}]}}}},
        "put": {"position": {"node": "work", "visit": 8}},
    }


def test_a_change_that_is_known_is_not_looked_for() -> None:
    shelf = Shelf()
    shelf.save({"state": {"a": 1, "rest": "x" * 900}})
    known = {"keys": {"state": {"put": {"a": 2}}}}
    # The new value would say otherwise: it was not looked at.
    record = shelf.save({"state": {"a": 3}}, changed=known)
    assert values.decode(record.json)[2] == known


def test_a_value_that_is_another_altogether_is_kept_whole() -> None:
    shelf = Shelf()
    shelf.save({"a": "x" * 2_000})
    assert shelf.save(["b"] * 300).is_snapshot


def test_what_is_known_after_a_load_is_what_was_known_before() -> None:
    shelf = Shelf()
    for image in [*overwriting(25), *growing(25)]:
        record = shelf.save(image)
        image_again, saved = resume(shelf.chain(record.version))
        assert image_again == image
        assert saved == saved_as(shelf.chain(record.version)) == shelf.saved


def test_a_state_too_deep_for_a_delta_is_kept_whole_and_loads() -> None:
    def nested(depth: int, inner: Any) -> Any:
        for _ in range(depth):
            inner = {"a": inner, "ballast": "x" * 50}
        return inner

    shelf = Shelf()
    images = [nested(values.MAX_DEPTH - 1, [number]) for number in range(4)]
    for image in images:
        assert shelf.save(image).is_snapshot
    shelf.assert_holds({version: text_of(image) for version, image in enumerate(images)})


def test_what_is_not_plain_is_refused_with_its_path_in_the_state() -> None:
    shelf = Shelf()
    image = next(overwriting(1))
    shelf.save(image)
    with pytest.raises(NotPlainData) as caught:
        shelf.save({**image, "state": {**image["state"], "part 3": object()}})
    assert caught.value.path == '$.state["part 3"]'


# Cost


@pytest.mark.parametrize("images", [growing, overwriting])
def test_storage_grows_with_the_steps_and_not_with_their_square(images: Any) -> None:
    """What is kept, and what was ever written, which is what the disk has to stand."""
    shelf = Shelf()
    kept, written = {}, {}
    for step, image in enumerate(images(1_600), start=1):
        shelf.save(image)
        kept[step], written[step] = shelf.size / step, shelf.written / step
    assert kept[1_600] < 1.25 * kept[200]
    assert written[1_600] < 1.5 * written[200]


def test_a_state_that_only_grows_is_kept_once() -> None:
    shelf = Shelf()
    for image in growing(2_000):
        shelf.save(image)
    assert shelf.size < 1.3 * len(values.encode(shelf.image))


@pytest.mark.parametrize("images", [growing, overwriting])
def test_the_chain_of_a_version_is_at_most_twice_as_large_as_the_version(images: Any) -> None:
    shelf = Shelf()
    for version, image in enumerate(images(300)):
        shelf.save(image)
        chain = shelf.chain(version)
        cost = sum(len(one.json) for one in chain) + DELTA_COST * (len(chain) - 1)
        assert cost <= 2 * len(values.encode(image)) + 100


@pytest.mark.parametrize("images", [growing, overwriting])
def test_what_was_packed_later_still_loads_in_time_with_its_size(images: Any) -> None:
    shelf = Shelf()
    sizes = []
    for image in images(400):
        shelf.save(image)
        sizes.append(len(values.encode(image)))
    for version, size in enumerate(sizes):
        chain = shelf.chain(version)
        cost = sum(len(one.json) for one in chain) + DELTA_COST * (len(chain) - 1)
        assert cost <= 4 * size + 4 * MOST_UNPACKED


def test_a_state_that_shrank_is_not_loaded_through_what_it_was() -> None:
    shelf = Shelf()
    for image in growing(50):
        shelf.save(image)
    assert shelf.save({**shelf.image, "state": {"messages": []}}).is_snapshot


def test_what_a_step_costs_is_its_change_and_not_the_state() -> None:
    """Counted in characters that are written, which is what time and disk are spent on."""
    shelf = Shelf()
    for image in growing(3_000):
        last = shelf.save(image)
        assert len(last.json) < 700
    # What is packed is written twice, and a few words more.
    assert shelf.written < 2.6 * len(values.encode(shelf.image))


def test_the_newest_version_is_rebuilt_from_few_texts() -> None:
    shelf = Shelf()
    for image in growing(3_000):
        newest = shelf.save(image).version
        chain = shelf.chain(newest)
        unpacked = [one for one in chain if len(one.json) < 1_000]
        assert sum(len(one.json) + DELTA_COST for one in unpacked) < MOST_UNPACKED + 2_000
    assert len(chain) < 3_000 / 30


def test_where_packing_would_take_more_room_it_is_left() -> None:
    shelf = Shelf()
    images = []
    messages = [message(number) for number in range(1_000)]
    for _ in range(230):
        # Little is said about what goes, and much would have to be said to bring it back.
        images.append({"state": {"messages": list(messages)}})
        shelf.save(images[-1])
        messages.pop()
    assert sum(len(one.json) + DELTA_COST for one in shelf.chain(229)[1:]) > MOST_UNPACKED
    assert shelf.turned == []
    shelf.assert_holds({version: text_of(image) for version, image in enumerate(images)})


def test_a_small_version_does_not_come_to_rest_on_a_large_one() -> None:
    shelf = Shelf()
    for image in growing(30):
        shelf.save(image)
    grown = {**shelf.image, "more": "x" * 1_000_000}
    shelf.save(grown)
    for version in range(30):
        assert sum(len(one.json) for one in shelf.chain(version)) < 40_000


def test_packing_leaves_the_keys_of_objects_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpoint, "MOST_UNPACKED", 1_500)
    chance = random.Random(3)
    packed, plain = Shelf(), Shelf()
    plain.packs = False
    part: dict[str, Any] = {f"key {number}": number for number in range(12)}
    log: list[str] = []
    for number in range(400):
        part = dict(part)
        key = f"key {chance.randrange(12)}"
        if chance.random() < 0.2:
            part.pop(key, None)
        else:
            part[key] = number
        log = [*log, "x" * 500]
        for shelf in (packed, plain):
            shelf.save({"state": {"part": part, "log": log}})
    assert len(packed.turned) > 100
    for version in plain.records:
        there, here = restore(plain.chain(version)), restore(packed.chain(version))
        assert values.encode(here) == values.encode(there)


def test_versions_that_are_not_packed_are_not_kept_in_memory_forever() -> None:
    shelf = Shelf()
    shelf.packs = False
    for image in growing(1_000):
        shelf.save(image)
        assert shelf.saved is not None
        assert len(shelf.saved.stretch) < 250


def test_a_run_that_is_resumed_at_every_step_keeps_every_version() -> None:
    shelf = Shelf()
    images = list(growing(300))
    for at, image in enumerate(images):
        shelf.save(image)
        if at % 7 == 0 or at > 200:
            shelf.image, shelf.saved = resume(shelf.chain(max(shelf.records)))
    shelf.assert_holds({version: text_of(image) for version, image in enumerate(images)})


# Reading what is not sound


def broken(chain: list[CheckpointRecord], place: int, **changes: Any) -> list[CheckpointRecord]:
    return [*chain[:place], replace(chain[place], **changes), *chain[place + 1 :]]


def sound() -> list[CheckpointRecord]:
    shelf = Shelf()
    for image in growing(12):
        record = shelf.save(image)
    chain = shelf.chain(record.version)
    assert len(chain) > 5
    return chain


def sound_and_turned() -> list[CheckpointRecord]:
    """The same of a version that rests on later ones, behind two that are not turned."""
    shelf = Shelf()
    for image in growing(100, length=3_000):
        shelf.save(image)
    chain = shelf.chain(shelf.turned[20])
    kinds = [one.is_turned for one in chain]
    assert kinds.count(False) >= 3
    assert kinds.count(True) > 5
    return chain


def test_a_chain_with_a_gap_is_not_loaded() -> None:
    for chain in (sound(), sound_and_turned()):
        restore(chain)
        wanted = path_of(chain)[-1]
        for gap in chain:
            if gap is not wanted:
                with pytest.raises(LedgerCorrupt, match="is missing"):
                    restore([one for one in chain if one is not gap])


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "7", "null", '[3,9,{"put":7}]', '[3,9,{"unheard":1}]', '[3,{"put":{}}]',
     '[3,9,{"set":1},1]', '[true,9,{"put":{}}]', '[3,9,{"parts":[[0,1]]}]', '[3,9]', '[3,9,{}],7',
     '[3,9,{"keys":{"state":{"gone":7}}}]', '[3,9,{"keys":{"nobody":{"put":{"a":1}}}}]',
     '[3,null,{"put":{}}]'],
)  # fmt: skip
def test_text_that_is_no_delta_is_not_believed(text: str) -> None:
    chain = sound()
    at = next(place for place, one in enumerate(chain) if one.json.startswith("[3,"))
    with pytest.raises(LedgerCorrupt, match=f"Version {chain[at].version} of run 'run'"):
        restore(broken(chain, at, json=text))
    chain = sound_and_turned()
    at = next(place for place, one in enumerate(chain) if one.is_turned)
    text = text.replace("[3,", f"[{chain[at].version + 1},", 1)
    with pytest.raises(LedgerCorrupt, match=f"Version {chain[at].version} of run 'run'"):
        restore(broken(chain, at, json=text))


@pytest.mark.parametrize("value", ["NaN", "-Infinity", '"\\ud800"', "9" * 3_000])
def test_what_is_not_plain_does_not_come_in_through_a_delta(value: str) -> None:
    chain = sound()
    size = values.decode(chain[-1].json)[1]
    text = f'[{chain[-2].version},{size},{{"put":{{"odd":{value}}}}}]'
    with pytest.raises(LedgerCorrupt, match="not plain data"):
        restore(broken(chain, len(chain) - 1, json=text))


def test_a_snapshot_that_cannot_be_read_is_not_believed() -> None:
    chain = sound()
    with pytest.raises(LedgerCorrupt, match=f"Version {chain[0].version} of run"):
        restore(broken(chain, 0, json="{"))
    with pytest.raises(LedgerCorrupt, match="no checkpoints"):
        restore([])


def test_versions_of_another_chain_or_run_do_not_fit() -> None:
    for chain in (sound(), sound_and_turned()):
        other_chain = {"snapshot": chain[3].snapshot + 1}
        for changes in (other_chain, {"workflow_id": "other"}):
            with pytest.raises(LedgerCorrupt, match=r"is not based on version|is missing"):
                restore(broken(chain, 3, **changes))
        with pytest.raises(LedgerCorrupt):
            restore([*chain[:3], chain[4], chain[3], *chain[5:]])


# Removing


def test_any_single_version_can_be_removed_and_all_others_load_as_before() -> None:
    for version in range(60):
        shelf, images = a_chain_of_sixty()
        shelf.remove({version})
        del images[version]
        shelf.assert_holds(images)


@pytest.mark.parametrize("order", ["from the first", "from the last", "at random"])
def test_versions_can_be_removed_one_after_the_other_until_one_is_left(order: str) -> None:
    shelf, images = a_chain_of_sixty()
    versions = list(range(59)) if order != "from the last" else list(range(59, 0, -1))
    if order == "at random":
        random.Random(7).shuffle(versions)
    before = shelf.size
    for version in versions:
        shelf.remove({version})
        del images[version]
        shelf.assert_holds(images)
        # Whole versions may take the place of deltas, but never more of them than there were; and
        # what is unpacked takes a few words more.
        assert shelf.size <= 1.01 * before
        before = max(before, shelf.size)


@given(st.sets(st.integers(0, 59)))
def test_any_versions_can_be_removed_at_once(drop: set[int]) -> None:
    shelf, images = a_chain_of_sixty()
    shelf.remove_everywhere(drop)
    shelf.assert_holds({version: text for version, text in images.items() if version not in drop})


@given(histories(), st.data())
def test_any_history_survives_the_removal_of_any_version(history: list[Any], data: Any) -> None:
    shelf = Shelf()
    # Ballast, so that small values are written as deltas too.
    images = [{"ballast": "x" * 3_000, "value": value} for value in history]
    for image in images:
        shelf.save(image)
    drop = data.draw(st.sets(st.sampled_from(range(len(images)))))
    shelf.remove_everywhere(drop)
    texts = {version: text_of(image) for version, image in enumerate(images)}
    shelf.assert_holds({version: text for version, text in texts.items() if version not in drop})


def test_the_removal_of_a_delta_rewrites_the_next_version_only() -> None:
    chain = sound()
    rewritten = without(chain, {chain[4].version})
    assert [one.version for one in rewritten] == [chain[5].version]


def test_the_removal_of_nothing_changes_nothing() -> None:
    assert without(sound(), {999}) == ()


def test_a_run_continues_after_versions_were_removed() -> None:
    shelf = Shelf()
    images = list(overwriting(40, length=8_000))
    for image in images[:30]:
        shelf.save(image)
    between = {one.version for one in shelf.segment(29)[1:-1]}
    assert between
    shelf.remove(between)
    shelf.image, shelf.saved = resume(shelf.chain(29))
    for image in images[30:]:
        shelf.save(image)
    for version in range(29, 40):
        assert restore(shelf.chain(version)) == images[version]


def test_what_does_not_fit_together_is_not_removed_from() -> None:
    chain = sound()
    with pytest.raises(LedgerCorrupt, match="is missing"):
        without([*chain[:4], *chain[5:]], {chain[5].version})
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        without(broken(chain, 4, json="{"), {chain[4].version})


def test_versions_that_become_too_deep_together_leave_a_snapshot() -> None:
    inner: Any = ["ballast" * 30]
    for _ in range(58):
        inner = {"a": inner, "ballast": "x" * 60}
    shelf = Shelf()
    images = [inner]
    for number in range(4):
        after = copy.deepcopy(images[-1])
        place = after
        for _ in range(57):
            place = place["a"]
        place[f"new {number}"] = number
        images.append(after)
    for image in images:
        shelf.save(image)
    shelf.remove({2})
    for version in (0, 1, 3, 4):
        assert restore(shelf.chain(version)) == images[version]


def test_histories_are_pairs_of_states_that_differ() -> None:
    """The sample runs are what the tests above take them for."""
    for images in (growing(5), overwriting(5)):
        assert all(diff(old, new) for old, new in pairwise(images))
