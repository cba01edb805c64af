"""The cluster as Kubernetes shows it: one connection, collections kept current, leadership, events."""
