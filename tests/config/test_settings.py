"""What a file comes to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from adapters.local.journal import Retention
from adapters.local.template import GatewaySettings, ReplicaTemplate, RoutePolicy
from adapters.serving.auth import ApiSettings
from autoscaler.config import OpenDevices, Settings, load
from autoscaler.config.shape import all_paths
from autoscaler.domain.capacity import StepTime
from autoscaler.domain.cluster import Device
from autoscaler.domain.params import Params
from autoscaler.domain.service import (
    Behavior,
    Bounds,
    DeviceRequest,
    Engine,
    IdlePolicy,
    PolicyType,
    RatePolicy,
    ScalingRules,
    SelectPolicy,
    Service,
    ServiceId,
    Slo,
    Variant,
)
from predictors.profiles import find_profile

Read = Callable[[str], Settings]
CHAT = ServiceId("chat")


def test_the_smallest_file_leaves_everything_to_the_defaults(read: Read, service_text: str, tmp_path: Path) -> None:
    slo = Slo(ttft_s=2.0, itl_s=0.05)
    variant = Variant(name="default")
    assert read(service_text) == Settings(
        services=(Service(id=CHAT, slo=slo, variants=(variant,)),),
        templates=(
            ReplicaTemplate(
                service=CHAT,
                variant=variant,
                command=("vllm", "serve", "org/model", "--port", "{port}"),
                model="org/model",
            ),
        ),
        routes=(RoutePolicy(service=CHAT, models=("org/model",), slo=slo),),
        devices=None,
        open_devices=(OpenDevices(service=CHAT, variant="default", count=1),),
        params=Params(),
        gateway=GatewaySettings(),
        api=ApiSettings(),
        state_dir=tmp_path / "state",
        retention=Retention(),
        stop_replicas_on_exit=True,
    )


def test_the_smallest_example_has_five_lines() -> None:
    assert len(Path("examples/minimal.yaml").read_text(encoding="utf-8").splitlines()) == 5
    assert load("examples/minimal.yaml").services[0].bounds.max_replicas == 4


def test_the_documented_example_parses_to_exactly_the_defaults(read: Read, service_text: str) -> None:
    full = read(Path("examples/full.yaml").read_text(encoding="utf-8"))
    assert full == read(service_text)


def test_the_documented_example_has_every_key() -> None:
    text = Path("examples/full.yaml").read_text(encoding="utf-8")
    missing = [path for path, _ in all_paths() if f"{path[-1]}:" not in text]
    assert missing == []


def test_every_wish_reaches_its_place(read: Read, tmp_path: Path) -> None:
    settings = read(
        """\
        services:
          - name: chat
            engine: vllm
            model: [llama, llama-latest]
            slo: {ttft: 500ms, itl: 0.02, share: 0.95}
            command: [serve, --port, '{port}']
            env: {THREADS: 4, HF_HOME: /models}
            cwd: work
            readyPath: /ready
            metricsPath: /m
            gracePeriod: 30
            startup: 80s
            startDeadline: 5m
            minReplicas: 0
            maxReplicas: 6
            spare: 1
            priority: 7
            cost: 3.5
            maxNumSeqs: 64
            idle: {after: 10m, minUptimeFactor: 3}
            requests: {maxWaiting: 5, maxWait: 1m, timeout: 1h}
            behavior:
              scaleUp: {stabilizationWindowSeconds: 30, tolerance: 0.1}
              scaleDown:
                selectPolicy: Min
                policies: [{type: Percent, value: 10, periodSeconds: 60}]
            variants:
              - name: slice
                cost: 0.5
                devices: {kind: mig-1g.10gb}
                stepTime: {c: 6.4ms, d: 10us, e: 41ns, a: 24us}
                kvTokens: 100000
                env: {THREADS: 2}
              - {name: whole, devices: {count: 2}, command: 'big --port {port}', maxNumSeqs: 256}
        inventory: {devices: [0, 1, {id: MIG-1, kind: mig-1g.10gb}]}
        forecast: {enabled: false, quantile: 0.9}
        gateway: {host: 0.0.0.0, port: 80, maxBody: 1MiB, connectTimeout: 500ms}
        api: {port: 81, token: 0123456789abcdef, allowedHosts: [scaler.example]}
        stateDir: /var/lib/scaler
        retention: {decisions: 2d, inputs: 1h, maxSize: 64MiB}
        stopReplicasOnExit: false
        """
    )
    slo = Slo(ttft_s=0.5, itl_s=0.02, share=0.95)
    step_time = StepTime(c_s=6.4e-3, d_s=1e-5, e_s=4.1e-8, a_s=2.4e-5)
    piece = Variant(
        name="slice",
        cost=0.5,
        devices=DeviceRequest(kind="mig-1g.10gb", count=1),
        step_time=step_time,
        max_num_seqs=64,
        kv_tokens=100_000,
    )
    whole = Variant(name="whole", cost=3.5, devices=DeviceRequest(kind="gpu", count=2), max_num_seqs=256)
    service = Service(
        id=CHAT,
        slo=slo,
        variants=(piece, whole),
        engine=Engine.VLLM,
        bounds=Bounds(min_replicas=0, max_replicas=6, spare=1),
        behavior=Behavior(
            scale_up=ScalingRules(stabilization_window_s=30.0, tolerance=0.1),
            scale_down=ScalingRules(
                select_policy=SelectPolicy.MIN,
                policies=(RatePolicy(type=PolicyType.PERCENT, value=10, period_s=60.0),),
            ),
        ),
        idle=IdlePolicy(after_s=600.0, min_uptime_factor=3.0),
        priority=7,
        startup_s=80.0,
        start_deadline_s=300.0,
    )
    shared = {
        "service": CHAT,
        "cwd": str(tmp_path / "work"),
        "model": "llama",
        "ready_path": "/ready",
        "metrics_path": "/m",
    }
    assert settings.services == (service,)
    assert settings.templates == (
        ReplicaTemplate(
            variant=piece,
            command=("serve", "--port", "{port}"),
            env=(("HF_HOME", "/models"), ("THREADS", "2")),
            grace_period_s=30.0,
            start_deadline_s=300.0,
            **shared,  # type: ignore[arg-type]
        ),
        ReplicaTemplate(
            variant=whole,
            command=("big", "--port", "{port}"),
            env=(("HF_HOME", "/models"), ("THREADS", "4")),
            grace_period_s=30.0,
            start_deadline_s=300.0,
            **shared,  # type: ignore[arg-type]
        ),
    )
    assert settings.routes == (
        RoutePolicy(
            service=CHAT,
            models=("llama", "llama-latest"),
            slo=slo,
            max_waiting=5,
            max_wait_s=60.0,
            request_timeout_s=3600.0,
        ),
    )
    assert settings.devices == (Device(id="0"), Device(id="1"), Device(id="MIG-1", kind="mig-1g.10gb"))
    assert settings.params == Params(interval_s=5.0, forecasting=False, initial_quantile=0.9)
    assert settings.gateway == GatewaySettings(host="0.0.0.0", port=80, max_body_bytes=2**20, connect_timeout_s=0.5)
    assert settings.api == ApiSettings(port=81, token="0123456789abcdef", allowed_hosts=("scaler.example",))
    assert settings.state_dir == Path("/var/lib/scaler")
    assert settings.retention == Retention(decisions_s=172800.0, inputs_s=3600.0, max_bytes=64 * 2**20)
    assert not settings.stop_replicas_on_exit


@pytest.mark.parametrize(
    ("more", "kv_tokens"),
    [
        pytest.param("", None, id="of the profile"),
        pytest.param("    kvTokens: 1000", 1000.0, id="given"),
    ],
)
@pytest.mark.parametrize("name", ["h100_sxm/Meta-Llama-3.1-8B/tp1", "H100/meta-llama/Llama-3.1-8B-Instruct/tp1"])
def test_a_profile_is_found_by_its_usual_names(
    read: Read, service_text: str, name: str, more: str, kv_tokens: float | None
) -> None:
    profile = find_profile(gpu="h100_sxm", model="Meta-Llama-3.1-8B", tp=1)
    (variant,) = read(service_text + f"    stepTime: {{profile: {name}}}\n" + more).services[0].variants
    assert variant.step_time == profile.step_time
    assert variant.kv_tokens == (profile.kv_tokens if kv_tokens is None else kv_tokens)


@pytest.mark.parametrize(
    ("more", "interval_s"),
    [
        pytest.param("    startup: 89s", 5.0, id="quick start"),
        pytest.param("    startup: 90s", 15.0, id="slow start"),
        pytest.param("    startup: 89s\nintervalSeconds: 1", 1.0, id="given"),
    ],
)
def test_the_interval_follows_the_start_up_time(read: Read, service_text: str, more: str, interval_s: float) -> None:
    assert read(service_text + more).params.interval_s == interval_s


GPUS = (Device(id="0"), Device(id="1"))
SLICES = (Device(id="MIG-1", kind="mig-1g.10gb"), Device(id="MIG-2", kind="mig-1g.10gb"))


@pytest.mark.parametrize(
    ("devices", "request_"),
    [
        pytest.param((), None, id="no devices"),
        pytest.param(GPUS, DeviceRequest(kind="gpu", count=2), id="gpus"),
        pytest.param(SLICES, DeviceRequest(kind="mig-1g.10gb", count=2), id="slices of one kind"),
        pytest.param(GPUS + SLICES, DeviceRequest(kind="gpu", count=2), id="gpus and slices"),
        pytest.param((SLICES[0], Device(id="MIG-3", kind="mig-2g.20gb")), None, id="slices of two kinds"),
    ],
)
def test_devices_left_open_are_settled_by_the_inventory(
    read: Read, devices: tuple[Device, ...], request_: DeviceRequest | None
) -> None:
    text = "services: [{name: chat, slo: {e2e: 1s}, maxReplicas: 1, command: 'serve -tp 2 --port {port}'}]"
    settings = read(text).settled(devices)
    assert settings.services[0].variants[0].devices == request_
    assert settings.templates[0].variant == settings.services[0].variants[0]
    assert settings.devices == devices
    assert settings.open_devices == ()
    assert len(settings.warnings) == (1 if request_ is None and devices else 0)


def test_devices_that_are_given_are_not_settled_anew(read: Read, service_text: str) -> None:
    settings = read(service_text + "    devices: {count: 0}").settled(GPUS)
    assert settings.services[0].variants[0].devices is None


class TestToken:
    def test_from_a_file(self, read: Read, service_text: str, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("0123456789abcdef\n", encoding="utf-8")
        assert read(service_text + "api: {tokenFile: token}").api.token == "0123456789abcdef"

    def test_from_the_environment(self, read: Read, service_text: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SCALER_TOKEN", "0123456789abcdef")
        assert read(service_text + "api: {tokenEnv: SCALER_TOKEN}").api.token == "0123456789abcdef"

    def test_missing_is_told(self, problems: Callable[[str], list[str]], service_text: str) -> None:
        assert problems(service_text + "api: {tokenFile: absent}") == [
            "6:18 api.tokenFile: absent can't be read: No such file or directory"
        ]
        assert problems(service_text + "api: {tokenEnv: NO_SUCH_VARIABLE}") == [
            "6:17 api.tokenEnv: the environment variable NO_SUCH_VARIABLE is not set"
        ]


class TestEffective:
    def test_it_means_the_same_with_nothing_left_out(self, read: Read, service_text: str) -> None:
        settings = read(service_text + "    minReplicas: 0\n    variants: [{name: a, cost: 2}]\nstateDir: /s\n")
        again = read(settings.effective)
        assert again == settings
        assert again.effective == settings.effective

    def test_it_has_every_default(self, read: Read, service_text: str) -> None:
        plain = yaml.safe_load(read(service_text).effective)
        top = [path[0] for path, _ in all_paths() if len(path) == 1]
        assert list(plain) == top
        assert plain["services"][0]["model"] == ["org/model"]
        assert plain["intervalSeconds"] == 15.0

    def test_it_keeps_secrets(self, read: Read) -> None:
        secret = "s3cret-s3cret-s3cret"
        settings = read(
            f"""\
            services:
              - name: chat
                slo: {{e2e: 1s}}
                command: serve --port {{port}} --api-key {secret}
                env: {{HF_TOKEN: {secret}, THREADS: 4}}
                variants: [{{name: a, env: {{API_KEY: {secret}}}, command: 'serve {{port}} --api-key={secret}'}}]
            api: {{token: {secret}}}
            """
        )
        assert secret not in settings.effective
        assert secret not in repr(settings.api)
        assert "THREADS: '4'" in settings.effective
        assert settings.api.token == secret
