"""Translators between the ports of the controller and the world. They never decide."""
