"""What the commands of ``autoscaler.cli`` do, a module for each group: the one that is given is imported, no other."""
