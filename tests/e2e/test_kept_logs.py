"""What pods wrote stays readable when their objects have gone, each run once."""

import json
import os

import pytest

import harness
import podkit
import queuekit

pytestmark = podkit.needs


@pytest.fixture(scope="module", name="node")
def node_(tmp_path_factory):
    daemon = queuekit.start(tmp_path_factory.mktemp("kept"))
    os.chmod(os.path.dirname(daemon.socket), 0o755)
    yield daemon
    queuekit.close(daemon)


def gone(node, name, ns="default"):
    harness.wait(lambda: node.request("GET", f"/api/v1/namespaces/{ns}/pods/{name}").code == 404, f"{name} is gone")


def logs(node, name):
    return node.berth("logs", name)


def delete(node, name, *flags):
    node.kubectl("delete", "pod", name, "--wait=false", *flags).ok()
    gone(node, name)


def written(node, name, text):
    harness.wait(lambda: text in node.kubectl("logs", name).out, f"{name} has written")


def test_a_deleted_gpu_pod_leaves_its_log(node):
    podkit.create(node, queuekit.gpu_pod("leaver", "echo hello; echo again >&2; exec sleep 100"))
    written(node, "leaver", "again")
    delete(node, "leaver", "--grace-period=1")
    assert harness.wait(lambda: logs(node, "leaver").out, "its log is there") == "hello\nagain\n"
    assert logs(node, "default/leaver").ok() == "hello\nagain\n"
    assert node.berth("logs", "--tail", "1", "leaver").ok() == "again\n"


def test_a_pod_deleted_while_the_daemon_is_killed_leaves_its_log(node):
    podkit.create(node, queuekit.gpu_pod("killed", "echo before; exec sleep 100"))
    written(node, "killed", "before")
    uid = podkit.get(node, "killed")["metadata"]["uid"]
    node.kubectl("delete", "pod", "killed", "--wait=false", "--grace-period=0", "--force").ok()
    node.kill9()
    node.start()
    kept = node.data / "logs" / f"{uid}.log"
    harness.wait(lambda: kept.exists() and kept.read_text() == "before\n", "its log is there")
    harness.wait(lambda: not (node.data / "pods" / uid).exists(), "its folder is gone")


def test_a_jobs_pods_leave_their_logs_one_after_the_other(node):
    template = {"spec": queuekit.gpu_pod("p", "echo run; exec sleep 100", spec={"terminationGracePeriodSeconds": 1})["spec"]}
    podkit.create(node, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "twice"},
                         "spec": {"backoffLimit": 5, "template": template}})

    def running():
        pods = node.kubectl("get", "pods", "-l", "batch.kubernetes.io/job-name=twice", "-o", "json").json()["items"]
        names = [p["metadata"]["name"] for p in pods if p["status"]["phase"] == "Running"]
        return names[0] if len(names) == 1 and len(pods) == 1 else None
    first = harness.wait(running, "a pod runs")
    written(node, first, "run")
    delete(node, first, "--grace-period=1")
    second = harness.wait(running, "another pod runs", 40)
    written(node, second, "run")
    node.kubectl("delete", "job", "twice", "--wait=false").ok()
    gone(node, second)
    harness.wait(lambda: logs(node, "twice").out == "run\nrun\n", "both logs are there")
    assert logs(node, "job/twice").ok() == "run\nrun\n"


def test_the_log_of_what_has_gone_is_for_its_owner_alone(node):
    made = queuekit.gpu_pod("private", "echo secret; exec sleep 100")
    node.kubectl("create", "namespace", "nobody").ok()

    def curl(user, path, *more):
        return harness.run(["setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", "curl", "-s", "-w", "%{http_code}",
                            "--unix-socket", node.socket, *more, f"http://berth{path}"]).out
    curl("nobody", "/api/v1/namespaces/nobody/pods", "-H", "Content-Type: application/json", "-d", json.dumps(made))
    harness.wait(lambda: "secret" in node.kubectl("logs", "private", "-n", "nobody").out, "it has written")
    uid = node.get("/api/v1/namespaces/nobody/pods/private")["metadata"]["uid"]
    node.kubectl("delete", "pod", "private", "-n", "nobody", "--wait=false", "--grace-period=1").ok()
    gone(node, "private", "nobody")
    harness.wait(lambda: curl("nobody", f"/v1/queue/{uid}/logs") == "secret\n200", "its owner reads it")
    assert curl("daemon", f"/v1/queue/{uid}/logs").endswith("403")


def test_each_log_is_kept_once_over_kills_of_the_daemon(node):
    names = [f"often-{i}" for i in range(4)]
    podkit.create(node, *(queuekit.gpu_pod(name, "for i in 1 2 3; do echo line $i; done; exec sleep 100") for name in names))
    for name in names:
        written(node, name, "line 3")
    uids = [podkit.get(node, name)["metadata"]["uid"] for name in names]
    kept = [node.data / "logs" / f"{uid}.log" for uid in uids]
    node.kubectl("delete", "pod", *names, "--wait=false", "--grace-period=1").ok()
    for count in range(1, 4):  # each kill comes while one more of them is being kept
        harness.wait(lambda n=count: sum(path.exists() for path in kept) >= n, f"{count} are begun")
        node.kill9()
        node.start()
    for name, path in zip(names, kept):
        gone(node, name)
        assert path.read_text() == "line 1\nline 2\nline 3\n"


def test_a_failure_is_told_with_the_last_line_of_its_log(node):
    podkit.create(node, queuekit.gpu_pod("raises", ["python3", "-c", "print('begun'); raise ValueError('no such layer')"]))
    podkit.until(node, "raises", lambda p: p["status"]["phase"] == "Failed", "failed")
    row = queuekit.until(node, "raises", lambda r: r["state"] == "Failed", "failed")
    assert row["reason"] == "exit code 1: ValueError: no such layer", row
    node.kubectl("delete", "pod", "raises").ok()
    assert "no such layer" in queuekit.show(node, "raises")["reason"]
