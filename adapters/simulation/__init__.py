"""A world in virtual time: replicas that serve recorded traffic, for the controller that runs everywhere else.

``requests`` is what arrives, ``serving`` what a fleet of replicas owes to the rest of the simulation, ``step_times``
an engine's coefficients and limits. ``clock`` is time and the queue of what happens, ``cluster`` the Inventory and
ReplicaActuator, ``source`` the MetricsSource, ``faulty_ports`` all three with the ``faults`` of a schedule. Times are
seconds from the begin of the run; engines count in whole picoseconds.
"""
