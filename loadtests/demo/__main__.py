"""``python -m loadtests.demo``."""

from __future__ import annotations

from loadtests.demo.run import main

raise SystemExit(main())
