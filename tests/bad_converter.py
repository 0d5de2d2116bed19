"""A converter process that misbehaves as its input says: what a hostile document can make of the real one."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from mcpvectordb.convert import child, frames


def main() -> None:
    requests, answers = child._own_pipes()
    frames.receive(requests, most_bytes=4096)
    served = 0
    kept: list[bytes] = []
    while (message := frames.receive(requests, most_bytes=2**31)) is not None:
        _, data = message
        match data.decode().split():
            case ["loop"]:
                while True:
                    pass
            case ["die"]:
                os._exit(9)
            case ["die", "unless", "fresh"] if served:
                os._exit(9)
            case ["eat"]:
                hoard = []
                while True:
                    # Of letters: the system hands out zeros without memory behind them.
                    hoard.append(b"x" * (8 * 1024 * 1024))
            case ["swell"]:
                kept.append(b"x" * (300 * 1024 * 1024))
            case ["abort"]:
                os.abort()
            case ["grow", "and", "abort"]:
                hoard = b"x" * (150 * 1024 * 1024)
                time.sleep(0.5)  # for the watcher to have seen it
                os.abort()
            case ["flood"]:
                answers.write(b"\xff" * 8 + b"x" * 1000)
                answers.flush()
                time.sleep(60)
            case ["litter", *_]:
                Path(tempfile.mkstemp()[1]).write_bytes(b"left behind")
            case _:
                pass
        served += 1
        answer = {"title": tempfile.gettempdir(), "is_markdown": False, "pages": [], "notice": ""}
        frames.send(answers, answer, f"{os.getpid()} {served}".encode())


if __name__ == "__main__":
    main()
