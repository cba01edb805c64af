"""Whole runs in virtual time: the shipped controller, or a rival, on one workload in one simulated world.

``setup`` says what is simulated, ``run.simulate`` does it, ``result`` is what comes out. Whoever decides, everything
else is the same: workload, start-up times, faults, limits, accounting.
"""
