"""Who may change the runs of an app from outside? ``nt.App(..., admins=["ann"])`` (V4)

The app says it, because whoever deploys the code answers for it. Names are what people say of
themselves, and are kept with what they did: this keeps accidents away, and is no lock against
somebody who can write to the ledger anyway. Who has such people asks a directory in a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nottwice.errors import NotPermitted, UsageError

Admins = Iterable[str] | Callable[[str], bool] | None
"""Names, or a function that is asked about a name; None: nobody may."""


def read_admins(given: Admins) -> frozenset[str] | Callable[[str], bool] | None:
    """What an app was told, checked: one name in quotes would be taken for its letters."""
    if given is None or callable(given):
        return given
    names = None if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if names is None or not all(isinstance(name, str) and name for name in names):
        raise UsageError(
            f"App(admins=...) takes a list of names, or a function of a name, and was given "
            f"{given!r}. Nothing happened. Write: admins=['ann', 'bob']."
        )
    return frozenset(names)


def check_admin(
    admins: frozenset[str] | Callable[[str], bool] | None, who: str, *, what_for: str
) -> None:
    """Refuse somebody who is no admin; NotPermitted, before anything has happened."""
    if admins is None:
        raise NotPermitted(
            f"To {what_for} needs an admin, and the app does not say who is one. Nothing was done. "
            "Say it where the app is made: nt.App(..., admins=['your name'])."
        )
    if callable(admins):
        try:
            answer = admins(who)
        except Exception as error:
            raise NotPermitted(
                f"Whether {who!r} may {what_for} could not be found out: nt.App(admins=...) raised "
                f"{type(error).__name__}: {error}. Nothing was done."
            ) from error
        if not isinstance(answer, bool):
            raise NotPermitted(
                f"Whether {who!r} may {what_for} was answered with {type(answer).__name__}. "
                "Nothing was done. Let the function in nt.App(admins=...) return True or False."
            )
    else:
        answer = who in admins
    if not answer:
        raise NotPermitted(
            f"{who!r} is none of the admins of this app, so may not {what_for}. Nothing was done. "
            "Ask one of them, or change nt.App(admins=...)."
        )
