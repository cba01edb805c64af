"""This machine as a cluster: replicas as processes, devices, a gateway in front of them, state in one SQLite file."""
