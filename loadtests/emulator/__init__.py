"""An inference engine without a GPU: vLLM's HTTP interface and metrics page over a timed model of its
batching.

``batching`` is the pure model, ``page`` the metrics, ``faults`` what can be made to go wrong, ``stepping``
the loop in real time, ``server`` the HTTP surface, ``settings`` the command line. Nothing here is shared with
the controller's own capacity model, so the one can test the other.
"""
