"""Attacks by what objects say: whose they claim to be, whom they name, what they ask for."""

import base64
import contextlib
import http.server
import json
import os
import threading

import harness
import podkit
import pytest

import attackkit

pytestmark = podkit.needs


class PasswordRegistry:
    """Wants a password for everything, and keeps what it was told."""

    def __init__(self):
        self.told = told = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                told.append(self.headers.get("Authorization"))
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="lab"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def registry():
    with contextlib.closing(PasswordRegistry()) as made:
        yield made


@pytest.fixture(scope="module")
def lab(tmp_path_factory, registry):
    with attackkit.lab(tmp_path_factory.mktemp("berth"), "--registries", f"{registry.host}=insecure") as running:
        yield running


# ---- whose rights something has ----

PRIVILEGED = {"securityContext": {"privileged": True}}


def test_an_admins_rerun_of_a_pod_runs_as_its_owner(lab):
    made = lab.ann.create(podkit.pod("again", "id -u"))
    assert lab.output("again", lab.ann.name).strip() == str(lab.ann.uid)
    again = lab.node.post(f"/v1/queue/{made['metadata']['uid']}/rerun", {})
    assert lab.output(again["name"], lab.ann.name).strip() == str(lab.ann.uid)
    assert lab.pod(again["name"], lab.ann.name)["metadata"]["annotations"]["berth.dev/user"] == lab.ann.name


def test_an_admins_rerun_gives_no_privileges(lab):
    made = lab.ann.create(podkit.pod("privileged", "id -u", **PRIVILEGED))
    assert "CreateContainerConfigError" in lab.refused("privileged", lab.ann.name)
    again = lab.node.post(f"/v1/queue/{made['metadata']['uid']}/rerun", {})
    assert "CreateContainerConfigError" in lab.refused(again["name"], lab.ann.name)


def test_an_admins_rerun_of_a_job_runs_as_its_owner(lab):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "twice"},
           "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [
               {"name": "c", "image": "host", "command": ["id", "-u"]}]}}}}
    made = lab.ann.create(job)
    again = lab.node.post(f"/v1/queue/{made['metadata']['uid']}/rerun", {})
    found = harness.wait(lambda: lab.node.get(f"/api/v1/namespaces/{lab.ann.name}/pods?labelSelector=job-name={again['name']}")["items"],
                         "the pod of the second Job")
    assert lab.output(found[0]["metadata"]["name"], lab.ann.name).strip() == str(lab.ann.uid)


def test_what_a_user_runs_again_of_an_admins_is_the_users(lab):
    made = lab.admin(podkit.pod("roots", "id -u"), ns=lab.ann.name)
    assert lab.output("roots", lab.ann.name).strip() == "0"
    answer = lab.ann.request("POST", f"/v1/queue/{made['metadata']['uid']}/rerun", {})
    assert answer.code in (200, 201), answer.body
    assert lab.output(answer.json()["name"], lab.ann.name).strip() == str(lab.ann.uid)


def test_a_templates_annotation_makes_nobody_the_owner(lab):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "forged", "annotations": {"berth.dev/user": "root"}},
           "spec": {"template": {"metadata": {"annotations": {"berth.dev/user": "root"}},
                                 "spec": {"restartPolicy": "Never", "containers": [
                                     {"name": "c", "image": "host", "command": ["id", "-u"]}]}}}}
    lab.ann.create(job)
    found = harness.wait(lambda: lab.node.get(f"/api/v1/namespaces/{lab.ann.name}/pods?labelSelector=job-name=forged")["items"], "the pod")
    assert lab.output(found[0]["metadata"]["name"], lab.ann.name).strip() == str(lab.ann.uid)


# ---- being part of another's work ----

def reference(doc, **more):
    return {"apiVersion": doc["apiVersion"], "kind": doc["kind"], "name": doc["metadata"]["name"], "uid": doc["metadata"]["uid"], **more}


def forged(name, owner, command="exit 7", labels=None, **flags):
    made = podkit.pod(name, command)
    made["metadata"]["labels"] = labels or {}
    made["metadata"]["ownerReferences"] = [reference(owner, **flags)]
    return made


def training(name):
    return {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": name},
            "spec": {"image": "host", "command": ["sleep", "1000"], "maxEpochs": 3, "singleGPU": True}}


def job(name, command):
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [
                {"name": "c", "image": "host", "command": command}]}}}}


def row(lab, uid):
    return lab.node.get(f"/v1/queue/{uid}")


@pytest.mark.parametrize("flags", [{}, {"controller": True}, {"blockOwnerDeletion": True},
                                   {"controller": True, "blockOwnerDeletion": True}], ids=["plain", "controller", "blocks", "both"])
@pytest.mark.parametrize("where", ["own", "shared"])
def test_a_pod_that_names_anothers_training_job_is_no_part_of_it(lab, where, flags):
    name = f"t-{where}-{''.join(flags).lower() or 'plain'}"
    made = lab.ann.create(training(name), ns=attackkit.SHARED)
    uid = made["metadata"]["uid"]
    harness.wait(lambda: row(lab, uid)["state"] == "Running", "the job runs")
    real = f"{name}-1"
    ns = lab.bob.name if where == "own" else attackkit.SHARED
    answer = lab.bob.try_create(forged(f"f-{name}", made, labels={"berth.dev/run": "1", "berth.dev/rank": "0"}, **flags), ns=ns)
    if answer.code == 201 and where == "shared":  # within a namespace a reference is allowed, and says when to be deleted
        lab.until(f"f-{name}", ns, lambda p: p["status"].get("phase") == "Failed", "fails by itself")
    elif answer.code == 201:  # nobody is owned from another namespace: as in Kubernetes, it is deleted
        harness.wait(lambda: lab.node.request("GET", f"/api/v1/namespaces/{ns}/pods/f-{name}").code == 404, "it is collected")
    else:
        assert answer.code == 403 and flags, answer.body
        assert "cannot set controller or blockOwnerDeletion" in answer.json()["message"]
    shown = row(lab, uid)
    assert (shown["state"], shown["restarts"]) == ("Running", 0)
    assert [p["name"] for p in shown["pods"]] == [real]
    assert lab.pod(real, attackkit.SHARED)["status"]["phase"] == "Running"
    lab.node.request("DELETE", f"/apis/berth.dev/v1/namespaces/{attackkit.SHARED}/trainingjobs/{name}")
    harness.wait(lambda: lab.node.request("GET", f"/api/v1/namespaces/{attackkit.SHARED}/pods/{real}").code == 404, "its pod is gone", 60)


@pytest.mark.parametrize("where", ["own", "shared"])
def test_a_pod_that_names_anothers_job_is_no_part_of_it(lab, where):
    name = f"j-{where}"
    made = lab.ann.create(job(name, ["sleep", "1000"]), ns=attackkit.SHARED)
    pods = lambda: lab.node.get(f"/api/v1/namespaces/{attackkit.SHARED}/pods?labelSelector=job-name={name}")["items"]
    real = harness.wait(pods, "its pod")[0]["metadata"]["name"]
    lab.until(real, attackkit.SHARED, lambda p: p["status"].get("phase") == "Running", "runs")
    ns = lab.bob.name if where == "own" else attackkit.SHARED
    assert lab.bob.try_create(forged(f"f-{name}", made, "exit 0", controller=True), ns=ns).code == 403
    answer = lab.bob.try_create(forged(f"f-{name}", made, "exit 0"), ns=ns)
    assert answer.code == 201
    path = f"/api/v1/namespaces/{ns}/pods/f-{name}"

    def ended():
        answer = lab.node.request("GET", path)
        return answer.code == 404 or answer.json()["status"].get("phase") == "Succeeded"
    harness.wait(ended, "it has ended")
    shown = lab.node.get(f"/apis/batch/v1/namespaces/{attackkit.SHARED}/jobs/{name}")["status"]
    assert shown.get("active") == 1 and not shown.get("succeeded") and not shown.get("conditions")
    assert lab.pod(real, attackkit.SHARED)["status"]["phase"] == "Running"
    lab.node.request("DELETE", f"/apis/batch/v1/namespaces/{attackkit.SHARED}/jobs/{name}?propagationPolicy=Background")


def test_a_reference_cannot_be_added_later(lab):
    made = lab.ann.create(job("later", ["sleep", "1000"]), ns=attackkit.SHARED)
    lab.bob.create(podkit.pod("innocent", "sleep 1000"), ns=attackkit.SHARED)
    path = f"/api/v1/namespaces/{attackkit.SHARED}/pods/innocent"
    patch = {"metadata": {"ownerReferences": [reference(made, controller=True)]}}
    answer = lab.bob.request("PATCH", path, patch, {"Content-Type": "application/merge-patch+json"})
    assert answer.code == 403, answer.body
    for one in (path, f"/apis/batch/v1/namespaces/{attackkit.SHARED}/jobs/later?propagationPolicy=Background"):
        lab.node.request("DELETE", one)


def test_a_deleted_training_job_with_a_finalizer_holds_no_cards(lab):
    """Deleted while it waits, and held by a finalizer of its owner's: it must never start."""
    holders = [lab.admin({**training(f"h{i}"), "spec": {**training("x")["spec"]}}) for i in range(4)]
    for it in holders:
        harness.wait(lambda: row(lab, it["metadata"]["uid"])["state"] == "Running", "all cards are in use")
    waiting = training("held")
    waiting["metadata"]["finalizers"] = ["example.com/mine"]
    uid = lab.ann.create(waiting)["metadata"]["uid"]
    harness.wait(lambda: row(lab, uid)["state"] == "Pending", "it waits")
    path = f"/apis/berth.dev/v1/namespaces/{lab.ann.name}/trainingjobs/held"
    assert lab.ann.request("DELETE", path).code in (200, 202)
    for it in holders:
        lab.node.request("DELETE", f"/apis/berth.dev/v1/namespaces/default/trainingjobs/{it['metadata']['name']}")
    used = lambda: sum(len(c.get("jobs", [])) for n in lab.node.get("/v1/nodes")["nodes"] for c in n.get("gpus", n.get("cards", [])))
    harness.wait(lambda: used() == 0, "no card is held", 60)
    assert lab.node.request("PATCH", path, {"metadata": {"finalizers": None}},
                            {"Content-Type": "application/merge-patch+json"}).code == 200
    harness.wait(lambda: lab.node.request("GET", path).code == 404, "it is gone")


# ---- claims ----

def claim(name, volume=None, size="1Mi"):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {**spec, **({"volumeName": volume} if volume else {})}}


def with_claim(name, command, claim_name):
    return podkit.pod(name, command, spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]},
                      volumeMounts=[{"name": "v", "mountPath": "/v"}])


def bound(lab, name, ns):
    path = f"/api/v1/namespaces/{ns}/persistentvolumeclaims/{name}"
    harness.wait(lambda: lab.node.get(path)["status"].get("phase") == "Bound", "the claim is bound")
    return lab.node.get(path)["spec"]["volumeName"]


def test_a_claim_that_names_anothers_volume_opens_nothing(lab):
    lab.ann.create(claim("data"))
    lab.ann.create(with_claim("writes", "echo mine >/v/file; stat -c '%u %a' /v", "data"))
    assert lab.output("writes", lab.ann.name).split() == [str(lab.ann.uid), "700"]
    volume = bound(lab, "data", lab.ann.name)
    lab.bob.create(claim("theft", volume))
    lab.bob.create(with_claim("thief", "cat /v/file", "theft"))
    waits = lab.until("thief", lab.bob.name, lambda p: p["status"].get("phase") not in (None, "Pending") or
                      any("claim" in c.get("message", "") for c in p["status"].get("conditions", [])) or
                      any("not bound" in s.get("state", {}).get("waiting", {}).get("message", "")
                          for s in p["status"].get("containerStatuses", [])), "it does not start")
    assert waits["status"]["phase"] == "Pending"
    lab.node.request("DELETE", f"/api/v1/namespaces/{lab.bob.name}/pods/thief")


def test_a_claim_of_a_shared_namespace_lets_nobody_remove_anothers_files(lab):
    lab.ann.create(claim("common"), ns=attackkit.SHARED)
    lab.ann.create(with_claim("leaves", "echo mine >/v/file; chmod 644 /v/file; stat -c %a /v", "common"), ns=attackkit.SHARED)
    assert lab.output("leaves", attackkit.SHARED).strip() == "1777"
    lab.bob.create(with_claim("looks", "cat /v/file; rm -f /v/file; mv /v/file /v/other; cat /v/file", "common"), ns=attackkit.SHARED)
    assert [line for line in lab.output("looks", attackkit.SHARED, ("Succeeded", "Failed")).splitlines() if line == "mine"] == ["mine"] * 2


def test_volumes_are_shown_to_those_whose_claims_they_carry(lab):
    lab.ann.create(claim("seen"))
    volume = bound(lab, "seen", lab.ann.name)
    names = lambda who: {v["metadata"]["name"] for v in who.get("/api/v1/persistentvolumes")["items"]}
    assert volume in names(lab.ann) and volume not in names(lab.bob)
    assert lab.ann.request("GET", f"/api/v1/persistentvolumes/{volume}").code == 200
    assert lab.bob.request("GET", f"/api/v1/persistentvolumes/{volume}").code == 403
    watched = lab.bob.request("GET", "/api/v1/persistentvolumes?watch=1&timeoutSeconds=1&resourceVersion=0")
    assert volume.encode() not in watched.body


# ---- secrets ----

def uses_secret(how):
    source = {"secretKeyRef": {"env": [{"name": "GOT", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
              "envFrom": {"envFrom": [{"secretRef": {"name": "s"}}]}}.get(how, {})
    volume = {"volume": {"name": "v", "secret": {"secretName": "s"}},
              "projected": {"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}}.get(how)
    spec = {"volumes": [volume]} if volume else {}
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]} if volume else {}
    return podkit.pod(f"secret-{how.lower()}", "env; cat /v/k", spec=spec, **source, **mounts)


@pytest.mark.parametrize("how", ["secretKeyRef", "envFrom", "volume", "projected"])
def test_a_pod_gets_no_secret_that_its_owner_cannot_read(lab, how):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "deep-in-the-sea"}}
    lab.ann.try_create(secret, ns=attackkit.SHARED)
    assert lab.bob.request("GET", f"/api/v1/namespaces/{attackkit.SHARED}/secrets/s").code == 403
    pod = uses_secret(how)
    name = pod["metadata"]["name"]
    lab.bob.create(pod, ns=attackkit.SHARED)
    seen = lab.until(name, attackkit.SHARED, lambda p: p["status"].get("phase") in ("Succeeded", "Failed") or
                     'secret "s" not found' in str(p["status"]) or
                     any('secret "s" not found' in e.get("message", "") for e in lab.node.get(
                         f"/api/v1/namespaces/{attackkit.SHARED}/events?fieldSelector=involvedObject.name={name}")["items"]), "is refused")
    assert seen["status"]["phase"] == "Pending", seen["status"]
    lab.node.request("DELETE", f"/api/v1/namespaces/{attackkit.SHARED}/pods/{name}")
    harness.wait(lambda: lab.node.request("GET", f"/api/v1/namespaces/{attackkit.SHARED}/pods/{name}").code == 404, "it is gone")
    lab.ann.create(pod, ns=attackkit.SHARED)
    assert "deep-in-the-sea" in lab.output(name, attackkit.SHARED, ("Succeeded", "Failed"))
    lab.node.request("DELETE", f"/api/v1/namespaces/{attackkit.SHARED}/pods/{name}")


def test_anothers_password_goes_to_no_registry(lab, registry):
    auth = base64.b64encode(b"ann:deep-in-the-sea").decode()
    lab.ann.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"}, "type": "kubernetes.io/dockerconfigjson",
                    "stringData": {".dockerconfigjson": json.dumps({"auths": {registry.host: {"auth": auth}}})}}, ns=attackkit.SHARED)
    for who, sends in ((lab.bob, False), (lab.ann, True)):
        name = f"pulls-{who.name}"
        made = podkit.pod(name, "id", spec={"imagePullSecrets": [{"name": "registry"}]})
        made["spec"]["containers"][0]["image"] = f"{registry.host}/private:1"
        who.create(made, ns=attackkit.SHARED)
        lab.refused(name, attackkit.SHARED)
        assert registry.told and (f"Basic {auth}" in registry.told) == sends, registry.told
        lab.delete(name, attackkit.SHARED)
    lab.ann.request("DELETE", f"/api/v1/namespaces/{attackkit.SHARED}/secrets/registry")


# ---- tokens of jobs ----

def test_an_address_speaks_for_a_job_as_long_as_its_pod_runs(lab):
    """A pod that has ended keeps its address in its status; another has it by then."""
    call = "import os, sys, urllib.request\n" \
           "try:\n    print('said', urllib.request.urlopen(os.environ['URL'] + '/has_to_stop/' + os.environ['JOB']).read().decode())\n" \
           "except urllib.error.HTTPError as error:\n    print('said', error.code)\n"
    doc = training("ends")
    doc["spec"]["command"] = ["sh", "-c", "echo url=$BERTH_URL; JOB=$JOB_UUID URL=$BERTH_URL exec python3 -c \"$CALL\""]
    doc["spec"]["env"] = [{"name": "CALL", "value": call}]
    uid = lab.ann.create(doc, ns=attackkit.SHARED)["metadata"]["uid"]
    log = lab.output("ends-1", attackkit.SHARED)
    assert "said 0" in log  # by its address alone, while it runs
    url = log.partition("url=")[2].split()[0]
    address = lab.pod("ends-1", attackkit.SHARED)["status"]["podIP"]
    lab.bob.create(podkit.pod("heir", "exec sleep 1000"))
    lab.until("heir", lab.bob.name, lambda p: p["status"].get("phase") == "Running", "runs")
    pid = next(p for p in podkit.processes(lab.node) if os.stat(f"/proc/{p}").st_uid == lab.bob.uid)
    inside = ["nsenter", "-t", str(pid), "-n"]
    harness.run([*inside, "ip", "address", "add", f"{address}/16", "dev", "eth0"]).ok()  # as if it had been given this one
    said = harness.run([*inside, "curl", "-s", "--max-time", "10", "-w", " %{local_ip} %{http_code}", "--interface", address,
                        f"{url}/has_to_stop/{uid}"]).ok()
    assert said.endswith(f" {address} 403"), said
    assert lab.pod("ends-1", attackkit.SHARED)["status"]["podIP"] == address
    lab.delete("heir", lab.bob.name)
    lab.node.request("DELETE", f"/apis/berth.dev/v1/namespaces/{attackkit.SHARED}/trainingjobs/ends")


def test_a_jobs_token_stands_in_nothing_that_others_read(lab):
    doc = training("speaks")
    doc["spec"]["command"] = ["sh", "-c", "echo token=$BERTH_TOKEN; exec sleep 1000"]
    uid = lab.ann.create(doc, ns=attackkit.SHARED)["metadata"]["uid"]
    harness.wait(lambda: row(lab, uid)["state"] == "Running", "it runs")
    log = lambda: lab.node.request("GET", f"/api/v1/namespaces/{attackkit.SHARED}/pods/speaks-1/log").body.decode()
    token = harness.wait(lambda: log().strip().partition("token=")[2], "it says its token")
    for path in (f"/api/v1/namespaces/{attackkit.SHARED}/pods", f"/apis/berth.dev/v1/namespaces/{attackkit.SHARED}/trainingjobs",
                 f"/api/v1/namespaces/{attackkit.SHARED}/events", f"/v1/queue/{uid}", "/v1/queue"):
        assert token.encode() not in lab.bob.request("GET", path).body, path
    call = lambda: lab.node.request("GET", f"/has_to_stop/{uid}", via="http", token=token)
    assert (call().code, call().body) == (200, b"0")
    assert lab.bob.request("GET", f"/has_to_stop/{uid}").code == 403
    lab.node.restart()
    harness.wait(lambda: call().code == 200, "the token is good after a restart")
    lab.node.request("DELETE", f"/apis/berth.dev/v1/namespaces/{attackkit.SHARED}/trainingjobs/speaks")
