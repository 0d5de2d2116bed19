"""What `make test-torch` adds: the second runtime, and the means to make and export models."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
