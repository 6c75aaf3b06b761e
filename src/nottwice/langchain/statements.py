"""Which tables does the saver keep beside the ledger, and which statements does it execute?

All names begin with the ledger's own prefix (on PostgreSQL: its schema), so they collide neither
with the ledger's tables nor with those of LangGraph's own savers.

langgraph_checkpoints   one row per checkpoint: everything except the values of its large channels
langgraph_values        the values of large channels, in pieces (pieces.py). A row is never changed
langgraph_writes        what the tasks of a step wrote, before the next checkpoint has it
"""

from __future__ import annotations

NAMES = ("langgraph_checkpoints", "langgraph_values", "langgraph_writes")

# parent_id   the checkpoint that this one follows
# run_id      which run of LangGraph's server made it, if any
# head        the checkpoint as LangGraph's serializer wrote it, with the values of small channels
# places      JSON: the piece of each large channel
_CHECKPOINTS = """
CREATE TABLE IF NOT EXISTS nottwice.langgraph_checkpoints (
  thread_id      NAME NOT NULL,
  checkpoint_ns  NAME NOT NULL,
  checkpoint_id  NAME NOT NULL,
  parent_id      NAME,
  run_id         NAME,
  places         text NOT NULL,
  metadata       text NOT NULL,
  type           text NOT NULL,
  head           BYTES NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
)
"""

# root         the chain of pieces that this one belongs to
# links        how many pieces of the chain come before this one; 0: this one is complete
# mark         tells this piece from another one that may have had its number before
# kept_start   how many bytes of the value before it a value begins with; kept_end: ends with
# chain_bytes  the bytes of this piece and of those before it
_VALUES = """
CREATE TABLE IF NOT EXISTS nottwice.langgraph_values (
  thread_id    NAME NOT NULL,
  root         NAME NOT NULL,
  links        bigint NOT NULL,
  mark         text NOT NULL,
  kind         text NOT NULL,
  kept_start   bigint NOT NULL,
  kept_end     bigint NOT NULL,
  chain_bytes  bigint NOT NULL,
  type         text NOT NULL,
  data         BYTES NOT NULL,
  PRIMARY KEY (thread_id, root, links)
)
"""

_WRITES = """
CREATE TABLE IF NOT EXISTS nottwice.langgraph_writes (
  thread_id      NAME NOT NULL,
  checkpoint_ns  NAME NOT NULL,
  checkpoint_id  NAME NOT NULL,
  task_id        NAME NOT NULL,
  idx            bigint NOT NULL,
  task_path      NAME NOT NULL,
  channel        text NOT NULL,
  type           text NOT NULL,
  value          BYTES NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
)
"""

_RUNS = """
CREATE INDEX IF NOT EXISTS nottwice_langgraph_runs ON nottwice.langgraph_checkpoints (run_id)
 WHERE run_id IS NOT NULL
"""

CREATE = (_CHECKPOINTS, _VALUES, _WRITES, _RUNS)
"""The word NAME stands for a text that is ordered by its bytes, BYTES for bytes."""
TYPES = {
    "sqlite": {"NAME": "text", "BYTES": "blob"},
    "postgres": {"NAME": 'text COLLATE "C"', "BYTES": "bytea"},
}
EXISTING = {
    "sqlite": """
SELECT count(*) FROM sqlite_schema
 WHERE type = 'table' AND name IN (
   'nottwice_langgraph_checkpoints', 'nottwice_langgraph_values', 'nottwice_langgraph_writes')
""",
    "postgres": """
SELECT (to_regclass('nottwice.langgraph_checkpoints') IS NOT NULL)::int
     + (to_regclass('nottwice.langgraph_values') IS NOT NULL)::int
     + (to_regclass('nottwice.langgraph_writes') IS NOT NULL)::int
""",
}

# What builds on pieces and what removes them must not overlap. SQLite has one writer at a time.
TOGETHER = "SELECT pg_advisory_xact_lock_shared(hashtextextended(:name, 0))"
ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"

# Reading

_COLUMNS = """
SELECT thread_id, checkpoint_ns, checkpoint_id, parent_id, places, metadata, type, head
  FROM nottwice.langgraph_checkpoints
"""
NEWEST = (
    _COLUMNS
    + """
 WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns
 ORDER BY checkpoint_id DESC LIMIT 1
"""
)
ONE = (
    _COLUMNS
    + """
 WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
"""
)
# A page of a list, newest first. Copied threads have the ids of their originals, so an id alone
# does not say where the next page begins.
_PAGE = """
   AND (checkpoint_id, thread_id, checkpoint_ns) < (:before_id, :before_thread, :before_ns)
 ORDER BY checkpoint_id DESC, thread_id DESC, checkpoint_ns DESC LIMIT :most
"""
OF_NAMESPACE = _COLUMNS + " WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns" + _PAGE
OF_THREAD = _COLUMNS + " WHERE thread_id = :thread_id" + _PAGE
OF_ALL = _COLUMNS + " WHERE thread_id IS NOT NULL" + _PAGE

EXISTS = """
SELECT 1 FROM nottwice.langgraph_checkpoints
 WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
"""
CHAIN = """
SELECT links, mark, kind, kept_start, kept_end, chain_bytes, type, data
  FROM nottwice.langgraph_values
 WHERE thread_id = :thread_id AND root = :root AND links <= :links ORDER BY links
"""
PENDING = """
SELECT task_id, channel, type, value, task_path, idx FROM nottwice.langgraph_writes
 WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
"""
HAS_PIECE = """
SELECT 1 FROM nottwice.langgraph_values
 WHERE thread_id = :thread_id AND root = :root AND links = :links AND mark = :mark
"""

# Writing

PUT = """
INSERT INTO nottwice.langgraph_checkpoints
  (thread_id, checkpoint_ns, checkpoint_id, parent_id, run_id, places, metadata, type, head)
VALUES
  (:thread_id, :checkpoint_ns, :checkpoint_id, :parent_id, :run_id, :places, :metadata, :type,
   :head)
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO UPDATE
  SET parent_id = excluded.parent_id, run_id = excluded.run_id, places = excluded.places,
      metadata = excluded.metadata, type = excluded.type, head = excluded.head
"""
PUT_PIECE = """
INSERT INTO nottwice.langgraph_values
  (thread_id, root, links, mark, kind, kept_start, kept_end, chain_bytes, type, data)
VALUES
  (:thread_id, :root, :links, :mark, :kind, :kept_start, :kept_end, :chain_bytes, :type, :data)
ON CONFLICT (thread_id, root, links) DO NOTHING
"""
_PUT_WRITE = """
INSERT INTO nottwice.langgraph_writes
  (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, value)
VALUES
  (:thread_id, :checkpoint_ns, :checkpoint_id, :task_id, :idx, :task_path, :channel, :type, :value)
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
"""
ADD_WRITE = _PUT_WRITE + " DO NOTHING"
REPLACE_WRITE = (
    _PUT_WRITE
    + """
 DO UPDATE SET task_path = excluded.task_path, channel = excluded.channel,
               type = excluded.type, value = excluded.value
"""
)

# Removing and copying

REMOVE_THREAD = (
    "DELETE FROM nottwice.langgraph_writes WHERE thread_id = :thread_id",
    "DELETE FROM nottwice.langgraph_checkpoints WHERE thread_id = :thread_id",
    "DELETE FROM nottwice.langgraph_values WHERE thread_id = :thread_id",
)
REMOVE_CHECKPOINT = (
    """
DELETE FROM nottwice.langgraph_writes
 WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
""",
    """
DELETE FROM nottwice.langgraph_checkpoints
 WHERE thread_id = :thread_id AND checkpoint_ns = :checkpoint_ns AND checkpoint_id = :checkpoint_id
""",
)
REMOVE_PIECES = """
DELETE FROM nottwice.langgraph_values
 WHERE thread_id = :thread_id AND root = :root AND links >= :links
"""
OF_RUN = """
SELECT thread_id, checkpoint_ns, checkpoint_id FROM nottwice.langgraph_checkpoints
 WHERE run_id = :run_id
"""
LINEAGE = """
SELECT checkpoint_ns, checkpoint_id, parent_id, places, metadata
  FROM nottwice.langgraph_checkpoints
 WHERE thread_id = :thread_id ORDER BY checkpoint_id DESC
"""
PLACES = "SELECT places FROM nottwice.langgraph_checkpoints WHERE thread_id = :thread_id"
ROOTS = "SELECT DISTINCT root FROM nottwice.langgraph_values WHERE thread_id = :thread_id"
COPY = (
    """
INSERT INTO nottwice.langgraph_values
  (thread_id, root, links, mark, kind, kept_start, kept_end, chain_bytes, type, data)
SELECT :target_id, root, links, mark, kind, kept_start, kept_end, chain_bytes, type, data
  FROM nottwice.langgraph_values WHERE thread_id = :thread_id
ON CONFLICT (thread_id, root, links) DO NOTHING
""",
    """
INSERT INTO nottwice.langgraph_checkpoints
  (thread_id, checkpoint_ns, checkpoint_id, parent_id, run_id, places, metadata, type, head)
SELECT :target_id, checkpoint_ns, checkpoint_id, parent_id, run_id, places, metadata, type, head
  FROM nottwice.langgraph_checkpoints WHERE thread_id = :thread_id
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id) DO NOTHING
""",
    """
INSERT INTO nottwice.langgraph_writes
  (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, value)
SELECT :target_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, value
  FROM nottwice.langgraph_writes WHERE thread_id = :thread_id
ON CONFLICT (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) DO NOTHING
""",
)
