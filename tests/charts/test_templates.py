"""What the chart makes for all kinds of values, rendered by the real helm."""

from __future__ import annotations

import subprocess
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from autoscaler.config import Settings, load
from tests.charts.rendering import CHART, NAMESPACE, RELEASE, Json, RefusedByHelm, of_kind, one, render
from tests.charts.variants import GATEWAY, HPA, MUTUAL, VARIANTS
from tests.cluster.build import program

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("values", VARIANTS)
def test_it_lints(values: Mapping[str, object], tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    command = (str(program("helm")), "lint", "--strict", str(CHART), f"--values={file}")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", VARIANTS)
def test_every_object_is_labelled_and_placed(values: Mapping[str, object]) -> None:
    objects = render(values)
    seen = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(set(seen)) == len(seen)
    for each in objects:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert all(isinstance(value, str) for value in labels.values())
        if each["kind"] not in ("ClusterRole", "ClusterRoleBinding", "APIService"):
            assert each["metadata"]["namespace"]


def workloads(objects: list[Json]) -> list[Json]:
    return of_kind(objects, "Deployment") + of_kind(objects, "StatefulSet")


def of_component(workload: Json) -> str:
    return str(workload["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"])


def workload(objects: list[Json], component: str = "controller") -> Json:
    (found,) = (each for each in workloads(objects) if of_component(each) == component)
    return found


def config_of(objects: list[Json], name: str = RELEASE) -> Json:
    (found,) = (each for each in of_kind(objects, "ConfigMap") if each["metadata"]["name"] in (name, "scaler"))
    return found


@pytest.mark.parametrize("values", VARIANTS)
def test_pods_keep_the_restricted_standard(values: Mapping[str, object]) -> None:
    """Kubernetes docs, "Pod Security Standards", Restricted."""
    objects = render(values)
    pods = [each["spec"]["template"]["spec"] for each in workloads(objects)]
    for spec in (*pods, one(objects, "Pod")["spec"]):
        context = spec["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context.get("runAsUser") == values.get("runAsUser", 65532)
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not spec.keys() & {"hostNetwork", "hostPID", "hostIPC"}
        assert {key for volume in spec.get("volumes", ()) for key in volume} <= {
            *("name", "configMap", "emptyDir", "projected"),
        }
        for container in spec["containers"]:
            inner = container["securityContext"]
            assert inner["allowPrivilegeEscalation"] is False
            assert inner["readOnlyRootFilesystem"] is True
            assert inner["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


@pytest.mark.parametrize("values", VARIANTS)
def test_whatever_is_named_is_there(values: Mapping[str, object]) -> None:
    """Services select the pods and their ports by name, probes and mounts too."""
    objects = render(values)
    made = {of_component(each): each for each in workloads(objects)}
    ports = {component: ports_of(each) for component, each in made.items()}
    for service in of_kind(objects, "Service"):
        (component,) = selected(service["spec"]["selector"], made)
        assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports[component].keys()
    for policy in of_kind(objects, "NetworkPolicy"):
        (component,) = selected(policy["spec"]["podSelector"]["matchLabels"], made)
        named = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert named == ports[component].keys()
    for budget in of_kind(objects, "PodDisruptionBudget"):
        assert len(selected(budget["spec"]["selector"]["matchLabels"], made)) == 1
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    for component, each in made.items():
        template = each["spec"]["template"]
        (container,) = template["spec"]["containers"]
        assert selected(each["spec"]["selector"]["matchLabels"], made) == [component]
        probes = [container[probe] for probe in container if probe.endswith("Probe")]
        assert {probe["httpGet"]["port"] for probe in probes} <= ports[component].keys()
        assert {"livenessProbe", "readinessProbe"} <= container.keys()
        volumes = {volume["name"] for volume in template["spec"]["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", ())}
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
        assert template["spec"]["serviceAccountName"] in accounts | {"mine"}


def selected(selector: Mapping[str, str], made: Mapping[str, Json]) -> list[str]:
    """The components whose pods it selects."""
    return [
        component
        for component, each in made.items()
        if selector.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    ]


def ports_of(made: Json) -> dict[str, int]:
    """Of the pods of a workload, by name."""
    (container,) = made["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["containerPort"] for each in container["ports"]}


def _settings(objects: list[Json], folder: Path) -> Settings:
    """As the program reads them in the pod."""
    (projected,) = (
        each["projected"] for each in workload(objects)["spec"]["template"]["spec"]["volumes"] if "projected" in each
    )
    text = config_of(objects)["data"]["config.yaml"]
    for source in projected["sources"]:
        ((_, content),) = source.items()
        for item in content["items"]:
            file = folder / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(
                text.replace("/etc/gpu-autoscaler", str(folder)) if item["key"] == "config.yaml" else "x" * 20
            )
    return load(folder / "config.yaml")


@pytest.mark.parametrize("values", [each for each in VARIANTS if each.id != "monitoring"])
def test_the_program_takes_the_configuration(values: Mapping[str, Any], tmp_path: Path) -> None:
    objects = render(values)
    settings = _settings(objects, tmp_path)
    kubernetes = settings.kubernetes
    assert kubernetes is not None
    assert list(kubernetes.namespaces) == values.get("namespaces", [])
    assert kubernetes.node_autoscaling == values.get("nodeAutoscaling", False)
    assert (kubernetes.external_metrics is not None) == ("externalMetrics" in values)
    assert (kubernetes.external_scaler is not None) == ("externalScaler" in values)
    assert (settings.api.token is None) == values.get("api", {}).get("open", False)
    assert settings.api.host == values.get("listenAddress", "0.0.0.0")
    election = kubernetes.election
    assert election is not None
    leases = [rule for role in of_kind(objects, "Role") for rule in role["rules"] if "resourceNames" in rule]
    assert {name for rule in leases for name in rule["resourceNames"]} <= {election.lease_name}
    ports = ports_of(workload(objects))
    assert ports["http"] == settings.api.port
    if kubernetes.external_metrics is not None:
        assert ports["metrics"] == kubernetes.external_metrics.port
    if kubernetes.external_scaler is not None:
        assert ports["grpc"] == kubernetes.external_scaler.port
    if values is MUTUAL:
        scaler = kubernetes.external_scaler
        assert scaler is not None
        assert scaler.client_ca_file is not None
        assert scaler.client_ca_file.exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({"mode": "Both"}, "mode", id="mode"),
        pytest.param({"replicaCounts": 3}, "replicaCounts", id="a typing mistake"),
        pytest.param({"monitoring": {"scrapeAnnotations": True}}, "would answer 401", id="annotations without token"),
        pytest.param({"api": {"open": True, "tokenSecret": "a"}}, "everybody is let in", id="token and open"),
        pytest.param({"externalMetrics": {"apiService": {"create": True}}}, "nothing would answer", id="APIService"),
        pytest.param({"externalScaler": {"tls": {"clientCaSecret": "a"}}}, "over TLS alone", id="client certificates"),
        pytest.param({**HPA, "certificates": {"source": "secret"}}, "name the Secret", id="no Secret"),
        pytest.param(
            {**HPA, "certificates": {"source": "secret", "secret": {"name": "a"}}}, "has no ca.crt", id="no authority"
        ),
        pytest.param(
            {"certificates": {"selfSigned": {"validityDays": 365, "caValidityDays": 30}}}, "at most", id="authority"
        ),
        pytest.param(
            {"externalScaler": {"enabled": True, "port": 8090}}, "8090 is the port of api too", id="one port twice"
        ),
        pytest.param({"podDisruptionBudget": {"minAvailable": 2}}, "no node could be drained", id="budget"),
        pytest.param({**GATEWAY, "nameOverride": "scaler"}, "set fullnameOverride instead", id="gateway's name"),
        pytest.param({"gateway": {"enabled": True, "metricsPort": 8080}}, "port for clients too", id="gateway's ports"),
        pytest.param({"gateway": {"enabled": True, "minAvailable": 2}}, "no node could be drained", id="its budget"),
    ],
)
def test_what_can_not_be_right_is_refused(values: Mapping[str, object], message: str) -> None:
    with pytest.raises(RefusedByHelm, match=message):
        render(values)


def test_defaults_touch_nothing_that_the_whole_cluster_shares() -> None:
    kinds = {each["kind"] for each in render()}
    assert kinds == {
        *("ServiceAccount", "Secret", "ConfigMap", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
        *("Service", "Deployment", "PodDisruptionBudget", "Pod"),
    }


def test_a_single_replica_can_be_drained() -> None:
    assert of_kind(render({"replicaCount": 1}), "PodDisruptionBudget") == []


def test_a_volume_for_each_replica() -> None:
    made = one(render({"state": {"kind": "volume"}}), "StatefulSet")
    (claim,) = made["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_a_changed_configuration_makes_new_pods() -> None:
    def checksum(values: Mapping[str, object]) -> str:
        annotations = workload(render(values))["spec"]["template"]["metadata"]["annotations"]
        return str(annotations["checksum/config"])

    assert checksum({}) == checksum({"replicaCount": 3})
    assert checksum({}) != checksum({"intervalSeconds": 3})


def test_the_certificate_is_good_for_both_servers_and_signed_by_what_is_trusted() -> None:
    objects = render({**HPA, **MUTUAL})
    secrets = {each["metadata"]["name"]: each["data"] for each in of_kind(objects, "Secret")}
    assert "ca.key" not in secrets[f"{RELEASE}-tls"], "pods never see the authority's key"
    authority, leaf = (
        x509.load_pem_x509_certificate(b64decode(text))
        for text in (one(objects, "APIService")["spec"]["caBundle"], secrets[f"{RELEASE}-tls"]["tls.crt"])
    )
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {f"{RELEASE}-metrics.{NAMESPACE}.svc", f"{RELEASE}.{NAMESPACE}.svc"} <= set(
        names.get_values_for_type(x509.DNSName)
    )
    key, algorithm = authority.public_key(), leaf.signature_hash_algorithm
    assert isinstance(key, rsa.RSAPublicKey)
    assert algorithm is not None
    key.verify(leaf.signature, leaf.tbs_certificate_bytes, padding.PKCS1v15(), algorithm)
    assert leaf.not_valid_after_utc < authority.not_valid_after_utc


def test_cert_manager_fills_in_the_authority() -> None:
    objects = render({**HPA, "certificates": {"source": "certManager"}})
    service = one(objects, "APIService")
    names = {each["metadata"]["name"]: each["spec"] for each in of_kind(objects, "Certificate")}
    named = service["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
    assert named == f"{NAMESPACE}/{RELEASE}"
    assert "caBundle" not in service["spec"]
    assert f"{RELEASE}-metrics.{NAMESPACE}.svc" in names[RELEASE]["dnsNames"]
    assert names[f"{RELEASE}-ca"]["isCA"] is True


def test_alerts_lead_to_the_runbook_that_is_told() -> None:
    values = {"monitoring": {"alerts": {"enabled": True, "runbook": "https://example.com/runbook.html"}}}
    rule = one(render(values), "PrometheusRule")
    urls = [each["annotations"]["runbook_url"] for group in rule["spec"]["groups"] for each in group["rules"]]
    assert urls
    assert all(url.startswith("https://example.com/runbook.html#") for url in urls)
    # Prometheus' own templates have come through helm's.
    assert "{{ $labels.service }}" in str(rule)


def test_the_monitor_shows_the_token() -> None:
    monitor = one(render({"monitoring": {"serviceMonitor": {"enabled": True}}}), "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": f"{RELEASE}-token", "key": "token"}
