"""What is over goes by policy, and nothing is lost of it but the object."""

import gzip
import json
import os
import time

import harness
import pytest

API = "/apis/berth.dev/v1/namespaces/{}/trainingjobs"
CARDS = json.dumps([{"index": i, "uuid": f"GPU-{i}", "mib": 24576, "declared": True} for i in range(4)])
SIZE = {"cpu": "64", "memory": "512Gi", "pods": "20000", "nvidia.com/gpu": "4"}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "annotations": {"berth.dev/cards": CARDS}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": SIZE, "capacity": SIZE}}


def start(folder, *flags):
    """A daemon with a node whose kubelet is this test."""
    daemon = harness.Daemon(folder, "--agent", "off", "--min-run", "0", *flags)
    daemon.post("/api/v1/nodes", NODE)
    node = {**daemon.get("/api/v1/nodes/node"), "status": NODE["status"]}
    assert daemon.request("PUT", "/api/v1/nodes/node/status", node).code == 200
    return daemon


def submit(daemon, name, ns="default", meta=None, **spec):
    return daemon.post(API.format(ns), {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": name, **(meta or {})},
                                        "spec": {"image": "x", "command": ["true"], "singleGPU": True, **spec}})["metadata"]["uid"]


def end_pod(daemon, pod, phase="Succeeded", code=0):
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    box = {"name": pod["spec"]["containers"][0]["name"], "image": "x", "imageID": "x", "restartCount": 0, "ready": False,
           "state": {"terminated": {"exitCode": code, "startedAt": now, "finishedAt": now}}}
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
    body = {"status": {"phase": phase, "containerStatuses": [box]}}
    answer = daemon.request("PATCH", path, json.dumps(body), {"Content-Type": "application/merge-patch+json"})
    assert answer.code == 200, answer.body


def pods_of(daemon, ns, uid):
    return [pod for pod in daemon.get(f"/api/v1/namespaces/{ns}/pods")["items"]
            if any(ref["uid"] == uid for ref in pod["metadata"].get("ownerReferences", [])) and pod["spec"].get("nodeName")]


def finish(daemon, uid, ns="default", **end):
    for pod in harness.wait(lambda: pods_of(daemon, ns, uid), "it is bound"):
        end_pod(daemon, pod, **end)
    harness.wait(lambda: daemon.get(f"/v1/queue/{uid}")["state"] in ("Succeeded", "Failed"), "it is over")


def run(daemon, name, ns="default", meta=None, **spec):
    uid = submit(daemon, name, ns, meta, **spec)
    finish(daemon, uid, ns)
    return uid


def there(daemon, ns="default"):
    return sorted(item["metadata"]["name"] for item in daemon.get(API.format(ns))["items"])


def test_past_the_count_the_oldest_go_and_their_history_stays(tmp_path):
    with start(tmp_path, "--finished-count", "2") as daemon:
        uids = [run(daemon, f"j{i}") for i in range(5)]
        alive = submit(daemon, "runs")
        harness.wait(lambda: there(daemon) == ["j3", "j4", "runs"], "the newest two are left")
        history = daemon.get("/v1/history?limit=10")["jobs"]
        assert [row["name"] for row in history] == ["j4", "j3", "j2", "j1", "j0"]
        row = daemon.get(f"/v1/queue/{uids[0]}")
        assert row["state"] == "Succeeded" and [step["state"] for step in row["history"]][-1] == "Succeeded"
        assert daemon.get("/v1/queue/default/j0")["id"] == uids[0]
        harness.wait(lambda: not pods_of(daemon, "default", uids[0]), "its pods went with it")
        assert daemon.get(f"/v1/queue/{alive}")["state"] == "Starting"
        assert daemon.get("/v1/status")["kept"]["finished"]["count"] == 2


def test_a_training_job_goes_when_its_own_time_is_over(tmp_path):
    with start(tmp_path) as daemon:
        uid = run(daemon, "short", ttlSecondsAfterFinished=1)
        run(daemon, "long", ttlSecondsAfterFinished=10000)
        harness.wait(lambda: there(daemon) == ["long"], "it is gone")
        assert daemon.get(f"/v1/queue/{uid}")["state"] == "Succeeded"


def test_what_is_retained_stays(tmp_path):
    with start(tmp_path, "--finished-count", "1") as daemon:
        run(daemon, "paper", meta={"annotations": {"berth.dev/retain": "true"}})
        for i in range(3):
            run(daemon, f"j{i}")
        harness.wait(lambda: there(daemon) == ["j2", "paper"], "the retained one and the newest are left")


def test_a_reload_makes_new_limits_count(tmp_path):
    file = tmp_path / "berthd.yaml"
    file.write_text("finishedCount: 10\n")
    with start(tmp_path / "d", "--config", file) as daemon:
        for i in range(4):
            run(daemon, f"j{i}")
        assert len(there(daemon)) == 4
        file.write_text("finishedCount: nonsense\n")
        daemon.process.send_signal(1)
        harness.wait(lambda: "the configuration stays as it was" in daemon.log(), "it refuses that")
        assert len(there(daemon)) == 4
        file.write_text("finishedCount: 1\n")
        daemon.process.send_signal(1)
        harness.wait(lambda: there(daemon) == ["j3"], "one is left")


@pytest.mark.parametrize("kind", ["Job", "Pod"])
def test_finished_jobs_and_bare_pods_go_as_well(tmp_path, kind):
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    path = "/apis/batch/v1/namespaces/default/jobs" if kind == "Job" else "/api/v1/namespaces/default/pods"
    with start(tmp_path, "--finished-count", "1") as daemon:
        uids = []
        for i in range(3):
            body = {"apiVersion": "batch/v1" if kind == "Job" else "v1", "kind": kind, "metadata": {"name": f"w{i}"},
                    "spec": {"template": {"spec": spec}} if kind == "Job" else spec}
            uids.append(daemon.post(path, body)["metadata"]["uid"])

            def bound(uid=uids[-1]):
                return pods_of(daemon, "default", uid) if kind == "Job" else [
                    pod for pod in daemon.get("/api/v1/namespaces/default/pods")["items"]
                    if pod["metadata"]["uid"] == uid and pod["spec"].get("nodeName")]
            for pod in harness.wait(bound, "it is bound"):
                end_pod(daemon, pod)
            harness.wait(lambda uid=uids[-1]: daemon.get(f"/v1/queue/{uid}")["state"] == "Succeeded", "it is over")
        harness.wait(lambda: [item["metadata"]["name"] for item in daemon.get(path)["items"]] == ["w2"], "the newest is left")
        for uid in uids:
            assert daemon.get(f"/v1/queue/{uid}")["state"] == "Succeeded"
        assert len(daemon.get("/v1/history")["jobs"]) == 3


def test_kills_while_it_prunes_lose_no_history_and_tell_nobody_twice(tmp_path):
    with start(tmp_path, "--finished-count", "off") as daemon:
        names = [f"j{i:02}" for i in range(40)]
        for name in names:
            submit(daemon, name)

        def all_over():
            for pod in daemon.get("/api/v1/pods")["items"]:
                if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
                    end_pod(daemon, pod)
            return len(daemon.get("/v1/history?limit=100")["jobs"]) == len(names)
        harness.wait(all_over, "all are over", 60)
        told = len(daemon.get("/v1/inbox?limit=1000")["items"])
        daemon.flags[daemon.flags.index("--finished-count") + 1] = "3"
        for _ in range(4):  # wherever it is in its work
            daemon.kill9()
            daemon.start()
            harness.wait(lambda: daemon.get("/v1/status")["revision"] > 0, "it serves")
        harness.wait(lambda: len(there(daemon)) == 3, "three are left")
        assert sorted(row["name"] for row in daemon.get("/v1/history?limit=100")["jobs"]) == names
        assert len(daemon.get("/v1/inbox?limit=1000")["items"]) == told


def test_prune_says_what_would_go_and_lets_it_go(tmp_path):
    with start(tmp_path) as daemon:
        for i in range(4):
            run(daemon, f"j{i}")
        assert daemon.berth("prune").ok() == "nothing to prune\n"
        lines = daemon.berth("prune", "--dry-run", "--keep", "1").ok().splitlines()
        assert [line.split()[2] for line in lines[1:]] == ["j0", "j1", "j2"] and lines[1].endswith("finishedCount")
        assert len(there(daemon)) == 4
        assert len(daemon.berth("prune", "--keep", "1", "-o", "json").json()["items"]) == 3
        harness.wait(lambda: there(daemon) == ["j3"], "one is left")
        assert daemon.request("POST", "/v1/prune", {"keep": -1}).code == 400
        token = daemon.post("/v1/tokens", {"user": "alice", "description": "x"})["token"]
        assert daemon.request("POST", "/v1/prune", {}, via="https", token=token).code == 403
        assert "finished" in daemon.berth("status").ok()


def test_logs_of_finished_work_are_compressed_and_read_by_the_same_rights(tmp_path):
    with start(tmp_path, "--finished-count", "1", "--log-size", "1") as daemon:
        daemon.berth("user", "add", "alice").ok()
        tokens = {user: daemon.post("/v1/tokens", {"user": user, "description": "x"})["token"] for user in ("alice", "bob")}
        body = {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": "net"},
                "spec": {"image": "x", "command": ["true"], "singleGPU": True}}
        answer = daemon.request("POST", API.format("alice"), body, via="https", token=tokens["alice"])
        assert answer.code == 201, answer.body
        uid, text = answer.json()["metadata"]["uid"], "".join(f"line {i}\n" for i in range(10000))
        logs = daemon.data / "logs"

        def keep(name, lines, age):
            (logs / f"{name}.log").write_text(lines)
            (logs / f"{name}.runs").write_text(f"pod 0 {len(lines)}\n")
            os.utime(logs / f"{name}.log", (time.time() - age,) * 2)

        def read(user, query=""):
            return daemon.request("GET", f"/v1/queue/{uid}/logs{query}", via="https", token=tokens[user])
        keep(uid, text, 3600)
        daemon.process.send_signal(1)
        harness.wait(lambda: "settings of what is kept were read" in daemon.log(), "it looks at the logs")
        assert (logs / f"{uid}.log").exists()  # the job is not over
        finish(daemon, uid, "alice")
        os.utime(logs / f"{uid}.log", (time.time() - 3600,) * 2)
        daemon.process.send_signal(1)
        harness.wait((logs / f"{uid}.gz").exists, "it is compressed")
        harness.wait(lambda: not (logs / f"{uid}.log").exists(), "the text is gone")
        assert gzip.decompress((logs / f"{uid}.gz").read_bytes()).decode() == text
        harness.wait(lambda: daemon.berth("prune", "--older-than", "1s").ok() and there(daemon, "alice") == [], "the job is pruned")
        assert read("alice").body.decode() == text and read("bob").code == 403
        assert read("alice", "?tail=2").body.decode() == "line 9998\nline 9999\n"
        assert daemon.berth("logs", "--tail", "1", "alice/net").ok() == "line 9999\n"
        (logs / f"{uid}.log").write_text("later\n")  # of a pod that went after the others
        assert read("alice", "?tail=2").body.decode() == "line 9999\nlater\n"
        harness.wait(lambda: daemon.get("/v1/status")["kept"]["logs"]["count"] == 1, "it is counted")
        os.utime(logs / f"{uid}.log", (time.time() - 3000,) * 2)
        noise = os.urandom(1 << 20).hex()
        keep("other", noise[:1 << 19], 10)
        keep("more", noise[1 << 19:3 << 18] * 2, 5)  # more than fits: the oldest goes
        daemon.process.send_signal(1)
        harness.wait(lambda: not (logs / f"{uid}.gz").exists(), "the oldest is gone")
        assert read("alice").code == 200
