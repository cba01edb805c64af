"""A world in virtual time: replicas that serve recorded traffic, for the controller that runs everywhere else.

``requests`` is what arrives, ``serving`` what a fleet of replicas owes to the rest of the simulation, ``step_times``
an engine's coefficients and limits. Times are seconds from the begin of the run; engines count in whole picoseconds.
"""
