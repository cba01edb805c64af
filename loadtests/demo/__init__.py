"""``make demo``: the whole system on this machine under a real trace, sped up.

``engines`` says what runs, ``configuration`` writes the controller's file, ``stack`` holds the processes, ``api`` asks
the controller, ``view`` shows the progress, ``baselines`` computes what other fleets would have cost, ``run`` does it
all.
"""
