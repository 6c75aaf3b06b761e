"""Ready-made tools for common effects, each with a key or a way to check what happened (R1).

A recipe is a function that makes a protected tool: ``save = nt.recipes.write_file("notes")``. A
recipe never retries on its own. After a crash, a call in doubt is found upstream by its call id, or
the upstream recognises its key.
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
