"""Ray nodes on one machine until standard input ends. Prints the head's address.

Usage: nodes.py CPUS[:GPUS] [CPUS[:GPUS] ...], for the head and each further node. GPUs need not exist, since Ray
believes what it is told.

A line "add PATH [CPUS[:GPUS]]" adds a node whose programs find the packages in PATH first, and prints its id; "remove"
takes it away, and after it the one before.
"""

from __future__ import annotations

import os
import sys

os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's own spelling
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster


def resources(text: str) -> dict[str, int]:
    cpus, _, gpus = text.partition(":")
    return {"num_cpus": int(cpus), "num_gpus": int(gpus or 0)}


head, *others = map(resources, sys.argv[1:])
cluster = Cluster(initialize_head=True, head_node_args={**head, "include_dashboard": False})
try:
    added = [cluster.add_node(**each) for each in others]
    print(cluster.address, flush=True)
    for line in sys.stdin:
        if line.startswith("add"):
            _, path, *cpus = line.split()
            added.append(cluster.add_node(**resources(cpus[0] if cpus else "1"), env_vars={"PYTHONPATH": path}))
            print(added[-1].node_id, flush=True)
        else:
            cluster.remove_node(added.pop())
            print("removed", flush=True)
finally:
    cluster.shutdown()
