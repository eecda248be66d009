"""Builders of the resource's spec."""

from __future__ import annotations

from statefulspark_operator.api.spec import StatefulSparkJobSpec

SPEC: dict[str, object] = {
    "image": "i:1",
    "job": {"file": "/j.py"},
    "storage": {"uri": "s3://state/jobs"},
    "upgrade": {"strategy": "Cold"},
}
"""What every spec has to say; and cold upgrades, so that a test that wants a standby says so."""

FULL: dict[str, object] = {
    "image": "registry.example/flights:2",
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": [{"name": "registry"}],
    "job": {"file": "/opt/job/flights.py", "parameters": {"topic": "flights"}},
    "driver": {
        "heap": "2Gi",
        "resources": {"requests": {"cpu": "500m", "memory": "3Gi"}, "limits": {"memory": "4Gi"}},
        "envFrom": [{"secretRef": {"name": "all"}}],
        "env": [
            {"name": "TZ", "value": "UTC"},
            {"name": "KAFKA_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "kafka", "key": "password"}}},
        ],
        "terminationGracePeriodSeconds": 120,
        "tls": {"secretRef": {"name": "flights-tls"}},
        "podTemplate": {
            "metadata": {"annotations": {"team": "a"}, "labels": {"team": "a", "statefulspark.io/epoch": "99"}},
            "spec": {
                "nodeSelector": {"disk": "fast"},
                "tolerations": [{"key": "dedicated", "operator": "Exists"}],
                "containers": [
                    {"name": "driver", "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}]},
                    {"name": "proxy", "image": "registry.example/proxy:1"},
                ],
                "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
            },
        },
    },
    "executor": {"instances": 2, "cores": 2, "heap": "3Gi"},
    "storage": {
        "uri": "s3://state/jobs",
        "s3": {
            "endpoint": "https://s3.example:9000",
            "region": "eu-central-1",
            "addressing": "Path",
            "credentialsSecretRef": {"name": "s3"},
            "caSecretRef": {"name": "s3-ca", "key": "ca.crt"},
        },
    },
    "checkpoint": {
        "interval": "30s",
        "timeout": "5m",
        "minPause": "1s",
        "retention": {"count": 5},
        "tolerableFailures": 1,
    },
    "savepoint": {"location": "s3://savepoints/flights"},
    "sparkConf": {"spark.sql.shuffle.partitions": "8"},
}
"""One that sets something of every kind."""


def a_spec(image: str = "i:1", **changes: object) -> StatefulSparkJobSpec:
    """Build a spec, with what a test changes."""
    return StatefulSparkJobSpec.model_validate({**SPEC, "image": image, **changes})
