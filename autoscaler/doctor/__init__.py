"""What is wrong with an installation, and what to do about it: facts are gathered once, then checked by pure functions.

``gathering`` asks the cluster and makes ``facts``; each other module holds checks of one area, ``examination`` runs
them all, so that one that fails hides no other; ``screen`` shows the findings.
"""
