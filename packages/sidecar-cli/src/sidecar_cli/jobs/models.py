"""What a job's manifest may hold: the fields that the templates use, strictly; a typo is an error.

The RayJob part follows the custom resource `ray.io/v1` of KubeRay; it knows fewer fields, not other ones.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, model_validator
from sidecar_core.config import StrictModel

_DNS_LABEL = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
DnsLabel = Annotated[str, Field(pattern=_DNS_LABEL)]
Cpu = Annotated[str, Field(pattern=r"^([1-9][0-9]*m?|0\.[0-9]+|[1-9][0-9]*\.[0-9]+)$")]
Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]*(Mi|Gi|Ti)$")]
ImageReference = Annotated[str, Field(pattern=r"^[a-z0-9][a-zA-Z0-9._/:@-]*(:[A-Za-z0-9._-]+|@sha256:[0-9a-f]{64})$")]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, strict=True)]  # Kubernetes takes no text for a number
Positive = Annotated[int, Field(gt=0, strict=True)]


class Metadata(StrictModel):
    """Name and labels of an object."""

    name: DnsLabel
    namespace: DnsLabel | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class PodMetadata(StrictModel):
    """Labels of a pod."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class EnvVar(StrictModel):
    """An environment variable."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    value: str


class Amounts(StrictModel):
    """Cores and memory."""

    cpu: Cpu
    memory: Memory


class Resources(StrictModel):
    """What a container asks for and may use."""

    requests: Amounts
    limits: Amounts

    @model_validator(mode="after")
    def _check_limits(self) -> Resources:
        if self.requests != self.limits:
            raise ValueError("requests and limits differ; Ray counts on what the limits say")
        return self


class Container(StrictModel):
    """A container of a pod."""

    name: DnsLabel
    image: ImageReference
    imagePullPolicy: Literal["Always", "IfNotPresent", "Never"] | None = None  # noqa: N815 - the field's name
    env: tuple[EnvVar, ...] = ()
    resources: Resources


class SecurityContext(StrictModel):
    """Who the pod runs as."""

    runAsNonRoot: StrictBool | None = None  # noqa: N815 - the field's name
    runAsUser: Count | None = None  # noqa: N815
    runAsGroup: Count | None = None  # noqa: N815
    fsGroup: Count | None = None  # noqa: N815


class PodSpec(StrictModel):
    """A pod with one container."""

    serviceAccountName: DnsLabel | None = None  # noqa: N815
    nodeSelector: dict[str, str] = Field(default_factory=dict)  # noqa: N815
    securityContext: SecurityContext | None = None  # noqa: N815
    containers: Annotated[tuple[Container, ...], Field(min_length=1, max_length=1)]


class PodTemplate(StrictModel):
    """How pods of a group are made."""

    metadata: PodMetadata = PodMetadata()
    spec: PodSpec


class HeadGroup(StrictModel):
    """The head node."""

    rayStartParams: dict[str, str]  # noqa: N815
    template: PodTemplate


class WorkerGroup(StrictModel):
    """Nodes of one kind that compute."""

    groupName: DnsLabel  # noqa: N815
    replicas: Positive
    minReplicas: Count  # noqa: N815
    maxReplicas: Positive  # noqa: N815
    rayStartParams: dict[str, str]  # noqa: N815
    template: PodTemplate

    @model_validator(mode="after")
    def _check_replicas(self) -> WorkerGroup:
        if not self.minReplicas <= self.replicas <= self.maxReplicas:
            raise ValueError(f"replicas {self.replicas} is not between {self.minReplicas} and {self.maxReplicas}")
        return self


class AuthOptions(StrictModel):
    """Whether Ray asks for a token."""

    mode: Literal["disabled", "token"]


class RayCluster(StrictModel):
    """The cluster that is made for the job."""

    rayVersion: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]  # noqa: N815
    authOptions: AuthOptions | None = None  # noqa: N815
    headGroupSpec: HeadGroup  # noqa: N815
    workerGroupSpecs: tuple[WorkerGroup, ...] = ()  # noqa: N815


class RayJobSpec(StrictModel):
    """The job."""

    entrypoint: Text
    submissionMode: Literal["K8sJobMode", "HTTPMode", "SidecarMode"] = "K8sJobMode"  # noqa: N815
    backoffLimit: Count = 0  # noqa: N815
    activeDeadlineSeconds: Positive | None = None  # noqa: N815
    shutdownAfterJobFinishes: StrictBool = False  # noqa: N815
    ttlSecondsAfterFinished: Count = 0  # noqa: N815
    rayClusterSpec: RayCluster  # noqa: N815

    @model_validator(mode="after")
    def _check_shutdown(self) -> RayJobSpec:
        if self.ttlSecondsAfterFinished and not self.shutdownAfterJobFinishes:
            raise ValueError("ttlSecondsAfterFinished needs shutdownAfterJobFinishes: true")
        groups = [
            self.rayClusterSpec.headGroupSpec.template,
            *(g.template for g in self.rayClusterSpec.workerGroupSpecs),
        ]
        images = {container.image for template in groups for container in template.spec.containers}
        if len(images) > 1:
            raise ValueError(f"head and workers run different images: {', '.join(sorted(images))}")
        return self


class RayJob(StrictModel):
    """A manifest of kind RayJob."""

    apiVersion: Literal["ray.io/v1"]  # noqa: N815
    kind: Literal["RayJob"]
    metadata: Metadata
    spec: RayJobSpec


class HeadNode(StrictModel):
    """The head of a scheduler's cluster."""

    instance_type: Text


class WorkerNodes(StrictModel):
    """Workers of one kind in a scheduler's cluster."""

    name: DnsLabel
    instance_type: Text
    min_nodes: Count
    max_nodes: Positive
    market_type: Literal["ON_DEMAND", "SPOT"]

    @model_validator(mode="after")
    def _check_nodes(self) -> WorkerNodes:
        if self.min_nodes > self.max_nodes:
            raise ValueError(f"min_nodes {self.min_nodes} is above max_nodes {self.max_nodes}")
        return self


class Flags(StrictModel):
    """What the scheduler is told besides."""

    workload_starting_timeout: Annotated[str, Field(pattern=r"^[1-9][0-9]*[smh]$")]


class ComputeConfig(StrictModel):
    """The cluster that a scheduler makes for a job."""

    head_node: HeadNode
    worker_nodes: tuple[WorkerNodes, ...]
    flags: Flags


class UtpJob(StrictModel):
    """A manifest in the shape of a team's own scheduler."""

    name: DnsLabel
    max_retries: Count
    image_uri: ImageReference
    entrypoint: Text
    env_vars: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str]
    compute_config: ComputeConfig
