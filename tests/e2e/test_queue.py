"""One queue for pods, Jobs and training jobs on declared cards, with real containers."""

import json
import time

import pytest

import harness
import podkit
import queuekit
from queuekit import gpu_pod, rows, show, state, states, submit, training, until

pytestmark = podkit.needs
HOLD = "trap 'exit 0' TERM; sleep 100 & wait"  # as PID 1 it would not hear TERM otherwise


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    daemon = queuekit.start(tmp_path_factory.mktemp("queue"))
    yield daemon
    queuekit.close(daemon)


@pytest.fixture(autouse=True)
def emptied(request):
    """Each test begins and ends with an empty queue."""
    yield
    if "node" not in request.fixturenames:
        return
    daemon = request.getfixturevalue("node")
    daemon.kubectl("delete", "trainingjobs,jobs,pods", "--all", "--grace-period=1", timeout=60).ok()
    harness.wait(lambda: not rows(daemon), "the queue is empty", 20)


def logs(node, name):
    return node.request("GET", f"/v1/queue/{name}/logs").body.decode()


def test_a_training_job_runs_to_its_end(node):
    submit(node, training("one", "ann", epochs=3))
    row = state(node, "one", "Succeeded")
    assert row["epochsDone"] == 3 and row["restarts"] == 0 and row["gpuHours"] > 0
    assert states(row) == ["Pending", "Starting", "Running", "Succeeded"]
    assert [e["epoch"] for e in row["epochs"]] == [1, 2, 3]
    line = node.kubectl("get", "trainingjobs", "one").ok().splitlines()[1].split()
    assert line[:3] == ["one", "Succeeded", "3/3"]
    assert "end 3" in logs(node, "one")


def test_ordinals_are_running_sums_of_a_users_gpus(node):
    submit(node, *[training(f"o{i}", "ann", epochs=100) for i in range(1, 6)], training("p1", "bob", epochs=100))
    found = harness.wait(lambda: len(rows(node)) == 6 and rows(node), "six jobs are there")
    assert [found[f"o{i}"]["ordinal"] for i in range(1, 6)] == [1, 2, 3, 4, 5]
    assert found["p1"]["ordinal"] == 1


def test_a_first_gpu_displaces_a_larger_ordinal_at_an_epoch(node):
    submit(node, *[training(f"a{i}", "ann", epochs=30) for i in range(1, 5)])
    for i in range(1, 5):
        until(node, f"a{i}", lambda row: row["epochsDone"], "an epoch is done")
    submit(node, training("b1", "bob", epochs=3))
    ended = state(node, "b1", "Succeeded")
    assert ended["waitedSeconds"] < 5
    row = until(node, "a4", lambda row: "Preempted" in states(row) and row["state"] == "Running", "resumed")
    step = next(s for s in row["history"] if s["state"] == "Stopping")
    assert step["byName"] == "b1" and "bob's 1st GPU job b1" in step["reason"]
    assert row["restarts"] == 1 and row["lostSeconds"] < 2
    assert all("Preempted" not in states(show(node, f"a{i}")) for i in range(1, 4))
    text = harness.wait(lambda: logs(node, "a4").count("run ") == 2 and logs(node, "a4"), "both runs are in the log")
    first, second = (line.split() for line in text.splitlines() if line.startswith("run "))
    stopped = int(next(line for line in text.splitlines() if line.startswith("stop")).split()[1])
    assert first[1:3] == ["0", "FALSE"] and second[1:3] == [str(stopped), "TRUE"]
    events = node.kubectl("get", "events", "--field-selector", "involvedObject.name=a4").ok()
    assert "preempted by bob's 1st GPU job b1" in events


def test_a_job_stopped_in_its_first_epoch_starts_anew(node):
    submit(node, *[training(f"f{i}", "ann", epochs=3, epoch=60) for i in range(1, 5)])
    for i in range(1, 5):
        harness.wait(lambda: "run " in logs(node, f"f{i}"), f"f{i} has begun its first epoch")
    submit(node, training("short", "bob", epochs=1))
    state(node, "short", "Succeeded")
    again = harness.wait(lambda: [i for i in range(1, 5) if logs(node, f"f{i}").count("run ") == 2], "one is started again", 30)[0]
    assert [line.split()[1:3] for line in logs(node, f"f{again}").splitlines() if line.startswith("run ")] == [["0", "FALSE"]] * 2


def test_every_waiting_job_has_position_reason_and_estimate(node):
    submit(node, *[training(f"w{i}", "ann", epochs=100) for i in range(1, 7)])
    found = harness.wait(lambda: sum(r["position"] is not None for r in rows(node).values()) == 2 and rows(node),
                         "two wait")
    waiting = sorted((r for r in found.values() if r["position"]), key=lambda r: r["position"])
    assert [r["position"] for r in waiting] == [1, 2]
    assert all("waiting for 1 GPU" in r["reason"] and r["startEstimate"] for r in waiting)
    why = node.get(f"/v1/queue/{waiting[1]['name']}/why")
    assert [a["name"] for a in why["ahead"]] == [waiting[0]["name"]] and len(why["frees"]) == 4
    assert "Position 2" in why["text"]
    status = harness.wait(lambda: node.kubectl("get", "trainingjob", waiting[1]["name"], "-o", "json").json()["status"]
                          .get("position"), "the object says so, too")
    assert status == 2


def test_elastic_jobs_give_back_what_others_need(node):
    submit(node, training("wide", "ann", epochs=60, singleGPU=False))
    row = until(node, "wide", lambda row: row["epochsDone"] >= 1, "an epoch is done")
    assert row["gpus"] == 4
    submit(node, training("narrow", "bob", epochs=3))
    state(node, "narrow", "Succeeded")
    row = until(node, "wide", lambda row: row["restarts"] >= 1 and row["state"] == "Running", "resized")
    sizes = [s["gpus"] for s in row["history"] if s["state"] == "Running"]
    assert sizes[0] == 4 and sizes[1] < 4
    assert any(s["state"] == "Stopping" and "narrow" in s["reason"] for s in row["history"])


def test_shares_lie_on_one_card_and_never_beyond_it(node):
    submit(node, *[training(f"s{i}", "ann", epochs=100, estimatedMemoryMiB=4000) for i in range(1, 5)])
    found = harness.wait(lambda: all(r["cards"] for r in rows(node).values()) and len(rows(node)) == 4 and rows(node),
                         "all run")
    used = {}
    for row in found.values():
        assert row["cards"][0]["mib"] == 4000 and row["protection"] == "watched"
        used[row["cards"][0]["index"]] = used.get(row["cards"][0]["index"], 0) + 4000
    assert len(used) == 2, used
    nodes = node.get("/v1/nodes")["nodes"][0]["cards"]
    assert all(card["usedMiB"] <= card["memoryMiB"] for card in nodes)
    assert sum(card["usedMiB"] for card in nodes) == 16000


def test_shares_of_pods_by_label(node):
    for i in (1, 2):
        podkit.create(node, gpu_pod(f"h{i}", "echo $CUDA_VISIBLE_DEVICES; " + HOLD, gpus=0,
                                    labels={"user": "ann", "berth.dev/gpu-memory": "4096"}))
    for i in (1, 2):
        podkit.phase(node, f"h{i}", "Running")
    cards = [podkit.get(node, f"h{i}")["metadata"]["annotations"]["berth.dev/gpus"] for i in (1, 2)]
    assert cards == ["0:4096", "0:4096"]
    harness.wait(lambda: "GPU-declared-0" in node.kubectl("logs", "h1").out, "it sees the card")


def test_disabled_sharing_is_absolute(node):
    submit(node, training("alone", "ann", epochs=100, estimatedMemoryMiB=1000, disableSharing=True))
    submit(node, *[training(f"x{i}", "bob", epochs=100, estimatedMemoryMiB=1000) for i in range(3)])
    found = harness.wait(lambda: len(rows(node)) == 4 and all(r["cards"] for r in rows(node).values()) and rows(node),
                         "all run")
    mine = found["alone"]["cards"][0]["index"]
    assert all(found[f"x{i}"]["cards"][0]["index"] != mine for i in range(3))


def gpu_job(name, user, gpus, **spec):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": {"user": user}},
            "spec": {**spec, "template": {"metadata": {"labels": {"user": user}},
                                          "spec": gpu_pod("x", HOLD, gpus=gpus)["spec"]}}}


def test_pods_and_jobs_stand_in_the_same_queue(node):
    podkit.create(node, gpu_job("batch", "cyd", 3, backoffLimit=1))
    harness.wait(lambda: rows(node).get("batch", {}).get("state") == "Running", "the Job runs")
    podkit.create(node, gpu_pod("first", HOLD, labels={"user": "dan"}))
    podkit.phase(node, "first", "Running")
    podkit.create(node, gpu_pod("second", HOLD, labels={"user": "eve"}))
    # eve's first GPU displaces cyd's job of three; it is requeued, and its backoffLimit is as it was.
    podkit.phase(node, "second", "Running")
    node.kubectl("delete", "pod", "first", "second", "--wait=false").ok()
    found = harness.wait(lambda: node.kubectl("get", "job", "batch", "-o", "json").json(), "the job")
    assert not found["status"].get("failed") and not any(c["type"] == "Failed" for c in found["status"].get("conditions", []))
    row = until(node, "batch", lambda row: row["state"] == "Running" and "Preempted" in states(row), "runs again")
    assert "eve's 1st GPU job second" in json.dumps(row["history"])


def test_a_job_that_is_not_to_be_retried_is_not_displaced(node):
    podkit.create(node, gpu_job("once", "cyd", 4, backoffLimit=0))
    harness.wait(lambda: rows(node).get("once", {}).get("state") == "Running", "the Job runs")
    submit(node, training("hers", "eve", epochs=3))
    row = until(node, "hers", lambda row: "berth claim" in row["reason"], "says what a claim would take")
    assert "once" in row["reason"] and row["state"] == "Pending"
    assert rows(node)["once"]["state"] == "Running"


def test_a_bare_pod_goes_by_claim_alone_and_after_a_notice(node):
    podkit.create(node, gpu_pod("plain", "echo here I am; " + HOLD, gpus=4))
    podkit.phase(node, "plain", "Running")
    assert rows(node)["plain"]["user"] == "root"
    podkit.create(node, gpu_pod("known", "sleep 1", gpus=2, labels={"user": "ann"}))
    row = until(node, "known", lambda row: "berth claim" in row["reason"], "says what a claim would take")
    assert "plain" in row["reason"] and rows(node)["plain"]["state"] == "Running"
    node.request("POST", "/v1/queue/known/claim")
    until(node, "plain", lambda row: row["state"] == "Stopping", "its owner has notice")
    podkit.phase(node, "known", "Running", "Succeeded")
    gone = until(node, "plain", lambda row: row["state"] == "Preempted", "it has gone")
    assert "ann's 2nd GPU job known" in gone["reason"] and gone["user"] == "root"
    assert "here I am" in logs(node, "plain")


def test_a_relabel_reranks_at_once(node):
    podkit.create(node, gpu_pod("full", HOLD, gpus=4, labels={"user": "zoe", "priority": "5"}),
                  *[gpu_pod(f"r{i}", HOLD, gpus=4, labels={"user": "zoe"}) for i in (1, 2)])
    order = lambda: [n for n, r in sorted(rows(node).items(), key=lambda i: i[1]["position"] or 0) if r["position"]]
    harness.wait(lambda: order() == ["r1", "r2"], "both wait")
    node.kubectl("label", "pods/r2", "--overwrite", "priority=3").ok()
    harness.wait(lambda: order() == ["r2", "r1"], "r2 is first", 3)
    node.kubectl("label", "pods/r2", "--overwrite", "priority=0-3").ok()
    harness.wait(lambda: rows(node)["r2"]["priority"] == -3, "negative", 3)
    assert "must be a whole number" in node.kubectl("label", "pods/r2", "--overwrite", "priority=high").fails(1)
    assert rows(node)["r2"]["priority"] == -3


def test_cancel_and_priority_over_rest(node):
    submit(node, *[training(f"c{i}", "ann", epochs=100) for i in range(1, 6)])
    state(node, "c5", "Pending")
    assert node.request("POST", "/v1/queue/c5/priority", body={"priority": 7}).code == 200
    assert rows(node)["c5"]["priority"] == 7
    assert node.request("POST", "/v1/queue/c1/cancel").code == 200
    assert "cancelled by" in state(node, "c1", "Cancelled")["reason"]
    state(node, "c5", "Running")
    assert node.request("POST", "/v1/queue/c1/cancel").code == 409


@pytest.mark.parametrize("grace", [0, 1])
def test_a_run_whose_pod_is_deleted_fails_and_frees_its_cards(node, grace):
    submit(node, training("cut", "ann", epochs=1000, singleGPU=False, minGPUs=4, maxGPUs=4))
    state(node, "cut", "Running")
    submit(node, training("next", "ann", epochs=1))
    answer = node.request("DELETE", f"/api/v1/namespaces/default/pods/cut-1?gracePeriodSeconds={grace}")
    assert answer.code == 200, answer.body
    row = state(node, "cut", "Failed")
    assert row["reason"] == "its pod was deleted" or grace
    state(node, "next", "Succeeded")  # on the cards that were cut's


def test_what_root_submits_is_roots(node):
    made = node.post("/v1/train", {"job_name": "admins", "image_name": "host", "command": ["true"], "is_single_gpu": "true"})
    assert (made["user"], made["mine"], made["labels"]["user"]) == ("root", True, "root")
    row = state(node, "admins", "Succeeded")
    assert (row["user"], row["mine"], row["epochsTotal"], row["progress"]) == ("root", True, None, 1)
    submit(node, training("others", "ann", epochs=1))
    state(node, "others", "Succeeded")
    found = [job["name"] for job in node.get("/v1/history?mine=1&limit=1")["jobs"]]
    assert found == ["admins"]


def test_whole_gpu_quota_of_a_namespace(node):
    node.kubectl("create", "namespace", "lab").ok()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus", "namespace": "lab"},
             "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}
    node.kubectl("create", "-f", "-", stdin=json.dumps(quota)).ok()
    submit(node, training("q1", "ann", epochs=15, ns="lab"), training("q2", "ann", epochs=2, ns="lab"))
    harness.wait(lambda: "quota" in show(node, "lab%2Fq2")["reason"], "it says what it lacks")
    harness.wait(lambda: "requests.nvidia.com/gpu  1     1" in
                 node.kubectl("describe", "quota", "-n", "lab").ok(), "describe quota shows it")
    state(node, "lab%2Fq2", "Succeeded", timeout=40)
    node.kubectl("delete", "namespace", "lab", "--wait=false").ok()


def test_a_job_that_never_asks_gets_term(node):
    deaf = training("deaf", "ann", epochs=9)
    deaf["spec"]["command"] = ["sh", "-c", "trap 'echo got TERM; exit 3' TERM; sleep 100 & wait"]
    submit(node, *[training(f"k{i}", "ann", epochs=200, labels={"priority": "9"}) for i in range(3)], deaf)
    state(node, "deaf", "Running")
    time.sleep(0.3)
    submit(node, training("urgent", "bob", epochs=1))
    state(node, "urgent", "Succeeded")
    row = until(node, "deaf", lambda row: "Preempted" in states(row), "it was stopped")
    assert "got TERM" in logs(node, "deaf") and row["state"] != "Failed"


@pytest.fixture
def device_file():
    """Card 0 of a driver that is not there, for CDI."""
    with podkit.cdi_file([{"name": "0", "containerEdits": {"env": ["CARD=0"]}}]) as path:
        yield path


@pytest.mark.usefixtures("device_file")
def test_who_uses_more_than_it_reserved_is_warned_then_stopped(tmp_path):
    procs = tmp_path / "procs"
    procs.write_text("")
    daemon = queuekit.start(tmp_path, gpus=None, env={
        "LD_LIBRARY_PATH": str(harness.BUILD / "tests" / "data" / "fake-nvml"), "FAKE_GPUS": "1",
        "FAKE_GPU_PROCS": f"@{procs}"})

    def pid(name):
        """Of the script, as the host sees it."""
        uid = daemon.kubectl("get", "pod", f"{name}-1", "-o", "jsonpath={.metadata.uid}").ok()
        return queuekit.pids(daemon, uid)[-1]
    try:
        submit(daemon, *[training(name, "ann", epochs=300, epoch=0.1, estimatedMemoryMiB=4000) for name in ("good", "greedy")])
        for name in ("good", "greedy"):
            until(daemon, name, lambda row: row["epochsDone"], "an epoch is done")
        procs.write_text(f"0:{pid('good')}:3000,0:{pid('greedy')}:3500")
        row = until(daemon, "good", lambda row: row["peakMemoryMiB"] == 3000 and row["memoryMiB"] < 4000, "the peak counts")
        assert row["memoryMiB"] == 3000 + 150 + 64 and row["shared"]
        procs.write_text(f"0:{pid('good')}:3000,0:{pid('greedy')}:9000")
        row = state(daemon, "greedy", "Failed", timeout=40)
        assert "uses 9000 MiB on card 0, more than the" in row["reason"]
        assert "OverReservation" in daemon.kubectl("get", "events").ok()
        assert show(daemon, "good")["state"] == "Running" and show(daemon, "good")["restarts"] == 0
    finally:
        queuekit.close(daemon)


def test_claim_where_preemption_is_asked_for(tmp_path):
    daemon = queuekit.start(tmp_path, "--preemption", "ask", gpus="2x8192")
    try:
        submit(daemon, training("long", "ann", epochs=100), training("more", "ann", epochs=100))
        until(daemon, "more", lambda row: row["epochsDone"], "an epoch is done")
        submit(daemon, training("mine", "bob", epochs=2))
        until(daemon, "mine", lambda row: row["state"] == "Pending" and row["position"] == 1, "it waits, as the first")
        assert daemon.request("POST", "/v1/queue/long/claim").code == 409
        assert "can be claimed" in json.dumps(daemon.get("/v1/queue/mine/why")["frees"])
        assert daemon.request("POST", "/v1/queue/mine/claim").code == 200
        state(daemon, "mine", "Succeeded")
        assert "mine" in json.dumps(show(daemon, "more")["history"])
        assert "mine" not in json.dumps(show(daemon, "long")["history"])
    finally:
        queuekit.close(daemon)


def test_nothing_is_lost_or_run_twice_over_kill_9(tmp_path):
    daemon = queuekit.start(tmp_path, gpus="2x8192")
    try:
        submit(daemon, *[training(f"n{i}", "ann", epochs=6, epoch=0.3) for i in range(4)])
        for _ in range(5):
            time.sleep(0.7)
            daemon.kill9()
            daemon.start()
        for i in range(4):
            row = state(daemon, f"n{i}", "Succeeded", timeout=90)
            assert row["epochsDone"] == 6 and row["restarts"] == 0, row["history"]
            assert states(row) == ["Pending", "Starting", "Running", "Succeeded"]
    finally:
        queuekit.close(daemon)
