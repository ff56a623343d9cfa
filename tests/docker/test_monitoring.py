"""What Grafana asks for is what runs record, and Prometheus looks where the nodes export it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from launch.presets import change, load_preset
from launch.recording.tracker import prometheus_name, tracking_key
from launch.records.metrics_db import read_names
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions

DOCKER = Path(__file__).parents[2] / "docker"
DASHBOARD = json.loads((DOCKER / "grafana" / "laser.json").read_text())
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text())
MONITORING = yaml.safe_load((DOCKER / "compose.monitoring.yaml").read_text())


def test_every_name_in_the_dashboard_is_recorded_by_a_run(tmp_path):
    values = {"steps": 1500, "num_envs": 4, "replay.min-steps": 200, "evaluation.interval": 700, "quiet": True}
    values |= {"evaluation.episodes": 1, "run_dir": str(tmp_path / "sweep")}
    sweep(SweepConfig(change(load_preset("cartpole"), values), {}, SweepOptions(seeds=2)), ["test"])
    recorded = read_names(tmp_path / "sweep" / "members" / "0" / "metrics.db")
    known = {prometheus_name(tracking_key(name)) for name in recorded} | {prometheus_name("global_step")}
    asked = set(re.findall(r"ray_laser_\w+", json.dumps(DASHBOARD)))
    assert len(asked) > 40
    assert asked <= known, sorted(asked - known)


def test_panels_lie_beside_each_other_and_ask_the_source_that_is_provisioned():
    (source,) = yaml.safe_load((DOCKER / "grafana" / "datasource.yaml").read_text())["datasources"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len({panel["id"] for panel in DASHBOARD["panels"]}) == len(places)
    for panel in DASHBOARD["panels"]:
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {source["uid"]}
        assert all('run=~"$run"' in target["expr"] for target in panel["targets"])
    assert source["url"].startswith("http://prometheus:")


def test_prometheus_scrapes_the_port_that_every_node_exports():
    (job,) = yaml.safe_load((DOCKER / "prometheus.yml").read_text())["scrape_configs"]
    (where,) = job["dns_sd_configs"]
    assert set(where["names"]) == set(COMPOSE["services"])
    for service in COMPOSE["services"].values():
        assert f"--metrics-export-port={where['port']}" in service["command"]


def test_only_this_machine_reaches_the_pages_and_every_mounted_file_is_there():
    for service in MONITORING["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        assert re.search(r":v?\d+\.\d+\.\d+$", service["image"])
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert not source.startswith(".") or (DOCKER / source).is_file()
