"""Puts the repository on the import path: the step-by-step engine is shared with the benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
