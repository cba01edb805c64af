"""Comparisons: traces x policies x seeds x knobs -> a table, CSV, JSON and one page that explains itself.

``study`` what is to be run; ``choosing`` what a user typed -> a study; ``engines`` how much a simulated engine bears;
``running`` one run; ``records`` its figures; ``store`` where they are kept; ``executing`` all runs over cores;
``rounds`` which runs are needed; ``standings`` what they come to; ``findings`` in words; ``view``, ``exports``,
``charts`` and ``page`` for readers; ``command`` the command line; ``scorecard`` the documented one.
"""
