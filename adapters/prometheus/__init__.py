"""Engines read through a Prometheus that scrapes them, or through what answers its queries (Thanos, Mimir, Cortex).

``settings`` says which one and how it is asked, ``credentials`` what is shown to it, ``client`` asks, ``answers`` reads
what it says, ``promql`` writes the queries. ``scrapes`` puts the samples of one scrape together again as a page, which
the engines' own reader reads: what it makes of a fleet is therefore what it makes of directly scraped pages.
``source`` is the MetricsSource, ``history`` the past demand.

Plain HTTP by aiohttp: prometheus-api-client 0.7 drops the warnings of an answer, with which Thanos tells that a part is
missing, bounds neither an answer's size nor its whole time, and blocks a thread for each query.
"""
