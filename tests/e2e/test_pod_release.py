"""A pod on GPUs that cannot start gives them back: it loses its node, nothing of it stays there, and it starts when it can."""

import os

import pytest

import harness
import podkit
import queuekit

pytestmark = podkit.needs


@pytest.fixture(scope="module", name="node")
def node_(tmp_path_factory):
    daemon = queuekit.start(tmp_path_factory.mktemp("release"), "--stuck-wait", "2", gpus="2x8192")
    yield daemon
    queuekit.close(daemon)


def stuck_pod(name, path, sidecar=None):
    """A GPU pod whose hostPath is missing; sidecar: a command that runs beside it meanwhile."""
    made = queuekit.gpu_pod(name, "echo started; sleep 0.2", spec={
        "terminationGracePeriodSeconds": 5, "volumes": [{"name": "data", "hostPath": {"path": str(path)}}]})
    made["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    if sidecar:
        made["spec"]["initContainers"] = [{"name": "beside", "image": "host", "command": ["sh", "-c", sidecar],
                                           "restartPolicy": "Always"}]
    return made


def given_back(node, name):
    found = podkit.until(node, name, lambda p: not p["spec"].get("nodeName"), "lost its node", 30)
    assert "containerStatuses" not in found["status"] and "podIP" not in found["status"], found["status"]
    return found


def nothing_of(node, uid):
    harness.wait(lambda: not [left for left in podkit.orphans(node.data) if uid in left], "nothing of it is left")


def test_a_pod_that_cannot_start_is_torn_down_and_starts_when_it_can(node, tmp_path):
    podkit.create(node, stuck_pod("later", tmp_path / "missing"))
    podkit.until(node, "later", lambda p: p["spec"].get("nodeName"), "is bound")
    found = given_back(node, "later")
    nothing_of(node, found["metadata"]["uid"])
    status = found["status"]
    harness.wait(lambda: not podkit.shims(node.data), "no container is left")
    assert podkit.get(node, "later")["status"].get("containerStatuses") is None, status
    (tmp_path / "missing").mkdir()
    done = podkit.until(node, "later", lambda p: p["status"]["phase"] == "Succeeded", "succeeded", 60)
    assert node.kubectl("logs", "later").ok() == "started\n"
    assert done["status"]["containerStatuses"][0]["restartCount"] == 0
    node.kubectl("delete", "pod", "later").ok()
    assert harness.wait(lambda: node.berth("logs", "later").out, "its log is kept") == "started\n"


def test_what_ran_of_it_has_its_grace(node, tmp_path):
    seen = tmp_path / "seen"
    seen.mkdir()
    made = stuck_pod("beside", tmp_path / "missing", f"trap 'touch {seen}/term; exit 0' TERM; while :; do sleep 0.1; done")
    made["spec"]["volumes"].append({"name": "seen", "hostPath": {"path": str(seen)}})
    made["spec"]["initContainers"][0]["volumeMounts"] = [{"name": "seen", "mountPath": str(seen)}]
    podkit.create(node, made)
    harness.wait(lambda: podkit.shims(node.data), "the sidecar runs")
    found = given_back(node, "beside")
    harness.wait((seen / "term").exists, "the sidecar was asked to end")
    nothing_of(node, found["metadata"]["uid"])
    node.kubectl("delete", "pod", "beside", "--grace-period=1").ok()


def test_a_daemon_killed_meanwhile_finishes_it(node, tmp_path):
    podkit.create(node, stuck_pod("twice", tmp_path / "missing", "trap '' TERM; while :; do sleep 0.1; done"))
    harness.wait(lambda: podkit.shims(node.data), "the sidecar runs")
    found = given_back(node, "twice")
    uid = found["metadata"]["uid"]
    harness.wait((node.data / "pods" / uid / "released").exists, "it has begun")
    assert podkit.shims(node.data)
    node.kill9()
    node.start()
    nothing_of(node, uid)
    (tmp_path / "missing").mkdir()
    harness.wait(lambda: "started" in node.kubectl("logs", "twice", "-c", "c").out, "it starts", 60)
    node.kubectl("delete", "pod", "twice", "--grace-period=1").ok()


def test_its_card_is_free_for_others(node, tmp_path):
    podkit.create(node, *(stuck_pod(f"holds-{i}", tmp_path / "missing") for i in range(2)))
    for i in range(2):
        given_back(node, f"holds-{i}")
    podkit.create(node, queuekit.gpu_pod("other", "exec sleep 0.1", gpus=2))
    podkit.until(node, "other", lambda p: p["status"]["phase"] == "Succeeded", "succeeded", 60)
    assert not os.path.exists(tmp_path / "missing")
    node.kubectl("delete", "pod", "holds-0", "holds-1", "other", "--grace-period=1").ok()
