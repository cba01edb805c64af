"""Makes this folder's modules importable by their full names, however pytest is called."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
