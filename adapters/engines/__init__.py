"""Inference engines by their metrics pages.

``exposition`` reads pages, ``signals`` says what a table of an engine holds, and each file named after an engine is
such a table. ``selection``, ``scalars`` and ``histograms`` carry a table out, ``detection`` tells whose page it is,
``page_reader`` puts these together; ``fetching`` and ``pods`` get the pages of all replicas, ``page_source`` and
``reading_report`` explain one.
``gateway_pages``, ``gateway_joining`` and ``gateway_scraper`` do the same for the gateways in front of them.

Another engine is one more table, listed in ``detection.TABLES``, and its pages in the tests.
"""
