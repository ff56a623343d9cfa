"""Two Ray nodes on one machine until standard input ends. Prints the head's address.

A line "add PATH [CPUS]" adds a node whose programs find the packages in PATH first, and prints its id; "remove" takes
it away.
"""

from __future__ import annotations

import os
import sys

os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray's own spelling
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from ray.cluster_utils import Cluster

cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
try:
    cluster.add_node(num_cpus=2)
    print(cluster.address, flush=True)
    added = None
    for line in sys.stdin:
        if line.startswith("add"):
            _, path, *cpus = line.split()
            added = cluster.add_node(num_cpus=int(cpus[0]) if cpus else 1, env_vars={"PYTHONPATH": path})
            print(added.node_id, flush=True)
        else:
            cluster.remove_node(added)
            print("removed", flush=True)
finally:
    cluster.shutdown()
