"""The demo, run as a newcomer runs it: it works, and the README shows what it really prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support import PATIENCE_S, environment

ROOT = Path(__file__).resolve().parents[1]


def answers(output: str) -> list[tuple[str, str]]:
    """Each question with the first passage's line. Further down, processors may differ in a close call."""
    return re.findall(r"^\? (.+?)   \(\w+, \d+ ms\)\n  1\. (.+)$", output, flags=re.M)


def steps(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith(("+ ", "= ")) or " passages. " in line]


def test_the_readme_shows_what_the_demo_prints(tmp_path: Path) -> None:
    printed = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo.py")],
        env=environment(tmp_path / "not used"),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
        check=True,
    ).stdout
    (shown,) = re.findall(r"```text\n(Server up.+?)```", (ROOT / "README.md").read_text("utf-8"), flags=re.S)
    assert steps(printed) == steps(shown)
    assert answers(printed) == answers(shown)
    assert len(answers(printed)) == printed.count("\n? ")
    assert any(", page 3" in passage for _, passage in answers(printed))
    assert not (tmp_path / "not used").exists()


def test_the_knowledge_bases_demo_shows_every_step(tmp_path: Path) -> None:
    printed = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "demo_kb.py")],
        env=environment(tmp_path / "not used"),
        capture_output=True,
        encoding="utf-8",
        timeout=2 * PATIENCE_S,
        check=True,
    ).stdout
    for step in (
        r"\+ engine up at http://127\.0\.0\.1:\d+\n",
        r"\+ gateway up at http://127\.0\.0\.1:\d+/mcp\n",
        r"10 tools: kb_search, ",
        r"\+ note indexed: The user prefers concise answers\.\n",
        r"\+ lease\.pdf in \d+ parts indexed: ",
        r"\? how long should replies be\?.*\n  The user prefers concise answers\. \['memory'\]",
        r"\? how can we get out of the lease\?.*\n  .+ \['contracts'\]",
        r"= note updated, same number: True\n",
        r"\? how should replies look\?.*\n  The user prefers bullet points\. \['memory'\]",
        r"2 documents, \d+ passages, minilm\n(- deleted: .+\n){2}0 documents\n",
        r"- gateway ended with code 0\n- engine ended with code 0\n0 stored files left\n",
    ):
        assert re.search(step, printed), f"{step} is not in:\n{printed}"
    assert not (tmp_path / "not used").exists()
