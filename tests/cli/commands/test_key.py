"""Is a key that `nottwice key` makes one that nottwice takes?"""

from __future__ import annotations

import json

from nottwice.model.sealing.keyring import make_key, parse_keyring, spell_key
from tests.cli.workplace import Workplace


def test_what_it_prints_can_be_put_into_a_file_as_it_is(empty: Workplace) -> None:
    ended = empty.cli("key")
    ring = parse_keyring(ended.stdout, where="the output")
    assert ended.exit_code == 0
    assert ended.stdout.count("\n") == 1
    assert ring.current.id in ended.stderr
    assert spell_key(ring.current) not in ended.stderr
    assert parse_keyring(empty.cli("key").stdout, where="the output") != ring


def test_json_tells_key_and_id(empty: Workplace) -> None:
    told = json.loads(empty.cli("key", "--json").stdout)
    assert told == {"id": parse_keyring(told["key"], where="it").current.id, "key": told["key"]}
    assert make_key(parse_keyring(told["key"], where="it").current.secret).id == told["id"]
