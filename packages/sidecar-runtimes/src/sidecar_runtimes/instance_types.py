"""What common kinds of machines hold: the table behind `sidecar plan --instance-type`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field
from sidecar_core.config import StrictModel, validate_model
from sidecar_core.errors import UsageError
from sidecar_core.problems import did_you_mean
from sidecar_core.yaml_document import read_yaml

from sidecar_runtimes.options import MOST_CORES, MOST_MEMORY_GB

if TYPE_CHECKING:
    from collections.abc import Mapping


_MOST_USD = 1_000_000  # an hour; more is a slip of the hand


@dataclass(frozen=True)
class InstanceType:
    """A kind of machine.

    Attributes:
        name: what its provider calls it.
        cpus: virtual CPUs.
        memory_gib: memory in GiB.
        usd_per_hour: what an hour costs in US dollars, or None when that is not known.
    """

    name: str
    cpus: int
    memory_gib: float
    usd_per_hour: float | None = None


# family: GiB and US dollars an hour for a vCPU, and vCPUs by size. AWS list prices on demand in us-east-1; they change.
_XLARGE = {"large": 2, "xlarge": 4, "2xlarge": 8, "4xlarge": 16}
_FIFTH = {**_XLARGE, "8xlarge": 32, "12xlarge": 48, "16xlarge": 64, "24xlarge": 96}
_SIXTH = {**_FIFTH, "32xlarge": 128}
_C5 = {**_XLARGE, "9xlarge": 36, "12xlarge": 48, "18xlarge": 72, "24xlarge": 96}
_FAMILIES: Mapping[str, tuple[float, float, Mapping[str, int]]] = {
    "c5": (2, 0.0425, _C5),
    "c6i": (2, 0.0425, _SIXTH),
    "m5": (4, 0.048, _FIFTH),
    "m6i": (4, 0.048, _SIXTH),
    "r5": (8, 0.063, _FIFTH),
    "r6i": (8, 0.063, _SIXTH),
}

INSTANCE_TYPES: Mapping[str, InstanceType] = {
    f"{family}.{size}": InstanceType(f"{family}.{size}", cpus, cpus * gib, round(cpus * usd, 4))
    for family, (gib, usd, sizes) in _FAMILIES.items()
    for size, cpus in sizes.items()
}


class InstanceTypeModel(StrictModel):
    """One entry of an instance-types YAML file."""

    cpus: int = Field(ge=1, le=MOST_CORES, description="virtual CPUs")
    memory_gib: float = Field(gt=0, le=MOST_MEMORY_GB, description="memory in GiB")
    usd_per_hour: float | None = Field(None, gt=0, le=_MOST_USD, description="price of an hour in US dollars")


class InstanceTypesFile(StrictModel):
    """A YAML file with further instance types, or other numbers for known ones."""

    instance_types: dict[str, InstanceTypeModel]


def load_instance_types(path: str | Path) -> dict[str, InstanceType]:
    """Returns the table with the entries of a YAML file added: `instance_types: {NAME: {cpus: …, memory_gib: …}}`.

    Raises:
        ConfigError: with every problem of the file.
    """
    document = read_yaml(Path(path))
    entries = validate_model(InstanceTypesFile, document).instance_types
    own = {
        name: InstanceType(name, entry.cpus, entry.memory_gib, entry.usd_per_hour) for name, entry in entries.items()
    }
    return {**INSTANCE_TYPES, **own}


def find_instance_type(name: str, table: Mapping[str, InstanceType] = INSTANCE_TYPES) -> InstanceType:
    """Returns the machine of that name.

    Raises:
        UsageError: it is not in the table; names the nearest.
    """
    if name not in table:
        families = ", ".join(dict.fromkeys(known.partition(".")[0] for known in table))
        raise UsageError(
            f"unknown instance type {name!r}{did_you_mean(name, table)}",
            f"a size of {families}",
            "--instance-types FILE with instance_types: {NAME: {cpus: …, memory_gib: …}}",
        )
    return table[name]
