"""Everything that a tool can do with a secret: copied into a folder and named there with --app.

The secrets are in a file of another folder, which ``CANARY_VAULT`` names. No test imports this
module, because its tools would then be declared for all tests of the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, SecretBytes, SecretStr

import nottwice as nt

VAULT: dict[str, str] = json.loads(Path(os.environ["CANARY_VAULT"]).read_text(encoding="utf-8"))
SECRETS = [secret for name, secret in VAULT.items() if name != "unmarked"]
ALL = " and ".join(SECRETS)


@dataclass
class Account:
    owner: str
    token: Annotated[str, nt.Secret]


class Login(BaseModel):
    name: str
    password: SecretStr


def verify(call: nt.Call) -> nt.Verification:
    raise ValueError(f"cannot tell: {ALL} with {call.args}")


@nt.tool("unsafe_on_replay")
def give(number: int, secret: Annotated[str, nt.Secret]) -> str:
    if os.environ.get("CANARY_KILL") == str(number):
        os.kill(os.getpid(), signal.SIGKILL)
    assert secret == SECRETS[number]
    return f"given {number}"


@nt.tool("idempotent_with_key", key="canary-{number}", window="1d")
def give_keyed(number: int, secret: SecretStr, currency: str = "eur") -> str:
    assert secret.get_secret_value() == SECRETS[number]
    return "given"


@nt.tool("pure")
def look(secret: Annotated[str, nt.Secret]) -> int:
    return len(secret)


@nt.tool("pure")
def echo(secret: Annotated[str, nt.Secret]) -> dict[str, str]:
    return {"it was": secret}


@nt.tool("pure")
def fetch(number: int) -> Annotated[str, nt.Secret]:
    return SECRETS[number]


@nt.tool("unsafe_on_replay")
def give_all(
    listed: list[Annotated[str, nt.Secret]],
    named: dict[str, SecretStr],
    accounts: list[Account],
    logins: tuple[Login, ...],
    raw: SecretBytes,
    number: Annotated[int, nt.Secret],
    anything: Annotated[Any, nt.Secret],
) -> int:
    assert [login.password.get_secret_value() for login in logins] == SECRETS == listed
    return len(listed) + len(named) + len(accounts)


@nt.tool("unsafe_on_replay", retry=nt.RetryPolicy(2, first_seconds=0))
def stumble(secret: Annotated[str, nt.Secret]) -> None:
    raise nt.Retryable(f"refused {secret!r}, that is {secret}, in {json.dumps(secret)}")


@nt.tool("unsafe_on_replay", approve=True)
def ask_first(secrets: Annotated[list[str], nt.Secret]) -> str:
    return "allowed"


@nt.tool("unsafe_on_replay", verify=verify)
def lose(secrets: Annotated[list[str], nt.Secret]) -> str:
    raise TimeoutError(f"no answer about {ALL}")


@nt.tool("unsafe_on_replay")
def unmarked(text: str) -> str:
    return "given"


def spread() -> None:
    """All secrets through all kinds of tools, results and failures."""
    for number, secret in enumerate(SECRETS):
        give(number, secret)
        give_keyed(number, SecretStr(secret))
        look(secret)
        assert echo(secret) == {"it was": secret}
        assert fetch(number) == secret
        with contextlib.suppress(nt.Retryable):
            stumble(secret)
    give_all(
        SECRETS,
        {str(number): SecretStr(secret) for number, secret in enumerate(SECRETS)},
        [Account("ann", secret) for secret in SECRETS],
        tuple(Login(name="ann", password=SecretStr(secret)) for secret in SECRETS),
        SecretBytes(SECRETS[5].encode()),
        int(VAULT["digits"]),
        {"deep": [{"down": SECRETS}]},
    )


plant = nt.Graph("plant", version="1.0.0")


@plant.node
def first(state: dict[str, Any]) -> dict[str, Any]:
    spread()
    return {"spread": True}


@plant.node
def second(state: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": ask_first(SECRETS)}


@plant.node
def third(state: dict[str, Any]) -> dict[str, Any]:
    return {"lost": lose(SECRETS)}


broken = nt.Graph("broken", version="1.0.0")


@broken.node
def fall(state: dict[str, Any]) -> None:
    look(ALL)
    for secret in SECRETS:
        look(secret)
    raise ValueError(f"the node fell over {ALL}")


@nt.tool("unsafe_on_replay")
def pay(number: int) -> str:
    """What a model may call: it names the thing, and the tool knows the secret."""
    return give(number, SECRETS[number])


agent = nt.Agent(
    "bird",
    version="1.0.0",
    provider=nt.providers.scripted(
        [*({"pay": {"number": number}} for number in range(len(SECRETS))), "Everything is paid."]
    ),
    tools=[pay],
)
app = nt.App(graphs=[plant, broken])

if __name__ == "__main__":
    what, run_id, store = sys.argv[1:]
    if what == "agent":
        assert agent.run(run_id, goal="Pay for everything", store=store).status == "completed"
    elif what == "unmarked":
        with nt.run(run_id, store=store):
            unmarked(VAULT["unmarked"])
    else:
        with nt.run(run_id, store=store), nt.step("spread"):
            spread()
