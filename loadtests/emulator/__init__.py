"""An inference engine without a GPU: vLLM's HTTP interface over a timed model of its batching, with the metrics page
of vLLM, TGI, SGLang or Triton.

``batching`` is the pure model, ``metrics_page`` what pages are told of it, ``page`` (vLLM's), ``tgi_page``,
``sglang_page`` and ``triton_page`` the metrics, ``plain_series`` how the latter three print them, ``faults`` what can
be made to go wrong, ``stepping`` the loop in real time, ``server`` the HTTP surface, ``settings`` the command line.
Nothing here is shared with the controller's own capacity model, so the one can test the other.
"""
