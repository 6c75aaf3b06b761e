"""Who may change an app's runs from outside? ``nt.App(..., admins=["ann"])`` (V4)

The app defines its admins, because the team that deploys the code is responsible for it. Names are
self-declared and recorded with each action. This prevents accidents. It is no protection against a
person who can write to the ledger directly. To look names up in a directory, pass a function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from nottwice.errors import NotPermitted, UsageError

Admins = Iterable[str] | Callable[[str], bool] | None
"""Names, or a function that decides about a name. None means that there are no admins."""


def read_admins(given: Admins) -> frozenset[str] | Callable[[str], bool] | None:
    """Check the ``admins`` of an app. A plain string is refused, as it would be read by letters."""
    if given is None or callable(given):
        return given
    names = None if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if names is None or not all(isinstance(name, str) and name for name in names):
        raise UsageError(
            f"App(admins=...) takes a list of names or a function that takes a name, not "
            f"{given!r}. Nothing happened. Write: admins=['ann', 'bob']."
        )
    return frozenset(names)


def check_admin(
    admins: frozenset[str] | Callable[[str], bool] | None, who: str, *, what_for: str
) -> None:
    """Raise NotPermitted if ``who`` is not an admin, before anything has happened."""
    if admins is None:
        raise NotPermitted(
            f"To {what_for}, you must be an admin, and the app defines none. Nothing was done. "
            "Name the admins where you create the app: nt.App(..., admins=['your name'])."
        )
    if callable(admins):
        try:
            answer = admins(who)
        except Exception as error:
            raise NotPermitted(
                f"nottwice could not find out whether {who!r} may {what_for}: nt.App(admins=...) "
                f"raised {type(error).__name__}: {error}. Nothing was done."
            ) from error
        if not isinstance(answer, bool):
            raise NotPermitted(
                f"The function in nt.App(admins=...) returned {type(answer).__name__} when asked "
                f"whether {who!r} may {what_for}. Nothing was done. Let it return True or False."
            )
    else:
        answer = who in admins
    if not answer:
        raise NotPermitted(
            f"{who!r} is not an admin of this app and may not {what_for}. Nothing was done. "
            "Ask an admin, or change nt.App(admins=...)."
        )
