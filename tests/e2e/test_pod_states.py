"""What a pod says of itself before it runs: that an image comes in, or in one sentence why it cannot start."""

import pytest

import harness
import podkit
from podkit import get, pod, until

pytestmark = podkit.needs


@pytest.fixture(scope="module", name="node")
def node_(tmp_path_factory):
    daemon = podkit.start(tmp_path_factory.mktemp("states"))
    yield daemon
    podkit.close(daemon)


def waiting(found):
    statuses = found["status"].get("containerStatuses", [{}])
    return statuses[0].get("state", {}).get("waiting", {})


def cannot_start(found):
    return next((c for c in found["status"]["conditions"] if c["type"] == "berth.dev/CannotStart"), {})


def host_path(path):
    return {"spec": {"volumes": [{"name": "data", "hostPath": {"path": str(path)}}]},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]}


def stuck(node, name, reason, sentence):
    found = until(node, name, lambda p: waiting(p).get("reason") == reason, reason)
    assert sentence in waiting(found)["message"]
    assert cannot_start(found)["status"] == "True" and cannot_start(found)["message"] == waiting(found)["message"]
    return found


def test_a_missing_host_path_is_told_until_it_is_there(node, tmp_path):
    podkit.create(node, pod("lacks", "true", **host_path(tmp_path / "later")))
    stuck(node, "lacks", "CreateContainerConfigError",
          f"cannot mount volume \"data\": hostPath '{tmp_path}/later' does not exist on this machine")
    (tmp_path / "later").mkdir()
    found = podkit.phase(node, "lacks", "Succeeded")
    assert cannot_start(found)["status"] == "False"


def test_an_image_that_cannot_be_had_is_told(node):
    podkit.create(node, pod("unknown", "true", image="127.0.0.1:1/no/such:1"))
    found = until(node, "unknown", lambda p: waiting(p).get("reason") == "ImagePullBackOff", "waits")
    assert "127.0.0.1:1" in waiting(found)["message"]
    assert cannot_start(found)["status"] == "True"


@pytest.fixture(scope="module", name="ghost")
def ghost_(node):
    """A token of a user who has no account on this machine."""
    node.kubectl("create", "namespace", "ghost").ok()
    return node.post("/v1/tokens", {"user": "ghost", "ttlSec": 3600})["token"]


def test_gpu_work_of_a_user_without_an_account_holds_no_card(node, ghost):
    card = {"limits": {"nvidia.com/gpu": 1}}
    made = node.request("POST", "/api/v1/namespaces/ghost/pods", body=pod("carded", "true", resources=card), via="http", token=ghost)
    assert made.code == 201, made.body
    row = harness.wait(lambda: (r := node.get("/v1/queue/ghost/carded")) and "no account" in r["reason"] and r, "the queue says why")
    assert row["state"] == "Pending" and "user 'ghost' has no account on this machine" in row["reason"], row
    assert not node.get("/api/v1/namespaces/ghost/pods/carded")["spec"].get("nodeName")


def test_a_user_without_an_account_is_told(node, ghost):
    made = node.request("POST", "/api/v1/namespaces/ghost/pods", body=pod("homeless", "true"), via="http", token=ghost)
    assert made.code == 201, made.body

    def told():
        found = node.get("/api/v1/namespaces/ghost/pods/homeless")
        return found if waiting(found).get("reason") == "CreateContainerConfigError" else None
    found = harness.wait(told, "the pod says why")
    assert waiting(found)["message"] == "user 'ghost' has no account on this machine"


def test_since_when_a_pod_cannot_start_outlives_the_daemon(node, tmp_path):
    podkit.create(node, pod("still", "true", **host_path(tmp_path / "never")))
    before = stuck(node, "still", "CreateContainerConfigError", "does not exist")
    node.kill9()
    node.start()
    after = get(node, "still")
    assert waiting(after) == waiting(before)
    assert cannot_start(after) == cannot_start(before)
