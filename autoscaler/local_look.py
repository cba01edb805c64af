"""One look at this machine's services, beside a running controller or without one: observe, decide, change nothing."""

from __future__ import annotations

from adapters.engines.pods import PodScraper
from adapters.local.devices import find_devices, load_nvml
from adapters.local.gateway_client import GatewayClient
from adapters.local.gateway_ports import GatewaySource
from adapters.local.recording import Recording
from adapters.wallclock import WallClock
from autoscaler.compose import JoinedSource, build_models
from autoscaler.config import Settings
from autoscaler.domain.plan import Decision
from autoscaler.domain.state import ControllerState
from autoscaler.policy.deciding import decide


def look_once(settings: Settings, *, after_s: float) -> Decision:
    """Decide from two observations ``after_s`` apart (rates need two). Raises PortError where no fleet is recorded.

    The memory begins empty, so nothing would be lowered; what the running controller remembers is in ``explain``.
    """
    clock = WallClock()
    devices = settings.devices if settings.devices is not None else find_devices(load_nvml(), visible=None).devices
    settings = settings.settled(devices)
    recording = Recording(settings.state_dir)
    engines = {service.id: service.engine for service in settings.services}
    gateway = GatewaySource(GatewayClient(settings.state_dir / "gateway.sock"), clock)
    models, state, decision = build_models(), ControllerState(services={}), None
    with PodScraper(clock=clock, engines=engines) as scraper:
        source = JoinedSource([scraper, gateway])
        for wait_s in (0.0, after_s):
            clock.wait_until(clock.now_s() + wait_s)
            snapshot = recording.fleet(at_s=clock.now_s(), devices=tuple(devices))
            observations = source.read(snapshot)
            decision, state = decide(
                now_s=clock.now_s(),
                state=state,
                services=settings.services,
                snapshot=snapshot,
                observations=observations,
                models=models,
                params=settings.params,
            )
    assert decision is not None
    return decision
