"""Ready-made tools for effects that every agent needs, each with a key or a way to look (R1).

A recipe is a function that makes a protected tool: ``save = nt.recipes.write_file("notes")``. None
of them tries anything twice on its own; what is in doubt after a crash is found in the upstream by
the id of its call, or recognised there by its key.
"""

from nottwice.recipes.comments import Commented, Comments, comment, http_comments
from nottwice.recipes.creating import create_if_absent
from nottwice.recipes.files import Written, write_file
from nottwice.recipes.git import Committed, git_commit
from nottwice.recipes.http import HttpAnswer, http_request
from nottwice.recipes.mail import Sent, send_mail
from nottwice.recipes.sent_folder import imap_sent_folder

__all__ = [
    "Commented",
    "Comments",
    "Committed",
    "HttpAnswer",
    "Sent",
    "Written",
    "comment",
    "create_if_absent",
    "git_commit",
    "http_comments",
    "http_request",
    "imap_sent_folder",
    "send_mail",
    "write_file",
]
