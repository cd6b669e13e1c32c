"""What a person replaces in a template: `<NAME>`, its meaning and a value that fits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"<([A-Z][A-Z0-9_]*)>")

PLACEHOLDERS: Mapping[str, tuple[str, str]] = {
    "IMAGE": ("the image to run, with its tag", "registry.example.com/sidecar:0.1.0"),
    "PIPELINE": ("a pipeline file in the image's /app/configs/pipelines", "filters_v1.yaml"),
    "MAIN_PREFIX": ("the main dataset", "s3://example-bucket/images/main/"),
    "OUTPUT_PREFIX": ("where the output goes", "s3://example-bucket/images/sidecar/"),
    "OUTPUT_512": ("where the pictures of 512 x 512 area go", "s3://example-bucket/images/0_262mp/"),
    "OUTPUT_1024": ("where the pictures of 1024 x 1024 area go", "s3://example-bucket/images/1_05mp/"),
    "WORKERS": ("actors, as `sidecar plan` says", "32"),
    "INFLIGHT": ("tasks at a time, as `sidecar plan` says", "32"),
    "WORKER_CPUS": ("cores that each actor or task reserves", "2"),
    "WORKER_MEMORY_GIB": ("GiB that each actor or task reserves", "6"),
    "NODES": ("worker nodes", "4"),
    "NODE_CPUS": ("cores that a worker pod may ask of a node", "95"),
    "NODE_MEMORY": ("memory that a worker pod may ask of a node", "364Gi"),
    "HEAD_CPUS": ("cores of the head's pod", "4"),
    "HEAD_MEMORY": ("memory of the head's pod", "16Gi"),
    "NAMESPACE": ("the Kubernetes namespace", "sidecar"),
    "SERVICE_ACCOUNT": ("the service account that may read and write the prefixes", "sidecar"),
    "INSTANCE_TYPE": ("kind of the worker nodes", "m5.24xlarge"),
    "HEAD_INSTANCE_TYPE": ("kind of the head node", "m5.4xlarge"),
    "DUMMY_INSTANCE_TYPE": ("kind of a node that does nothing", "m5.large"),
    "AWS_REGION": ("the region of the buckets", "us-east-1"),
}


def placeholders_in(text: str) -> list[str]:
    """Returns the names of the placeholders in a manifest, each once, in their order; comments do not count."""
    lines = (re.sub(r"(^|\s)#.*", "", line) for line in text.splitlines())
    return list(dict.fromkeys(name for line in lines for name in _PLACEHOLDER.findall(line)))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Returns the text with those placeholders replaced that `values` names."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def example_values() -> dict[str, str]:
    """Returns a value that fits for each placeholder."""
    return {name: value for name, (_, value) in PLACEHOLDERS.items()}
