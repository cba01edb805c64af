"""Measurements of what a run costs; each is a module to run with python -m."""
