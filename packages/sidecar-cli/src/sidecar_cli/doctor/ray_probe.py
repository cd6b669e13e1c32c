"""Says in JSON what a Ray cluster is; a program of its own, since attaching may hang and leaves threads behind.

python -m sidecar_cli.doctor.ray_probe ADDRESS
"""

from __future__ import annotations

import json
import sys

from sidecar_core.errors import SidecarError
from sidecar_runtimes.ray_cluster import RayCluster


def main() -> int:
    """Attaches to the cluster and prints its nodes, or an error with its fix."""
    found: dict[str, object]
    try:
        with RayCluster(sys.argv[1]) as cluster:
            nodes = [{"cpus": node.cpus, "memory_bytes": node.memory_bytes} for node in cluster.nodes()]
            found = {"nodes": nodes}
    except SidecarError as error:
        found = {"error": error.message, "fix": error.fix}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
