"""Workloads of simulated runs: recorded requests, recorded rates and formulas.

``workload`` what one is; ``recorded`` single requests of a trace; ``rate_series`` rates, with ``within_bins`` for what
happens between two of them; ``request_files`` and ``rate_files`` CSV -> either; ``choosing`` a word typed by a user ->
a workload; ``public_traces``, ``fetching`` and ``servegen_archive`` the public ones.
"""
