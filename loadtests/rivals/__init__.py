"""Other autoscalers, from their documented formulas and defaults, on the same traffic as ours.

One file each, with the public source of every formula and default. Where a document leaves something open, the reading
that is best for the rival is taken, and its docstring says so.
"""
