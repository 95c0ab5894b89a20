"""What people type in their first hour, right or wrong: the answer says what happened, to what, and what to do next."""

import json

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


def test_an_unknown_user_cannot_be_disabled(node):
    assert "user 'nosuch' not found: neither added to Berth nor an account" in \
        node.berth("user", "disable", "nosuch").fails()
    assert "nosuch" not in node.berth("user", "list").ok()
    assert "disabled" in node.berth("user", "disable", "nobody").ok()  # an account that was never added
    node.berth("user", "enable", "nobody").ok()


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
