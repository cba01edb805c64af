"""GPUs read through what exporters and drivers say of them.

``devices_on``: the devices of a metrics page that was split into samples already, whichever exporter made it.
``dcgm``: NVIDIA's dcgm-exporter; ``amd``: AMD's device-metrics-exporter; ``nvml``: the driver of this machine.
"""
