"""An agent that writes a report with ready-made tools: files, notes and a git commit, each once.

    python examples/report.py            # works in the folder report/; kill it, run it again

The model is a script, so this runs without an API key. With a real model, write:
provider=nt.providers.anthropic("claude-...") or nt.providers.openai("gpt-...").
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", ".")) / "report"
REPOSITORY = FOLDER / "repository"

pad = nt.agent.Scratchpad(FOLDER / "notes")
write_file = nt.recipes.write_file(REPOSITORY)
git_commit = nt.recipes.git_commit(REPOSITORY, author=("Bot", "bot@example.com"))


@nt.tool("pure")
def get_sales(month: str) -> dict[str, int]:
    """Look up what was sold in a month."""
    return {"orders": 42, "cents": 168_000}


SCRIPT: list[Any] = [
    {"get_sales": {"month": "may"}},
    [
        {"add_to_note": {"note": "sales", "text": "May: 42 orders, 1,680.00"}},
        {"write_file": {"path": "2026/may.md", "text": "# May\n\n42 orders, 1,680.00 in all.\n"}},
    ],
    {"git_commit": {"message": "Report for May", "paths": ["2026/may.md"]}},
    {"show_evidence": {"condition": 1, "evidence": "the commit's receipt"}},
    "The report for May is committed.",
]
agent = nt.Agent(
    "reporter",
    version="1.0.0",
    provider=nt.providers.scripted(SCRIPT),
    tools=[get_sales, write_file, git_commit, *pad.tools],
    done_when=["the report is committed [receipt: git_commit]"],
)
app = nt.App(graphs=[agent], store=str(FOLDER / "agent.db"))


def main() -> None:
    """Write the report, or the rest of it."""
    REPOSITORY.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "--quiet", str(REPOSITORY)], check=True)
    outcome = agent.run("may", goal="Report on May", store=app)
    print(f"{outcome.run_id} is {outcome.status}: {outcome.state.answer}")
    log = ["git", "-C", str(REPOSITORY), "log", "--format=%s, %(trailers:separator=%x20)"]
    print(subprocess.run(log, check=True, capture_output=True, text=True).stdout.strip())
    print(f"noted: {pad.read('sales')}")


if __name__ == "__main__":
    main()
