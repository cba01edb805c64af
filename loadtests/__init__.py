"""Load and its measurement: arrivals from traces and formulas, a harness, an engine emulator, the
scorecard, the demo.
"""
