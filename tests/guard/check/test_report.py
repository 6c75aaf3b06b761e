"""Are the four answers about a tool true, and is every declaration that will hurt found? (T7)"""

from __future__ import annotations

import functools
import smtplib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import requests
import requests.adapters
import urllib3

import nottwice as nt
from nottwice.guard import registry
from nottwice.guard.check.clients import Retries
from nottwice.guard.check.report import Finding, Level, ToolReport, duration_text, report_on
from nottwice.model.replay_class import ReplayClass
from nottwice.testing import forget_tools

session = requests.Session()
retrying_session = requests.Session()
retrying_session.mount("https://", requests.adapters.HTTPAdapter(max_retries=3))
pool = urllib3.PoolManager()
patient_pool = urllib3.PoolManager(retries=False)


@pytest.fixture(autouse=True)
def no_other_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_tools", {})


def report(function: Callable[..., Any], **declared: Any) -> ToolReport:
    """Report on a tool that is declared like this; unsafe unless said otherwise."""
    forget_tools()
    declared.setdefault("replay_class", "unsafe_on_replay")
    declared.setdefault("name", "a_tool")
    return report_on(nt.tool(declared.pop("replay_class"), **declared)(function))


def texts(found: ToolReport, level: Level = Level.WARNING) -> list[str]:
    return [finding.text for finding in found.findings if finding.level is level]


def found_by_id(call: nt.Call) -> nt.Verification:
    return nt.happened(None) if call.id else nt.cannot_tell()


def plain(to: str) -> None: ...


# The four answers


def test_what_a_second_run_does() -> None:
    def keyed(order_id: int) -> str | None:
        return nt.current_call().key

    assert report(plain, replay_class="pure").answers.second_run == "no: it only reads"
    assert report(plain).answers.second_run == "yes: it would happen again"
    found = report(
        keyed, replay_class="idempotent_with_key", key="k-{order_id}", window="24h", name="keyed"
    )
    assert found.answers.second_run == ("no, as long as the upstream gets the same key within 24h")


def test_how_it_is_noticed_that_it_was_done() -> None:
    assert report(plain, replay_class="pure").answers.detection.endswith("simply run again")
    assert report(plain).answers.detection.endswith("in doubt only a person can tell")
    checked = report(plain, verify=found_by_id)
    assert checked.answers.detection.endswith("verify found_by_id is asked, then a person")
    keyed = report(plain, replay_class="idempotent_with_key", key="k-{to}", window="3d")
    assert "recognises the key 'k-{to}' for 3d, after that a person is asked" in (
        keyed.answers.detection
    )


def test_whether_noticing_is_free_of_effects() -> None:
    def posts(call: nt.Call) -> nt.Verification:
        requests.post("https://example.com", json={"id": call.id}, timeout=1)
        return nt.cannot_tell()

    assert report(plain).answers.detection_is_free == "yes: nothing is called"
    assert report(plain, verify=found_by_id).answers.detection_is_free.startswith(
        "yes, as far as its code shows"
    )
    assert report(plain, verify=posts).answers.detection_is_free == (
        "cannot tell: verify uses .post"
    )
    assert report(plain, verify=print).answers.detection_is_free == (
        "cannot tell: the code of verify cannot be read"
    )


def test_a_verify_hook_that_runs_an_effectful_tool_is_an_error_however_it_does() -> None:
    @nt.tool("unsafe_on_replay", name="effect")
    def effect(to: str) -> None: ...

    @nt.tool("pure", name="look")
    def look(to: str) -> str:
        return to

    def helper(to: str) -> None:
        effect(to=to)

    def directly(call: nt.Call) -> nt.Verification:
        effect(to=call.id)
        return nt.cannot_tell()

    def by_helper(call: nt.Call) -> nt.Verification:
        helper(call.id)
        return nt.cannot_tell()

    def bare(call: nt.Call) -> nt.Verification:
        effect.fn(to=call.id)
        return nt.cannot_tell()

    def only_reads(call: nt.Call) -> nt.Verification:
        return nt.happened(look(to=call.id)) if effect.tool.name else nt.cannot_tell()

    for verify in (directly, by_helper, bare):
        found = report(plain, verify=verify)
        (error,) = [finding for finding in found.findings if finding.level is Level.ERROR]
        assert "runs effect, which is effectful" in error.text
        assert found.answers.detection_is_free == "no: verify runs effect"
    assert texts(report(plain, verify=only_reads), Level.ERROR) == []


def posts_with_session() -> None:
    session.post("https://example.com")


def posts_with_retries() -> None:
    retrying_session.post("https://example.com")


def posts_with_pool() -> None:
    pool.request("POST", "https://example.com")


def posts_with_patient_pool() -> None:
    patient_pool.request("POST", "https://example.com")


def posts_by_helper() -> None:
    posts_with_pool()


def mails() -> None:
    with smtplib.SMTP("localhost") as server:
        server.sendmail("a", "b", "c")


def uses_httpx() -> None:
    httpx.post("https://example.com")


def imports_stripe() -> None:
    import stripe  # type: ignore[import-not-found,unused-ignore]

    stripe.Refund.create()


def uses_a_stranger() -> None:
    pytest.skip("never run")


def computes() -> int:
    return sum(range(7))


@pytest.mark.parametrize(
    ("function", "verdict", "said"),
    [
        (posts_with_session, Retries.NONE_KNOWN, "none known: requests does not retry on its own"),
        (posts_with_retries, Retries.YES, "yes: requests retries 3 times here"),
        (posts_with_pool, Retries.YES, "yes: urllib3 retries 3 times, by default"),
        (posts_with_patient_pool, Retries.NONE_KNOWN, "none known: urllib3 has its retries off"),
        (posts_by_helper, Retries.YES, "yes: urllib3 retries 3 times, by default"),
        (mails, Retries.NONE_KNOWN, "none known: smtplib does not retry on its own"),
        (uses_httpx, Retries.NONE_KNOWN, "none known: httpx does not retry on its own"),
        (imports_stripe, Retries.YES, "yes: stripe retries 2 times, with its own idempotency"),
        (uses_a_stranger, Retries.CANNOT_TELL, "cannot tell: it uses pytest"),
        (computes, Retries.NONE_KNOWN, "none known"),
        (len, Retries.CANNOT_TELL, "cannot tell: its code cannot be read"),
    ],
)
def test_whether_the_client_inside_retries(
    function: Callable[..., Any], verdict: Retries, said: str
) -> None:
    answers = report(function, replay_class="pure").answers
    assert answers.retries is verdict
    assert answers.client_retries.startswith(said)


def test_a_method_that_uses_its_instance_cannot_be_told() -> None:
    class Account:
        def send(self, to: str) -> None:
            self.session.post(to)  # type: ignore[attr-defined]

    Account.send.__qualname__ = "Account.send"
    answers = report(Account.send, bound_by=()).answers
    assert answers.client_retries == "cannot tell: it uses what its instance holds"


def test_a_retrying_decorator_is_found(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Plays tenacity: an installed decorator that copies everything but its globals.
    source = (
        "import functools\n"
        "def retry(function):\n"
        "    @functools.wraps(function)\n"
        "    def again(*args): return function(*args)\n"
        "    return again\n"
    )
    (tmp_path / "tenacity.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "tenacity", raising=False)
    monkeypatch.setattr(
        "nottwice.guard.check.references._installed", lambda: frozenset({"tenacity", "pytest"})
    )
    tenacity = __import__("tenacity")
    answers = report(tenacity.retry(plain)).answers
    assert answers.retries is Retries.YES
    assert "tenacity runs it again when it fails" in answers.client_retries


def test_what_another_protected_tool_does_is_left_to_its_own_report() -> None:
    inner = nt.tool("pure", name="inner")(posts_with_pool)

    def outer() -> None:
        inner()

    assert report(outer, verify=found_by_id).answers.retries is Retries.NONE_KNOWN


# Findings


def test_a_good_tool_has_no_findings() -> None:
    assert report(plain, verify=found_by_id).findings == ()


def test_an_unsafe_tool_without_verify_is_warned_about() -> None:
    (finding,) = report(plain).findings
    assert finding == Finding(
        Level.WARNING,
        "it has no verify hook, so every interruption waits for a person",
        "give it verify=..., a function that looks in the upstream whether it happened",
    )


def test_an_unsafe_tool_whose_client_retries_is_warned_about() -> None:
    (warning,) = texts(report(posts_with_pool, verify=found_by_id))
    assert warning.startswith("one attempt may take effect more than once: urllib3 retries")
    # Stripe sends a key of its own with each of its retries.
    assert texts(report(imports_stripe, verify=found_by_id)) == []
    assert texts(report(posts_with_pool, replay_class="pure")) == []


class Marker:
    id = "x"


def reads_start(call: nt.Call) -> nt.Verification:
    return nt.cannot_tell() if call.first_started_at else nt.did_not_happen()


def reads_key(call: nt.Call) -> nt.Verification:
    return nt.cannot_tell() if call.key else nt.did_not_happen()


def hands_it_on(call: nt.Call) -> nt.Verification:
    return reads_start(call)


def reads_by_name(call: nt.Call) -> nt.Verification:
    return nt.cannot_tell() if getattr(call, "id", None) else nt.did_not_happen()


def ignores_it(call: nt.Call) -> nt.Verification:
    return nt.happened(None) if id(call) else nt.cannot_tell()


def reads_arguments_only(call: nt.Call) -> nt.Verification:
    return nt.happened(None) if call.args["to"] else nt.cannot_tell()


@pytest.mark.parametrize(
    ("verify", "warned"),
    [
        (found_by_id, False),
        (reads_start, False),
        (reads_key, False),
        (hands_it_on, False),
        (reads_by_name, False),
        (functools.partial(found_by_id), False),
        (lambda call: nt.cannot_tell() if call.id else None, False),
        (ignores_it, True),
        (reads_arguments_only, True),
        (lambda call: nt.did_not_happen(), True),
    ],
)
def test_a_verify_hook_that_ignores_which_call_it_is_asked_about_is_warned_about(
    verify: Any, warned: bool
) -> None:
    said = "reads neither the id of the call nor its start"
    assert any(said in text for text in texts(report(plain, verify=verify))) is warned


def with_key(to: str) -> str | None:
    return nt.current_call().key


def with_key_by_helper(to: str) -> str | None:
    return with_key(to)


def with_key_imported_inside(to: str) -> str | None:
    from nottwice import current_call as current

    return current().key


@pytest.mark.parametrize(
    ("function", "warned"),
    [
        (with_key, False),
        (with_key_by_helper, False),
        (with_key_imported_inside, False),
        (plain, True),
    ],
)
def test_a_keyed_tool_that_never_reads_its_key_is_warned_about(function: Any, warned: bool) -> None:
    found = report(function, replay_class="idempotent_with_key", key="k-{to}", window="1h")
    assert any("the key does not reach the upstream" in text for text in texts(found)) is warned


def test_an_effectful_tool_without_return_annotation_is_warned_about() -> None:
    def silent(to: str):  # type: ignore[no-untyped-def]
        ...

    assert any("no return annotation" in text for text in texts(report(silent, verify=found_by_id)))
    assert texts(report(silent, replay_class="pure")) == []


def test_a_result_that_no_receipt_brings_back_is_warned_about() -> None:
    class Client:
        """Nothing that plain data could be read as."""

    def connect(to: str) -> Client:
        return Client()

    def pair(to: str) -> tuple[int, str]:
        return 1, to

    (warning,) = texts(report(connect, verify=found_by_id))
    assert "cannot be brought back" in warning
    assert texts(report(pair, verify=found_by_id)) == []


def test_an_annotation_that_cannot_be_used_is_warned_about() -> None:
    def odd(to: "Nowhere") -> None:  # type: ignore[name-defined] # noqa: F821, UP037
        ...

    (warning,) = texts(report(odd, verify=found_by_id))
    assert "Nowhere" in warning


# What is declared


def test_the_report_repeats_what_was_declared() -> None:
    found = report(
        with_key,
        replay_class="idempotent_with_key",
        name="declared",
        key="k-{to}",
        window="24h",
        verify=found_by_id,
        settles="30s",
        time_limit="90s",
        retry=nt.RetryPolicy(2),
        tags=("money",),
        approve="24h",
        keep="90d",
        rate="bank",
    )
    assert found.name == "declared"
    assert found.replay_class is ReplayClass.IDEMPOTENT_WITH_KEY
    assert (found.key, found.window_seconds) == ("k-{to}", 86400)
    assert (found.verify, found.settles_seconds) == ("found_by_id", 30)
    assert (found.time_limit_seconds, found.retry.attempts) == (90, 2)
    assert found.tags == ("money",)
    assert (found.approve, found.approval_seconds) == (True, 86400)
    assert (found.keep_seconds, found.rate_class) == (7776000, "bank")
    assert found.result_type == "str | None"
    assert found.place == f"{__file__}:{with_key.__code__.co_firstlineno}"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(86400, "24h"), (172800, "2d"), (90, "90s"), (120, "2m"), (0.5, "500ms"), (1.5, "1.5s")],
)
def test_a_duration_is_spelled_as_it_would_be_declared(seconds: float, expected: str) -> None:
    assert duration_text(seconds) == expected
