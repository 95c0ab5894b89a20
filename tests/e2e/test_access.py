"""Who may do what: certificates, tokens, the unix socket; users apart from each other."""

import json
import os
import subprocess

import pytest

import harness


@pytest.fixture
def people(own_daemon, tmp_path):
    """Two users with kubeconfigs of their own."""
    configs = {}
    for name in ("ann", "bob"):
        made = own_daemon.post("/v1/users", {"name": name})
        configs[name] = tmp_path / f"{name}.kubeconfig"
        configs[name].write_text(made["kubeconfig"])
    return configs


def pod(name):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "image": "busybox:1"}]}}


def test_a_user_works_in_the_own_namespace_only(own_daemon, people):
    ann = lambda *args, **more: own_daemon.kubectl(*args, kubeconfig=people["ann"], **more)
    assert "pod/a created" in ann("create", "-f", "-", stdin=pod("a")).ok()
    assert "a " in ann("get", "pods").ok()
    assert ann("auth", "can-i", "create", "pods").ok().strip() == "yes"
    assert "no" in ann("auth", "can-i", "create", "pods", "-n", "bob").out
    error = ann("get", "pods", "-n", "bob").fails(1)
    assert 'pods is forbidden: User "ann" cannot list resource "pods" in API group "" in the namespace "bob"' in error
    assert 'cannot list resource "pods" in API group "" at the cluster scope' in ann("get", "pods", "-A").fails(1)
    assert "ann" in ann("get", "namespaces").ok()
    assert ann("get", "nodes").code == 0
    assert "forbidden" in ann("create", "namespace", "x").fails(1)
    assert "forbidden" in ann("label", "node", "--all", "x=y").fails(1)


def test_quota_and_limits_come_with_a_user(own_daemon, people):
    ann = lambda *args, **more: own_daemon.kubectl(*args, kubeconfig=people["ann"], **more)
    for i in range(4):
        ann("create", "-f", "-", stdin=pod(f"p{i}")).ok()
    error = ann("create", "-f", "-", stdin=pod("p4")).fails(1)
    assert 'pods "p4" is forbidden: exceeded quota: default, requested: ' in error and "used: " in error
    made = own_daemon.get("/api/v1/namespaces/ann/pods/p0")
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"cpu": "1", "memory": "512Mi"}
    big = pod("big")
    big["spec"]["containers"][0]["resources"] = {"limits": {"memory": "32Gi"}}
    assert "maximum memory usage per Container is 24Gi, but limit is 32Gi" in ann("create", "-f", "-", stdin=big).fails(1)


def test_members_share_a_namespace_but_not_each_others_work(own_daemon, people):
    space = {"apiVersion": "v1", "kind": "Namespace",
             "metadata": {"name": "lab", "annotations": {"berth.dev/members": "ann, bob"}}}
    own_daemon.post("/api/v1/namespaces", space)
    ann = lambda *args, **more: own_daemon.kubectl("-n", "lab", *args, kubeconfig=people["ann"], **more)
    bob = lambda *args, **more: own_daemon.kubectl("-n", "lab", *args, kubeconfig=people["bob"], **more)
    ann("create", "-f", "-", stdin=pod("a")).ok()
    ann("create", "secret", "generic", "s", "--from-literal=k=v").ok()
    assert "a " in bob("get", "pods").ok()
    for args in (("delete", "pod", "a"), ("label", "pod", "a", "x=y"), ("logs", "a"), ("get", "secret", "s"), ("get", "secrets")):
        assert "forbidden" in bob(*args).fails(1), args
    assert ann("label", "pod", "a", "x=y").code == 0
    forged = pod("b")
    forged["metadata"]["annotations"] = {"berth.dev/user": "ann"}
    bob("create", "-f", "-", stdin=forged).ok()
    assert own_daemon.get("/api/v1/namespaces/lab/pods/b")["metadata"]["annotations"]["berth.dev/user"] == "bob"


def test_work_is_its_makers_whatever_the_label_says(own_daemon, people):
    ann = lambda *args, **more: own_daemon.kubectl(*args, kubeconfig=people["ann"], **more)
    refusal = 'label "user" must be "ann", not "bob"'
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
           "spec": {"template": {"metadata": {}, "spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}}
    train = {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": "t"}, "spec": {"image": "i", "command": ["c"]}}
    for doc in (pod("a"), job, train):
        forged = json.loads(json.dumps(doc))
        forged["metadata"]["labels"] = {"user": "bob"}
        assert refusal in ann("create", "-f", "-", stdin=forged).fails(1)
        own = json.loads(json.dumps(doc))
        own["metadata"]["labels"] = {"user": "ann"}  # as the lab's guides have it
        ann("create", "-f", "-", stdin=own).ok()
    template = json.loads(json.dumps(job))
    template["spec"]["template"]["metadata"] = {"labels": {"user": "bob"}}
    assert refusal in ann("create", "-f", "-", stdin={**template, "metadata": {"name": "j2"}}).fails(1)
    ann("create", "-f", "-", stdin=pod("b")).ok()
    assert refusal in ann("label", "pod", "b", "user=bob", "--overwrite").fails(1)
    assert refusal in ann("apply", "--server-side", "--force-conflicts", "-f", "-",
                          stdin={**pod("b"), "metadata": {"name": "b", "labels": {"user": "bob"}}}).fails(1)
    replaced = own_daemon.get("/api/v1/namespaces/ann/pods/b")
    del replaced["metadata"]["labels"]
    ann("replace", "-f", "-", stdin=replaced).ok()
    label = lambda kind, name: own_daemon.get(f"{kind}/{name}")["metadata"]["labels"]["user"]
    assert label("/api/v1/namespaces/ann/pods", "b") == "ann"
    own_daemon.kubectl("-n", "ann", "label", "pod", "b", "user=bob", "--overwrite").ok()
    assert label("/api/v1/namespaces/ann/pods", "b") == "bob"


def test_pods_of_a_job_are_whose_the_job_is(own_daemon, people):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
           "spec": {"template": {"spec": {**pod("x")["spec"], "restartPolicy": "Never"}}}}
    own_daemon.kubectl("create", "-f", "-", stdin=job, kubeconfig=people["ann"]).ok()
    pods = lambda ns, name: own_daemon.get(f"/api/v1/namespaces/{ns}/pods?labelSelector=job-name={name}")["items"]
    made = harness.wait(lambda: pods("ann", "j"), "the pod")[0]
    assert (made["metadata"]["labels"]["user"], made["metadata"]["annotations"]["berth.dev/user"]) == ("ann", "ann")
    row = harness.wait(lambda: [r for r in own_daemon.get("/v1/queue")["jobs"] if r["name"] == "j"], "the row")[0]
    assert row["user"] == "ann"
    own_daemon.kubectl("create", "-f", "-", stdin={**job, "metadata": {"name": "given", "labels": {"user": "bob"}}}).ok()
    made = harness.wait(lambda: pods("default", "given"), "the pod")[0]
    assert (made["metadata"]["labels"]["user"], made["metadata"]["annotations"]["berth.dev/user"]) == ("bob", "bob")


def test_priority_must_be_a_number(own_daemon, people):
    ann = lambda *args, **more: own_daemon.kubectl(*args, kubeconfig=people["ann"], **more)
    ann("create", "-f", "-", stdin=pod("a")).ok()
    error = ann("label", "pod", "a", "priority=abc").fails(1)
    assert 'metadata.labels.priority: Invalid value: "abc": must be a whole number from -1000000 to 1000000; \'0-3\' means -3' in error
    ann("label", "pod", "a", "priority=0-3").ok()
    assert "must be a whole number" in own_daemon.kubectl("-n", "ann", "label", "pod", "a", "priority=high", "--overwrite").fails(1)


def test_tokens(own_daemon):
    made = own_daemon.post("/v1/tokens", {"ttlSec": 3600, "description": "ci"})
    token = made["token"]
    assert own_daemon.request("GET", "/api/v1/pods", via="http", token=token).code == 200
    assert own_daemon.request("GET", "/api/v1/pods", via="https", token=token).code == 200
    wrong = own_daemon.request("GET", "/api/v1/pods", via="http", token=token + "x")
    assert (wrong.code, wrong.json()["reason"], wrong.json()["message"]) == (401, "Unauthorized", "Unauthorized")
    assert token not in json.dumps(own_daemon.get("/v1/tokens"))
    assert token.encode() not in b"".join(p.read_bytes() for p in own_daemon.data.glob("berth.db*"))
    own_daemon.restart()
    assert own_daemon.request("GET", "/api/v1/pods", via="http", token=token).code == 200
    own_daemon.request("DELETE", f"/v1/tokens/{made['id']}")
    assert own_daemon.request("GET", "/api/v1/pods", via="http", token=token).code == 401


@pytest.mark.parametrize("method, path, body, sentence", [
    *[("POST", "/v1/tokens", {"ttlSec": ttl}, "ttlSec must be a whole number from 1 to 316224000")
      for ttl in ("60", "x", 0.5, 1e300, 10**30, True, [], {}, 0, -1, 316224001)],
    ("POST", "/v1/tokens", {"user": 7}, "user must be a string"),
    ("POST", "/v1/tokens", {"description": ["ci"]}, "description must be a string"),
    ("POST", "/v1/tokens", {"groups": "lab"}, "groups must be a list of names"),
    ("POST", "/v1/kubeconfig", {"user": ["ann"]}, "user must be a string"),
    ("POST", "/v1/users", {"name": 7}, "name must be a string"),
    ("POST", "/v1/users", {"name": "ann", "groups": {}}, "groups must be a list of names"),
    ("PATCH", "/v1/users/ann", {"disabled": "true"}, "disabled must be true or false"),
    ("PATCH", "/v1/users/ann", {"disabled": 1}, "disabled must be true or false"),
])
def test_members_of_another_type_are_refused(daemon, method, path, body, sentence):
    answer = daemon.request(method, path, body)
    assert (answer.code, answer.json()["error"]) == (400, sentence)


def test_nobody_in_particular_sees_only_health(daemon):
    assert daemon.request("GET", "/healthz", via="http").body == b"ok"
    assert daemon.request("GET", "/version", via="https").code == 200
    for path in ("/api/v1/pods", "/api", "/apis/batch/v1"):
        answer = daemon.request("GET", path, via="http")
        assert (answer.code, answer.json()["reason"]) == (403, "Forbidden"), path
    for path in ("/v1/status", "/v1/tokens"):
        answer = daemon.request("GET", path, via="http")
        assert answer.code == answer.json()["code"] == 401 and "needs credentials" in answer.json()["error"], path
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    message = daemon.request("GET", "/api/v1/namespaces/default/pods", via="http").json()["message"]
    assert message == ('pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
                       'in the namespace "default"')


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_the_unix_socket_knows_its_peer(daemon):
    script = f"curl -s --unix-socket {daemon.socket} http://x/apis/authentication.k8s.io/v1/selfsubjectreviews " \
             "-H 'Content-Type: application/json' -d '{}'"
    os.chmod(os.path.dirname(daemon.socket), 0o755)
    out = subprocess.run(["setpriv", "--reuid=nobody", "--clear-groups", "sh", "-c", script], capture_output=True, check=True)
    info = json.loads(out.stdout)["status"]["userInfo"]
    assert info["username"] == "nobody" and "system:masters" not in info["groups"]


def test_files_with_secrets_are_the_daemons_alone(daemon):
    for name in ("admin.kubeconfig", "berth.db", "pki/ca.key", "pki/server.key"):
        assert (daemon.data / name).stat().st_mode & 0o077 == 0, name
