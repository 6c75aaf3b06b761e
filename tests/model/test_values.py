"""Are canonical bytes those of RFC 8785, are hashes one to one, and does text at rest come back?

The oracles are the official vectors, the table in the appendix of RFC 8785, and the `rfc8785`
library. How a refusal is worded, and where it points, is in test_refusals.py.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from nottwice.errors import LedgerCorrupt, NotPlainData
from nottwice.model.values import (
    MAX_DEPTH,
    MAX_INTEGER_BITS,
    canonical,
    check_plain,
    decode,
    encode,
    hash_of,
    is_plain,
    parse,
    same_types,
)

VECTORS = Path(__file__).parent.parent / "vectors" / "jcs"
SAFE = 2**53 - 1

# Names around the places where the order of code points and of UTF-16 units part.
NAMES = st.text(max_size=4) | st.text("aé\ud7ff\ue000\uffff\U00010000\U0010ffff", max_size=3)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | FLOATS | st.text(max_size=8)


def json_values(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(NAMES, inner, max_size=5),
        max_leaves=20,
    )


ORACLE_VALUES = json_values(LEAVES | st.integers(-SAFE, SAFE))
PLAIN_VALUES = json_values(LEAVES | st.integers())


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


# RFC 8785


@pytest.mark.parametrize("name", sorted(path.stem for path in (VECTORS / "input").iterdir()))
def test_an_official_vector_is_reproduced_byte_for_byte(name: str) -> None:
    value = json.loads((VECTORS / "input" / f"{name}.json").read_text(encoding="utf-8"))
    assert canonical(value) == (VECTORS / "output" / f"{name}.json").read_bytes()
    assert canonical(value) == bytes.fromhex((VECTORS / "outhex" / f"{name}.txt").read_text())


def test_all_official_vectors_are_there() -> None:
    names = {path.stem for path in (VECTORS / "input").iterdir()}
    assert names == {"arrays", "french", "structures", "unicode", "values", "weird"}


@pytest.mark.parametrize(
    ("bits", "spelled"),
    [
        ("0000000000000000", "0"),
        ("8000000000000000", "0"),
        ("0000000000000001", "5e-324"),
        ("8000000000000001", "-5e-324"),
        ("7fefffffffffffff", "1.7976931348623157e+308"),
        ("ffefffffffffffff", "-1.7976931348623157e+308"),
        ("4340000000000000", "9007199254740992"),
        ("c340000000000000", "-9007199254740992"),
        ("4430000000000000", "295147905179352830000"),
        ("44b52d02c7e14af5", "9.999999999999997e+22"),
        ("44b52d02c7e14af6", "1e+23"),
        ("44b52d02c7e14af7", "1.0000000000000001e+23"),
        ("444b1ae4d6e2ef4e", "999999999999999700000"),
        ("444b1ae4d6e2ef4f", "999999999999999900000"),
        ("444b1ae4d6e2ef50", "1e+21"),
        ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
        ("3eb0c6f7a0b5ed8d", "0.000001"),
        ("41b3de4355555553", "333333333.3333332"),
        ("41b3de4355555554", "333333333.33333325"),
        ("41b3de4355555555", "333333333.3333333"),
        ("41b3de4355555556", "333333333.3333334"),
        ("41b3de4355555557", "333333333.33333343"),
        ("becbf647612f3696", "-0.0000033333333333333333"),
        ("43143ff3c1cb0959", "1424953923781206.2"),
    ],
)
def test_the_table_of_doubles_in_the_rfc_is_reproduced(bits: str, spelled: str) -> None:
    (double,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical(double) == spelled.encode()


def doubles() -> Iterator[float]:
    chance = random.Random(8785)
    for _ in range(100_000):
        yield struct.unpack(">d", chance.randbytes(8))[0]
    for _ in range(30_000):
        yield struct.unpack(">d", (chance.getrandbits(52)).to_bytes(8, "big"))[0]
    for _ in range(30_000):
        yield chance.uniform(-1000, 1000)
        yield round(chance.uniform(-1e6, 1e6), 2)
    for power in range(-1074, 1024):
        yield from neighbours(math.ldexp(1.0, power))
    for power in range(-323, 309):
        yield from neighbours(float(f"1e{power}"))
    for offset in range(-3000, 3000):
        yield float(2**53 + offset)
        yield float(offset)
        yield float(10**21 + offset * 2**17)


def neighbours(number: float) -> Iterator[float]:
    for each in (number, math.nextafter(number, math.inf), math.nextafter(number, 0.0)):
        yield each
        yield -each


def test_two_hundred_thousand_doubles_are_spelled_as_the_oracle_spells_them() -> None:
    sample = [double for double in doubles() if math.isfinite(double)]
    assert len(sample) > 200_000
    ours, theirs = canonical(sample).split(b","), rfc8785.dumps(sample).split(b",")
    assert len(ours) == len(theirs) == len(sample)
    wrong = [case for case in zip(sample, ours, theirs, strict=True) if case[1] != case[2]]
    assert wrong == []


def test_doubles_where_the_fast_way_ends_are_spelled_as_the_oracle_spells_them() -> None:
    # A list goes one way as a whole; alone, each double is sent the way that its size asks for.
    sample = [double for double in doubles() if 1e-6 < abs(double) < 1e18]
    assert len(sample) > 50_000
    for double in sample:
        assert canonical(double) == rfc8785.dumps(double), double.hex()


@given(ORACLE_VALUES)
@example({"\uffff": 1, "\U00010000": 2, "\ue000": 3})
@example({"\uffff": 1.0, "\U00010000": 2, "\ue000": 3})
@example(['\x00\x08\x0b\x1f\x7f\x80\u2028"\\/', {"": {}}, [[]]])
def test_canonical_bytes_are_those_of_the_oracle(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@given(ORACLE_VALUES)
def test_both_ways_of_writing_give_the_same_bytes(value: Any) -> None:
    # A whole float takes the value off the fast way; both are held against each other here.
    assert canonical([value, 1.0]) == b"[" + canonical(value) + b",1]"


@given(ORACLE_VALUES)
def test_the_hash_is_the_sha256_of_the_canonical_bytes(value: Any) -> None:
    assert hash_of(value) == hashlib.sha256(rfc8785.dumps(value)).hexdigest()


# One value, one hash


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        names = chance.sample(list(value), len(value))
        return {name: shuffled(value[name], chance) for name in names}
    return [shuffled(each, chance) for each in value] if isinstance(value, list) else value


@given(PLAIN_VALUES, st.randoms(use_true_random=False))
def test_key_order_never_changes_the_hash(value: Any, chance: random.Random) -> None:
    assert hash_of(shuffled(value, chance)) == hash_of(value)


@given(PLAIN_VALUES)
def test_white_space_in_json_never_changes_the_hash(value: Any) -> None:
    assert hash_of(json.loads(json.dumps(value, indent=2))) == hash_of(value)


@given(st.integers(-SAFE - 1, SAFE + 1))
@example(10)
@example(0)
def test_an_integer_and_the_float_that_equals_it_are_one_value(number: int) -> None:
    assert canonical({"n": number}) == canonical({"n": float(number)})


@given(FLOATS.filter(float.is_integer))
@example(float(2**60))
@example(1e22)
@example(-sys.float_info.max)
def test_a_float_beyond_2_to_the_53_equals_its_exact_integer(number: float) -> None:
    assert canonical(int(number)) == canonical(number)


def test_true_and_one_are_two_values() -> None:
    assert len({hash_of(value) for value in (True, 1, "1", "true", [1], None)}) == 6


# Integers that no double can hold


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**64 - 1, 10**22 + 1])
def test_a_64_bit_id_is_written_with_all_its_digits_and_a_tag(number: int) -> None:
    assert canonical({"id": number}) == f'{{"id":{number}n}}'.encode()


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, -(2**63), 2**64, 10**22, 10**400])
def test_a_64_bit_id_differs_from_its_neighbours_floats_and_lookalikes(number: int) -> None:
    integers = range(number - 300, number + 301)
    others: list[object] = [f"{number}n", f"{number}", [number], {"n": number}]
    assert len({hash_of(value) for value in [*integers, *others]}) == len(integers) + len(others)


def test_a_64_bit_id_never_equals_the_float_it_would_be_rounded_to() -> None:
    for number in (2**53 + 1, 2**63 - 1, -(2**63) + 1, 10**23 + 1):
        assert canonical(number) != canonical(float(number))


@given(st.integers(2**53, 2**70).map(lambda number: number | 1))
def test_no_json_can_spell_the_tag(number: int) -> None:
    tagged = canonical([number]).decode()
    with pytest.raises(json.JSONDecodeError):
        json.loads(tagged)


CLOSE_NUMBERS = st.sampled_from(
    [0, 1, 2**53, 2**53 + 1, 2**60, 2**60 + 24, 10**21, 10**22, 10**22 + 1, 2**63 - 1, 2**1025]
)
CLOSE_VALUES = st.recursive(
    CLOSE_NUMBERS
    | CLOSE_NUMBERS.filter(lambda number: number < 2**1000).map(float)
    | CLOSE_NUMBERS.map(lambda number: f"{number}n")
    | st.sampled_from([None, True, False, "", "null", -0.0, 1.5]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=3,
)


def one_value(left: Any, right: Any) -> bool:
    """Equality as SPEC T4 means it: numbers by what they are worth, everything else by type."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(one_value(left[n], right[n]) for n in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(one_value, left, right))
    numbers = [type(each) in (int, float) for each in (left, right)]
    return bool(left == right) and (all(numbers) or type(left) is type(right))


@given(CLOSE_VALUES, CLOSE_VALUES)
def test_canonical_bytes_are_equal_exactly_when_the_values_are(left: Any, right: Any) -> None:
    assert (canonical(left) == canonical(right)) == one_value(left, right)


# What is plain


@given(PLAIN_VALUES)
def test_every_json_value_is_plain(value: Any) -> None:
    check_plain(value)
    assert is_plain(value)


@pytest.mark.parametrize("take", [canonical, hash_of, check_plain, encode])
def test_every_way_in_refuses_what_is_not_plain_and_names_the_path(
    take: Callable[[object], object],
) -> None:
    value = {"items": [{"price": 1}, {"price": math.nan}]}
    with pytest.raises(NotPlainData, match=r"\$\.items\[1\]\.price") as caught:
        take(value)
    assert caught.value.path == "$.items[1].price"
    assert not is_plain(value)


def test_the_root_of_the_path_can_be_named() -> None:
    with pytest.raises(NotPlainData) as caught:
        check_plain({"when": b""}, root="arguments")
    assert caught.value.path == "arguments.when"


@pytest.mark.parametrize("inner", [[], {}, [1.0], {"\U00010000": 2**60}], ids=str)
def test_the_deepest_allowed_value_passes_every_door(inner: Any) -> None:
    value = inner
    for _ in range(MAX_DEPTH - 1):
        value = {"a": value}
    check_plain(value)
    assert canonical(value).count(b"a") == MAX_DEPTH - 1
    assert decode(encode(value)) == value
    assert not is_plain([value])


@pytest.mark.parametrize("take", [canonical, hash_of, check_plain, encode])
def test_data_nested_100_000_deep_is_refused_and_not_a_recursion_error(
    take: Callable[[object], object],
) -> None:
    value = nested(100_000)
    with pytest.raises(NotPlainData, match="deeper than 128 levels, or it contains itself"):
        take(value)


def test_the_largest_allowed_integers_pass_every_door() -> None:
    for number in (2**MAX_INTEGER_BITS - 1, -(2**MAX_INTEGER_BITS) + 1):
        assert canonical(number) == f"{number}n".encode()
        assert decode(encode(number)) == number


@pytest.mark.parametrize("number", [2**MAX_INTEGER_BITS, 10**5000, -(10**5000)], ids=["", "+", "-"])
@pytest.mark.parametrize("take", [canonical, hash_of, check_plain, encode])
def test_an_integer_of_5000_digits_is_refused_before_python_refuses_it(
    number: int, take: Callable[[object], object]
) -> None:
    with pytest.raises(NotPlainData, match="bits"):
        take(number)


def test_a_program_that_lowered_pythons_digit_limit_still_gets_the_typed_error() -> None:
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert canonical(10**638 + 1).endswith(b"1n")
        for take in (canonical, encode):
            with pytest.raises(NotPlainData):
                take(10**640)
        sys.set_int_max_str_digits(0)
        assert not is_plain(2**MAX_INTEGER_BITS)
        assert is_plain(2**MAX_INTEGER_BITS - 1)
    finally:
        sys.set_int_max_str_digits(usual)


def test_nul_and_other_control_characters_are_fine() -> None:
    value = {"\x00": "a\x00b\x1f\x7f"}
    assert canonical(value) == b'{"\\u0000":"a\\u0000b\\u001f\x7f"}'
    assert "\x00" not in encode(value)
    assert decode(encode(value)) == value


# Text at rest


def same_with_types(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same_with_types(left[n], right[n]) for n in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same_with_types, left, right))
    # The text of a number distinguishes 0.0 and -0.0.
    return bool(left == right) and repr(left) == repr(right)


@given(PLAIN_VALUES)
@example([10, 10.0, -0.0, 1e16, 1e-7, 2**63 - 1, -(2**63), True, 1])
@example({"b": 1, "a": {"d": 1, "c": 2}})
def test_decode_gives_back_what_encode_got_with_types_and_order(value: Any) -> None:
    assert same_with_types(decode(encode(value)), value)


@given(PLAIN_VALUES)
def test_text_that_is_read_unseen_gives_back_what_encode_got(value: Any) -> None:
    assert same_with_types(parse(encode(value)), value)


def test_text_that_is_read_unseen_is_believed_only_if_all_of_it_is_one_value() -> None:
    for text in ("", "{", "1,2", "]", '{"a":1}}', "[", "[1] [2]", "nul", None, b"[]"):
        with pytest.raises(LedgerCorrupt):
            parse(text)  # type: ignore[arg-type]


def test_text_at_rest_is_compact_and_readable() -> None:
    value = {"b": [10, 10.0, "José 😀"], "a": None}
    assert encode(value) == '{"b":[10,10.0,"José 😀"],"a":null}'


BAD_TEXTS = {
    "empty": "",
    "cut off": '{"a":1',
    "followed by more": "1 2",
    "tagged": "9007199254740993n",
    "byte order mark": "\ufeff1",
    "raw NUL": '"\x00"',
    "NaN": "[NaN]",
    "infinity": "-Infinity",
    "too large for a float": "[1e999]",
    "lone surrogate": '["\\ud800"]',
    "lone surrogate in a key": '{"\\udfff":1}',
    "one name twice": '{"a":1,"a":1}',
    "5,000 digits": "1" * 5000,
    "beyond the integer limit": str(2**MAX_INTEGER_BITS),
    "one level too deep": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "100,000 lists": "[" * 100_000,
    "100,000 whole lists": "[" * 100_000 + "]" * 100_000,
    "100,000 objects": '{"[":' * 100_000,
    "bytes": b"1",
    "nothing": None,
}


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS.keys())
def test_text_that_encode_never_wrote_is_called_corrupt(text: Any) -> None:
    with pytest.raises(LedgerCorrupt, match="cannot be read"):
        decode(text)


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    text = encode(draw(PLAIN_VALUES))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 3)))
    return text[:start] + draw(st.text('[]{}",:0e-\\un9.\x00', max_size=3)) + text[end:]


@given(st.text() | damaged_texts() | st.binary().map(lambda raw: raw.decode("latin-1")))
def test_damaged_text_gives_plain_data_or_the_typed_error(text: str) -> None:
    try:
        value = decode(text)
    except LedgerCorrupt:
        return
    check_plain(value)


def test_an_exhausted_stack_is_never_mistaken_for_a_corrupt_ledger() -> None:
    # The brackets inside of the string do not count as depth.
    text = "[" * 100 + json.dumps('"' + "[" * 200) + "]" * 100
    limit = sys.getrecursionlimit()

    def decode_below(frames: int) -> Any:
        return decode(text) if frames == 0 else decode_below(frames - 1)

    outcomes = set()
    for frames in range(0, limit, 3):
        try:
            decode_below(frames)
        except RecursionError:
            outcomes.add("exhausted")
        else:
            outcomes.add("read")
    assert outcomes == {"exhausted", "read"}


def test_same_types_looks_all_the_way_down() -> None:
    assert same_types({"a": [1, "x", {"b": None}]}, {"a": [2, "y", {"b": None}]})
    for other in ({"a": [1.0]}, {"b": [1]}, {"a": [1, 2]}, {"a": [True]}, {"a": (1,)}):
        assert not same_types({"a": [1]}, other)
