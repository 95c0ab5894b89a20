"""What people type in their first hour, right or wrong: the answer says what happened, to what, and what to do next."""

import harness
import podkit
import pytest
import queuekit
from queuekit import gpu_pod, rows, until


@pytest.fixture(scope="module", name="node")
def fixture_node(tmp_path_factory):
    node = queuekit.start(tmp_path_factory.mktemp("newcomer"), gpus="4x8192")
    yield node
    queuekit.close(node)


@pytest.fixture(autouse=True)
def fixture_clean(request):
    """Pods of a test do not hold cards in the next one."""
    yield
    if "node" in request.fixturenames:
        node = request.getfixturevalue("node")
        node.kubectl("delete", "pods,jobs,trainingjobs", "--all", "--grace-period=0", "--force").ok()
        harness.wait(lambda: not rows(node), "the queue is empty")


def full(node):
    """All four cards are in use by one pod of root's, another waits."""
    podkit.create(node, gpu_pod("all", "exec sleep 1000", gpus=4))
    podkit.phase(node, "all", "Running")
    podkit.create(node, gpu_pod("next", "true"))
    return until(node, "next", lambda row: row["position"], "it waits")


def test_a_claim_that_nobody_makes_room_for_is_refused_and_forgotten(node):
    assert full(node)["reason"] == "waiting for 1 GPU: 0 of 4 free"
    said = node.berth("claim", "next").fails()
    assert said == "berth: there is nothing that 'next' could claim: waiting for 1 GPU: 0 of 4 free\n"
    assert "berth.dev/claim" not in node.kubectl("get", "pod", "next", "-o", "yaml").ok()
    assert "is not waiting" in node.berth("claim", "all").fails()


def test_a_claim_says_who_is_asked_to_stop(node):
    full(node)
    podkit.create(node, gpu_pod("hers", "true", labels={"user": "eve"}))
    until(node, "hers", lambda row: "berth claim" in row["reason"], "a claim would help")
    assert node.berth("claim", "hers").ok() == "hers: claimed; asked to stop for it: 'all' (root)\n"
    until(node, "all", lambda row: row["state"] == "Stopping", "it is asked to stop")


def test_priorities_may_be_negative_and_have_one_range(node):
    full(node)
    assert node.berth("priority", "next", "-3").ok() == "next: priority changed\n"
    assert rows(node)["next"]["priority"] == -3
    for wrong in ("1000001", "99999999999"):
        assert "must be a whole number between -1000000 and 1000000" in node.berth("priority", "next", wrong).fails()
    assert "N must be a whole number, not 'high'" in node.berth("priority", "next", "high").fails(2)


@pytest.mark.parametrize("verb", ["queue", "history"])
def test_an_unknown_state_is_refused(node, verb):
    said = node.berth(verb, "--state", "foo").fails()
    assert "unknown state 'foo': must be one or more of Pending, Starting, Running" in said
    node.berth(verb, "--state", "Running,Failed").ok()


def test_an_unknown_user_cannot_be_disabled(tmp_path):
    with harness.Daemon(tmp_path) as daemon:
        assert "user 'nosuch' not found: neither added to Berth nor an account" in \
            daemon.berth("user", "disable", "nosuch").fails()
        assert "nosuch" not in daemon.berth("user", "list").ok()
        assert "disabled" in daemon.berth("user", "disable", "nobody").ok()  # an account that was never added


def test_why_has_a_sentence_for_what_has_no_place_in_the_queue(node):
    podkit.create(node, gpu_pod("runs", "exec sleep 1000"))
    podkit.phase(node, "runs", "Running")
    assert node.berth("why", "runs").ok() == "runs is Running: running on 1 GPU.\n"


@pytest.mark.parametrize("method, path, code", [
    ("GET", "/v1/nosuch", 404), ("GET", "/v1/queue/nosuch", 404), ("GET", "/v1", 404), ("PUT", "/v1/queue", 405),
    ("DELETE", "/v1/users", 405), ("GET", "/v1/queue?state=foo", 422), ("PATCH", "/v1/users/nosuch", 400)])
def test_rest_errors_have_one_form(node, method, path, code):
    answer = node.request(method, path)
    said = answer.json()
    assert answer.code == code and set(said) == {"error", "code", "requestId", "details"} and said["code"] == code
    assert said["error"] and answer.headers["X-Request-Id"] == said["requestId"]
    assert ("GET" in (answer.headers["Allow"] or "")) == (code == 405)


def test_rest_without_credentials_is_401(node):
    for token in (None, "wrong"):
        answer = node.request("GET", "/v1/status", via="http", token=token)
        assert answer.code == answer.json()["code"] == 401 and answer.headers["WWW-Authenticate"] == "Bearer"
    assert node.request("GET", "/api/v1/pods", via="http").json()["kind"] == "Status"


MISTYPED = """
apiVersion: berth.dev/v1
kind: TrainingJob
metadata: {name: typo}
spec: {image: host, command: ["true"], maxEpoch: 3, env: [{name: A, valu: b}]}
"""


def test_mistyped_fields_of_a_training_job_are_refused_or_warned_of(node):
    doc = {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": "typo"},
           "spec": {"image": "host", "command": ["true"], "maxEpoch": 3}, "specs": {}}
    api = queuekit.API.format("default") + "?dryRun=All&fieldValidation="
    answer = node.request("POST", api + "Strict", body=doc)
    assert answer.code == 400
    assert 'unknown field "spec.maxEpoch", unknown field "specs"' in answer.json()["message"]
    answer = node.request("POST", api + "Warn", body=doc)
    assert answer.code == 201 and "spec.maxEpoch" in "".join(answer.headers.get_all("Warning"))
    answer = node.request("POST", api + "Ignore", body=doc)
    assert answer.code == 201 and not answer.headers["Warning"]
    assert 'unknown field "spec.maxEpoch"' in node.berth("apply", "-f", "-", stdin=MISTYPED).fails()
    assert "spec.maxEpoch" in node.kubectl("apply", "-f", "-", stdin=MISTYPED).fails()


@pytest.mark.parametrize("option, said", [
    (("--max_gpus", "9"), "--max_gpus 9 is more than the 4 GPUs there are"),
    (("--env", "NUM_GPUS=1"), "--env NUM_GPUS: Berth sets this variable itself; use --max_gpus"),
    (("--deadline", "tomorrow"), "--deadline must be a time such as 2026-12-01T08:00:00Z, not 'tomorrow'"),
    (("--memory", "900Gi"), "the job asks for 900.0 GiB of memory, but the largest node"),
    (("--memory", "4GB"), "--memory must be an amount such as 2, 500m or 4Gi, not '4GB'")])
def test_options_of_a_job_that_cannot_be_are_refused_by_name(node, option, said):
    assert said in node.berth("train", *option, "job").fails()
    assert "job" not in rows(node)


def test_a_span_needs_its_unit(node):
    assert "--ttl must be a time such as 30d, 12h or 90m, not '12'" in \
        node.berth("token", "create", "--ttl", "12").fails(2)


QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus}
spec: {hard: {requests.nvidia.com/gpu: "1"}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: over}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: host, command: ["true"], resources: {limits: {nvidia.com/gpu: 2}}}]
"""


def test_a_job_over_a_quota_of_gpus_says_which_and_how_much(node):
    node.kubectl("apply", "-f", "-", stdin=QUOTA).ok()
    try:
        sentence = ("cannot start: its pods cannot be made: exceeded quota: gpus, requested: requests.nvidia.com/gpu=2, "
                    "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=1")
        until(node, "over", lambda row: row["reason"] == sentence, "says what it lacks")
        assert node.berth("why", "over").ok() == f"over is Pending: {sentence}.\n"
    finally:
        node.kubectl("delete", "resourcequota", "gpus").ok()
