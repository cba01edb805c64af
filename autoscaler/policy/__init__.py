"""The stages of a decision, one file each, pure: measure, forecast, size, stabilize, limit, pack.

``deciding.py`` is the picture of the whole; every stage takes values and ``now_s`` and returns a value with its reason.
"""
