"""Frozen values and their invariants. Standard library and numpy only; nothing here reads a clock or does I/O."""
