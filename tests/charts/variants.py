"""Values of all kinds with which the chart is rendered."""

from __future__ import annotations

from typing import Any

import pytest

HPA: dict[str, Any] = {"externalMetrics": {"enabled": True, "apiService": {"create": True}}}
KEDA: dict[str, Any] = {"externalScaler": {"enabled": True}}
GATEWAY: dict[str, Any] = {"gateway": {"enabled": True}}
MUTUAL: dict[str, Any] = {"externalScaler": {"enabled": True, "tls": {"enabled": True, "clientCaSecret": "keda-ca"}}}
VARIANTS: list[Any] = [
    pytest.param({}, id="defaults"),
    pytest.param({"mode": "Scale"}, id="scale"),
    pytest.param({"mode": "Scale", "targets": {"rayServices": True, "nimServices": True}}, id="scale whole objects"),
    pytest.param(
        {"mode": "Scale", "targets": {"deployments": False, "statefulSets": False, "leaderWorkerSets": False}},
        id="scale nothing",
    ),
    pytest.param({"namespaces": ["chat", "search"], "mode": "Scale"}, id="namespaces"),
    pytest.param(KEDA, id="KEDA alone"),
    pytest.param(MUTUAL, id="KEDA with certificates"),
    pytest.param(HPA, id="HPA alone"),
    pytest.param({**HPA, **KEDA}, id="HPA and KEDA"),
    pytest.param({**HPA, "certificates": {"source": "certManager"}}, id="cert-manager"),
    pytest.param(
        {**HPA, "certificates": {"source": "certManager", "certManager": {"issuerRef": {"name": "company"}}}},
        id="cert-manager with an issuer",
    ),
    pytest.param(
        {
            **HPA,
            "certificates": {
                "source": "secret",
                "secret": {
                    "name": "mine",
                    "caBundle": "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
                },
            },
        },
        id="a Secret",
    ),
    pytest.param({"runAsUser": None}, id="any user"),
    pytest.param(GATEWAY, id="gateway"),
    pytest.param({**GATEWAY, "namespaces": ["chat"]}, id="gateway of one namespace"),
    pytest.param({**GATEWAY, "namespaces": ["chat", "search"]}, id="gateway of two namespaces"),
    pytest.param(
        {"gateway": {"enabled": True, "replicaCount": 1, "port": 9000, "metricsPort": 9001, "servicePort": 8000}},
        id="one gateway at other ports",
    ),
    pytest.param(
        {**GATEWAY, "networkPolicy": {"enabled": True, "gatewayFrom": [{"namespaceSelector": {}}]}},
        id="gateway with a policy",
    ),
    pytest.param({"replicaCount": 1}, id="one replica"),
    pytest.param({"replicaCount": 0}, id="none"),
    pytest.param({"state": {"kind": "volume", "storageClass": "fast"}}, id="volume"),
    pytest.param({"api": {"open": True}, "monitoring": {"scrapeAnnotations": True}}, id="open"),
    pytest.param({"api": {"tokenSecret": "mine"}}, id="a token of one's own"),
    pytest.param({"networkPolicy": {"enabled": True}, **HPA, **KEDA}, id="policy"),
    pytest.param(
        {
            "networkPolicy": {
                "enabled": True,
                "apiServerCidrs": ["10.0.0.1/32"],
                "metricsPorts": [8000],
                "apiFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
            },
            **HPA,
        },
        id="narrow policy",
    ),
    pytest.param(
        {
            "monitoring": {
                "serviceMonitor": {"enabled": True},
                "alerts": {"enabled": True, "runbook": "https://example.com/runbook.html"},
                "dashboard": {"enabled": True},
            }
        },
        id="monitoring",
    ),
    pytest.param(
        {
            "intervalSeconds": 2,
            "forecast": {"quantile": 0.9},
            "retention": {"decisions": "2d"},
            "nodeAutoscaling": True,
            "listenAddress": "::",
        },
        id="configuration",
    ),
    pytest.param(
        {
            "fullnameOverride": "scaler",
            "extraLabels": {"team": "serving"},
            "imagePullSecrets": [{"name": "registry"}],
            "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "podLabels": {"a": "b"},
            "podAnnotations": {"c": "d"},
            "serviceAccount": {"annotations": {"e": "f"}},
            "image": {"digest": "sha256:" + "0" * 64},
        },
        id="everything of pods",
    ),
    pytest.param({"serviceAccount": {"create": False, "name": "mine"}, "rbac": {"create": False}}, id="no rights"),
]
