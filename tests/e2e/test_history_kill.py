"""What was deleted has its row in the history, also when the daemon is killed right afterwards."""

import random
import time

import harness
import podkit

pytestmark = podkit.needs


def rows(daemon):
    return {r["name"] for r in daemon.get("/v1/history")["jobs"]}


def test_deleted_pod_keeps_its_row_when_the_daemon_is_killed(tmp_path):
    rng = random.Random(1)
    daemon = podkit.start(tmp_path, "--min-run", "0")
    names = []
    for i in range(4):
        name = f"gone-{i}"
        names.append(name)
        podkit.create(daemon, podkit.pod(name, "exec sleep 1000", resources={"limits": {"nvidia.com/gpu": "1"}}))
        podkit.phase(daemon, name, "Running")
        answer = daemon.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
        assert answer.code == 200
        time.sleep(rng.choice([0, 0.05, 0.2, 0.5]))  # the moment of the kill, not a wait for something
        daemon.kill9()
        daemon.start()
    harness.wait(lambda: set(names) <= rows(daemon), "all of them are in the history")
    podkit.close(daemon)
