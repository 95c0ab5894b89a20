"""Every kubectl that can be had, doing what lab users type: each row of docs/kubectl.md is a test here,
run with each version. `BERTH_KUBECTL_TABLE=FILE` writes that page's table from the results."""

import json
import os
import re
import subprocess

import pytest
import yaml

import harness

VERSIONS = harness.kubectls()
if os.environ.get("BERTH_FEW_KUBECTLS"):  # sanitizer runs: the oldest, the newest and the one on PATH
    VERSIONS = {v: VERSIONS[v] for v in dict.fromkeys([*harness.edge_kubectls(), *list(VERSIONS)[:1]]) if v}


def minor(version):
    numbers = re.findall(r"\d+", version)
    return int(numbers[1]) if len(numbers) > 1 else 32


def pod(name, **more):
    spec = {"containers": [{"name": "c", "image": "busybox:1", "command": ["sleep", "1h"]}], **more.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **more}, "spec": spec}


def job(name, **spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template, **spec}}


class Kubectl:
    """kubectl of one version, in one namespace."""

    def __init__(self, daemon, version, ns):
        self.daemon, self.version, self.ns = daemon, version, ns

    def __call__(self, *args, **more):
        return self.daemon.kubectl("-n", self.ns, *args, version=self.version, **more)

    def create(self, *docs):
        text = "\n---\n".join(yaml.safe_dump(d) for d in docs)
        return self("create", "-f", "-", stdin=text).ok()


@pytest.fixture(params=list(VERSIONS) or [pytest.param(None, marks=pytest.mark.skip(reason="no kubectl was found"))])
def k(request, daemon, ns):
    return Kubectl(daemon, request.param, ns)


def command(text):
    """Names the row of docs/kubectl.md that a test proves."""
    return pytest.mark.command(text)


@command("get")
def test_get_prints_the_columns_of_kubernetes(k):
    assert "No resources found" in k("get", "pods").err
    k.create(pod("a"), pod("b"))
    lines = k("get", "pods").ok().splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [line.split()[:4] for line in lines[1:]] == [["a", "0/1", "Pending", "0"], ["b", "0/1", "Pending", "0"]]
    assert k("get", "pod", "a").ok().splitlines()[1].startswith("a ")


@command("get -o wide")
def test_get_wide_adds_columns(k):
    k.create(pod("a"))
    head = k("get", "pods", "-o", "wide").ok().splitlines()[0]
    assert "NODE" in head and "NOMINATED NODE" in head and "READINESS GATES" in head
    k.create(job("j", suspend=True))
    assert "CONTAINERS" in k("get", "jobs", "-o", "wide").ok()
    assert "OS-IMAGE" in k("get", "nodes", "-o", "wide").ok()


@command("get NAME of nothing")
def test_get_of_nothing_is_not_found(k):
    assert 'Error from server (NotFound): pods "x" not found' in k("get", "pod", "x").fails(1)
    assert 'jobs.batch "j" not found' in k("get", "job", "j").fails(1)


@command("get -o yaml|json|name|jsonpath|custom-columns")
def test_get_in_other_forms(k):
    k.create(pod("a", labels={"user": "ann"}))
    assert yaml.safe_load(k("get", "pod", "a", "-o", "yaml").ok())["kind"] == "Pod"
    assert k("get", "pods", "-o", "json").json()["items"][0]["metadata"]["labels"] == {"user": "ann"}
    assert k("get", "pods", "-o", "name").ok().strip() == "pod/a"
    assert k("get", "pod", "a", "-o", "jsonpath={.spec.containers[0].image}").ok() == "busybox:1"
    assert k("get", "pods", "-o", "custom-columns=N:.metadata.name,U:.metadata.labels.user").ok().split() == \
        ["N", "U", "a", "ann"]


@command("get --sort-by")
def test_get_sorted(k):
    k.create(pod("b"), pod("a"))
    assert [line.split()[0] for line in k("get", "pods", "--sort-by=.metadata.name", "--no-headers").ok().splitlines()] == \
        ["a", "b"]


@command("get -l, --field-selector, -A")
def test_get_selects(k):
    k.create(pod("a", labels={"user": "ann"}), pod("b", labels={"user": "bob"}))
    assert k("get", "pods", "-l", "user=ann", "-o", "name").ok().split() == ["pod/a"]
    assert k("get", "pods", "-l", "user in (ann,bob),user!=bob", "-o", "name").ok().split() == ["pod/a"]
    assert k("get", "pods", "--field-selector=status.phase=Running").err.startswith("No resources found")
    assert k("get", "pods", "--field-selector=status.phase=Pending,metadata.name=b", "-o", "name").ok().split() == ["pod/b"]
    assert k.ns in k("get", "pods", "-A").ok()
    assert "field label not supported: spec.x" in k("get", "pods", "--field-selector=spec.x=1").fails(1)


@command("get all")
def test_get_all_lists_pods_and_jobs(k):
    k.create(pod("a"), job("j", suspend=True))
    out = k("get", "all").ok()
    assert "pod/a" in out and "job.batch/j" in out


@command("get -w")
def test_get_watch_follows_changes(k):
    k.create(pod("a"))
    env = k.daemon.program_env()
    args = [VERSIONS[k.version], "--cache-dir", env["KUBECACHEDIR"], "-n", k.ns, "get", "pods", "-w"]
    with subprocess.Popen(args, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watch:
        assert watch.stdout.readline().startswith("NAME")
        assert watch.stdout.readline().startswith("a ")
        k.create(pod("b"))
        names = [watch.stdout.readline().split()[0]]
        while "b" not in names:
            names.append(watch.stdout.readline().split()[0])
        watch.terminate()


@command("create -f")
def test_create_and_the_errors_of_bad_manifests(k):
    assert k.create(pod("a"), job("j", suspend=True)) == "pod/a created\njob.batch/j created\n"
    assert 'pods "a" already exists' in k("create", "-f", "-", stdin=pod("a")).fails(1)
    bad = pod("b")
    bad["spec"]["containers"][0]["imagee"] = "x"
    if minor(k.version) >= 25:  # older ones check fields themselves, with the full OpenAPI document
        assert 'strict decoding error: unknown field "spec.containers[0].imagee"' in \
            k("create", "-f", "-", stdin=bad).fails(1)
    assert "spec.containers: Required value" in k("create", "-f", "-", stdin=pod("b", spec={"containers": []})).fails(1)
    other = pod("c", namespace="elsewhere")
    assert "does not match the namespace" in k("create", "-f", "-", stdin=other).fails(1)
    unknown = {"apiVersion": "v1", "kind": "Podd", "metadata": {"name": "x"}}
    assert 'no matches for kind "Podd" in version "v1"' in k("create", "-f", "-", stdin=unknown).fails(1)


@command("create -f of a List")
def test_create_list(k):
    assert k("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": [pod("a"), pod("b")]}).ok() == \
        "pod/a created\npod/b created\n"


@command("create namespace|configmap|secret|quota|job|serviceaccount")
def test_create_by_generators(k):
    assert "created" in k("create", "configmap", "c", "--from-literal=a=1", "--from-literal=b=2").ok()
    assert k("get", "configmap", "c", "-o", "jsonpath={.data}").json() == {"a": "1", "b": "2"}
    k("create", "secret", "generic", "s", "--from-literal=password=hunter2").ok()
    assert k("get", "secret", "s", "-o", "jsonpath={.data.password}").ok() == "aHVudGVyMg=="
    assert k("get", "secret", "s", "--no-headers").ok().split()[:3] == ["s", "Opaque", "1"]
    k("create", "quota", "q", "--hard=pods=5,requests.cpu=2").ok()
    assert k("get", "quota", "q", "-o", "jsonpath={.spec.hard}").json() == {"pods": "5", "requests.cpu": "2"}
    k("create", "job", "j", "--image=busybox:1", "--", "true").ok()
    assert k("get", "job", "j", "-o", "jsonpath={.spec.template.spec.containers[0].command}").json() == ["true"]
    k("create", "serviceaccount", "robot").ok()
    k("create", "namespace", k.ns + "-x").ok()
    assert k("get", "namespace", k.ns + "-x", "--no-headers").ok().split()[:2] == [k.ns + "-x", "Active"]


@command("create --dry-run")
def test_dry_run_stores_nothing(k):
    if minor(k.version) >= 27:  # older ones look for it in the full OpenAPI v2 document
        assert "(server dry run)" in k("create", "-f", "-", "--dry-run=server", stdin=pod("a")).ok()
    assert "(dry run)" in k("create", "-f", "-", "--dry-run=client", stdin=pod("a")).ok()
    assert "No resources found" in k("get", "pods").err


@command("run")
def test_run_makes_a_pod(k):
    assert k("run", "r", "--image=busybox:1", "--restart=Never", "--", "true").ok() == "pod/r created\n"
    assert k("get", "pod", "r", "-o", "jsonpath={.metadata.labels.run}").ok() == "r"


@command("apply -f")
def test_apply_creates_changes_and_leaves_alone(k):
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}}
    assert k("apply", "-f", "-", stdin=doc).ok() == "configmap/c created\n"
    assert k("apply", "-f", "-", stdin=doc).ok() == "configmap/c unchanged\n"
    doc["data"] = {"a": "3"}
    assert k("apply", "-f", "-", stdin=doc).ok() == "configmap/c configured\n"
    assert k("get", "cm", "c", "-o", "jsonpath={.data}").json() == {"a": "3"}


@command("apply -f of a changed pod")
def test_apply_uses_merge_keys(k):
    doc = pod("p", spec={"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]})
    k("apply", "-f", "-", stdin=doc).ok()
    doc["spec"]["containers"][1]["image"] = "y:2"
    doc["metadata"]["labels"] = {"user": "ann"}
    assert k("apply", "-f", "-", stdin=doc).ok() == "pod/p configured\n"
    assert k("get", "pod", "p", "-o", "jsonpath={.spec.containers[*].image}").ok() == "x:1 y:2"
    doc["spec"]["containers"][0]["command"] = ["true"]
    assert "pod updates may not change fields other than" in k("apply", "-f", "-", stdin=doc).fails(1)


@command("apply --server-side")
def test_server_side_apply_owns_fields(k):
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    if minor(k.version) < 22:
        pytest.skip("this kubectl's server-side apply is older than its final form")
    assert k("apply", "--server-side", "-f", "-", stdin=doc).ok() == "configmap/c serverside-applied\n"
    doc["data"]["a"] = "2"
    conflict = k("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=doc).fails(1)
    assert 'conflict with "kubectl"' in conflict and ".data.a" in conflict
    k("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=doc).ok()
    assert k("get", "cm", "c", "-o", "jsonpath={.data.a}").ok() == "2"


@command("apply --server-side after apply")
def test_client_side_apply_moves_to_server_side(k):
    if minor(k.version) < 26:
        pytest.skip("this kubectl does not migrate field ownership")
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}}
    k("apply", "-f", "-", stdin=doc).ok()
    k("apply", "--server-side", "-f", "-", stdin=doc).ok()
    del doc["data"]["b"]
    k("apply", "--server-side", "-f", "-", stdin=doc).ok()
    assert k("get", "cm", "c", "-o", "jsonpath={.data}").json() == {"a": "1"}


@command("apply, create, delete -f of Hyperion's guide as printed")
def test_the_manifest_of_hyperions_guide(k):
    """A Job under v1, `request:`, no restartPolicy: kubectl warns and it works, again too; `jobs` stays batch/v1's."""
    path = harness.ROOT / "tests" / "data" / "hyperion-deployment.yaml"
    made = k("apply", "-f", path)
    assert "awesome-project-trainer created" in made.ok()
    for words in ("in 'batch/v1', not in 'v1'", "request: taken as 'requests'", "restartPolicy: missing"):
        assert words in made.err, made.err
    assert k("apply", "-f", path).ok()
    found = k("get", "job", "awesome-project-trainer", "-o", "json").json()
    assert found["apiVersion"] == "batch/v1"
    spec = found["spec"]["template"]["spec"]
    assert spec["restartPolicy"] == "Never" and spec["containers"][0]["resources"]["requests"]["cpu"] == "1"
    assert "awesome-project-trainer" in k("describe", "jobs/awesome-project-trainer").ok()
    assert k("get", "-f", path, "-o", "name").ok().strip() == "job/awesome-project-trainer"
    k("delete", "-f", path).ok()
    assert "created" in k("create", "-f", path).ok()


@command("replace")
def test_replace_and_stale_versions(k):
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    k.create(doc)
    stale = k("get", "cm", "c", "-o", "json").json()
    doc["data"] = {"z": "1"}
    assert k("replace", "-f", "-", stdin=doc).ok() == "configmap/c replaced\n"
    stale["data"] = {"y": "1"}
    error = k("replace", "-f", "-", stdin=stale).fails(1)
    assert "the object has been modified; please apply your changes to the latest version and try again" in error


@command("edit")
def test_edit_with_an_editor(k, tmp_path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/one/two/" "$1"\n')
    editor.chmod(0o755)
    k.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "one"}})
    env = k.daemon.program_env(KUBE_EDITOR=str(editor))
    args = [VERSIONS[k.version], "--cache-dir", env["KUBECACHEDIR"], "-n", k.ns, "edit", "cm", "c"]
    assert "edited" in harness.run(args, env=env).ok()
    assert k("get", "cm", "c", "-o", "jsonpath={.data.a}").ok() == "two"


@command("label, annotate")
def test_label_changes_at_once(k):
    k.create(pod("a", labels={"priority": "1"}))
    k("label", "pods/a", "--overwrite", "priority=0-3").ok()
    assert k("get", "pod", "a", "-L", "priority", "--no-headers").ok().split()[-1] == "0-3"
    k("annotate", "pod", "a", "note=hello").ok()
    k("label", "pod", "a", "priority-").ok()
    assert "priority" not in k("get", "pod", "a", "-o", "json").json()["metadata"].get("labels", {})
    assert "a valid label must be" in k("label", "pod", "a", "x=_bad_").fails(1)


@command("patch --type=merge|json|strategic")
def test_patches(k):
    k.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}})
    k("patch", "cm", "c", "--type=merge", "-p", '{"data":{"a":null,"c":"3"}}').ok()
    k("patch", "cm", "c", "--type=json", "-p", '[{"op":"replace","path":"/data/b","value":"9"}]').ok()
    assert k("get", "cm", "c", "-o", "jsonpath={.data}").json() == {"b": "9", "c": "3"}
    k.create(pod("p"))
    k("patch", "pod", "p", "-p", '{"spec":{"containers":[{"name":"c","image":"busybox:2"}]}}').ok()
    assert k("get", "pod", "p", "-o", "jsonpath={.spec.containers[*].image}").ok() == "busybox:2"
    failed = k("patch", "cm", "c", "--type=json", "-p", '[{"op":"test","path":"/data/b","value":"0"}]').fails(1)
    assert "the server rejected our request due to an error in our request" in failed or "The request is invalid" in failed


@command("describe pod|job|quota|node|…")
def test_describe(k):
    k.create(pod("a"), job("j", suspend=True))
    k("create", "quota", "q", "--hard=pods=5").ok()
    out = k("describe", "pod", "a").ok()
    assert re.search(r"Status: +Pending", out) and re.search(r"Image: +busybox:1", out) and "QoS Class" in out
    assert re.search(r"Parallelism: +1", k("describe", "job", "j").ok())
    harness.wait(lambda: re.search(r"pods +1 +5", k("describe", "quota", "q").ok()), "the quota counts")
    out = k("describe", "node").ok()
    assert "Allocatable" in out and "NoNodeAgent" in out
    assert "Name:" in k("describe", "namespace", k.ns).ok()
    k.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "one"}})
    assert "one" in k("describe", "cm", "c").ok()


@command("describe: events")
def test_describe_shows_why_a_pod_waits(k):
    k.create(pod("a"))
    harness.wait(lambda: "FailedScheduling" in k("describe", "pod", "a").ok(), "an event says why")
    assert "no node agent is running" in k("get", "events").ok()
    if minor(k.version) >= 23:
        assert "FailedScheduling" in k("get", "events", "--field-selector", "involvedObject.name=a").ok()


@command("events")
def test_events(k):
    if minor(k.version) < 26:
        pytest.skip("kubectl events is newer than this kubectl")
    k.create(pod("a"))
    harness.wait(lambda: "FailedScheduling" in k("events").out, "an event says why")


@command("logs, exec, attach, port-forward, cp of a pod that does not run")
def test_streams_of_a_waiting_pod(k):
    k.create(pod("a"))
    assert k("logs", "a").ok() == ""
    assert "does not have a host assigned" in k("exec", "a", "--", "true").fails(1)
    assert k("port-forward", "a", "0:80").code != 0
    assert "container x is not valid for pod a" in k("logs", "a", "-c", "x").fails(1)
    assert 'pods "b" not found' in k("logs", "b").fails(1)


@command("delete")
def test_delete(k):
    k.create(pod("a"), pod("b"), job("j", suspend=True))
    assert 'pod "a" deleted' in k("delete", "pod", "a").ok()
    assert 'pod "b" deleted' in k("delete", "-f", "-", stdin=pod("b")).ok()
    assert 'job.batch "j" deleted' in k("delete", "job", "j").ok()
    assert 'pods "a" not found' in k("delete", "pod", "a").fails(1)
    k("delete", "pod", "a", "--ignore-not-found").ok()


@command("delete --all, -l, --force, --cascade")
def test_delete_many(k):
    k.create(pod("a", labels={"x": "1"}), pod("b", labels={"x": "1"}), pod("c"))
    out = k("delete", "pods", "-l", "x=1").ok()
    assert '"a" deleted' in out and '"b" deleted' in out
    k("delete", "pod", "c", "--force", "--grace-period=0").ok()
    k.create(job("j"))
    harness.wait(lambda: k("get", "pods", "-o", "name").ok(), "the job makes a pod")
    k("delete", "job", "j", "--cascade=foreground").ok()
    assert k("get", "pods", "-o", "name").ok() == ""
    k.create(job("o"))
    name = harness.wait(lambda: k("get", "pods", "-o", "name").ok().strip(), "the job makes a pod")
    k("delete", "job", "o", "--cascade=orphan").ok()
    assert k("get", name, "-o", "jsonpath={.metadata.ownerReferences}").ok() == ""
    k("delete", "pods", "--all").ok()
    assert k("get", "pods", "-o", "name").ok() == ""


@command("delete namespace")
def test_delete_namespace_takes_everything_along(k):
    k.create(pod("a"), {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    k("delete", "namespace", k.ns).ok()
    assert "not found" in k("get", "namespace", k.ns).fails(1)
    assert "No resources found" in k("get", "cm").err
    assert f'namespaces "{k.ns}" not found' in k("create", "-f", "-", stdin=pod("x")).fails(1)


@command("wait")
def test_wait(k):
    k.create(pod("a"), job("j", suspend=True))
    k("wait", "--for=condition=Suspended", "job/j", "--timeout=20s").ok()
    assert "timed out" in k("wait", "--for=condition=Ready", "pod/a", "--timeout=1s").fails(1)
    k("delete", "pod", "a", "--wait=false").ok()
    gone = k("wait", "--for=delete", "pod/a", "--timeout=20s")
    assert gone.code == 0 or "not found" in gone.err or "no matching resources found" in gone.err


@command("cordon, uncordon, drain")
def test_cordon_and_drain(k):
    node = k("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}").ok()
    k("cordon", node).ok()
    assert "SchedulingDisabled" in k("get", "node", node).ok()
    k("drain", node, "--ignore-daemonsets", "--force").ok()
    k("uncordon", node).ok()
    assert "SchedulingDisabled" not in k("get", "node", node).ok()


@command("auth can-i, whoami")
def test_auth(k):
    assert k("auth", "can-i", "create", "pods").ok().strip() == "yes"
    assert "*.*" in k("auth", "can-i", "--list").ok()
    if minor(k.version) >= 28:
        assert "system:admin" in k("auth", "whoami").ok()


@command("explain")
def test_explain(k):
    if minor(k.version) < 27:
        pytest.skip("this kubectl's explain needs the full OpenAPI v2 document")
    assert "containers" in k("explain", "pod.spec").ok()
    assert "<[]Container>" in k("explain", "pod.spec").ok()
    assert "backoffLimit" in k("explain", "job.spec", "--recursive").ok()
    assert "maxEpochs" in k("explain", "trainingjob.spec").ok()


@command("api-resources, api-versions, version, cluster-info")
def test_about_the_server(k):
    out = k("api-resources").ok()
    for name in ("pods", "jobs", "persistentvolumeclaims", "trainingjobs", "resourcequotas", "leases"):
        assert re.search(rf"^{name} ", out, re.M), name
    assert "berth.dev/v1" in k("api-versions").ok()
    assert "berth" in k("version").ok()
    assert "running at" in k("cluster-info").ok()


@command("top")
def test_top_without_figures(k):
    assert "No resources found" in k("top", "pods").err


@command("own kinds: trainingjobs, tasktemplates, taskdefinitions")
def test_own_kinds(k):
    doc = {"apiVersion": "berth.dev/v1", "kind": "TrainingJob", "metadata": {"name": "t"},
           "spec": {"image": "host", "scriptPath": "/opt/train.py", "maxEpochs": 3, "batchSize": 8,
                    "trainingSetSize": 100, "somethingNew": 1}}
    if minor(k.version) >= 25:
        assert 'unknown field "spec.somethingNew"' in k("create", "-f", "-", stdin=doc).fails(1)
    k("create", "--validate=false", "-f", "-", stdin=doc).ok()
    assert "t" in k("get", "trainingjobs").ok() and "STATE" in k("get", "tj").ok()
    assert k("get", "tj", "t", "-o", "jsonpath={.spec.somethingNew}").ok() == "1"
    assert "TrainingJob" in k("describe", "trainingjob", "t").ok()


@command("scale (Jobs have none)")
def test_scale_is_refused_as_by_kubernetes(k):
    k.create(job("j", suspend=True))
    assert k("scale", "job/j", "--replicas=2").code != 0
    k("patch", "job", "j", "--type=merge", "-p", '{"spec":{"parallelism":2}}').ok()


@command("a 1 MB configmap")
def test_large_configmaps(k):
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "x" * 1000000}}
    k("create", "-f", "-", stdin=doc).ok()
    assert len(k("get", "cm", "c", "-o", "jsonpath={.data.a}").ok()) == 1000000
    doc["metadata"]["name"] = "d"
    doc["data"]["a"] = "x" * (1 << 20) + "y"
    assert "Too long: may not be more than 1048576 bytes" in k("create", "-f", "-", stdin=doc).fails(1)


def test_every_refusal_is_printed_whole(k):
    """Of a 422, kubectl before 1.24 prints nothing but its causes."""
    definition = {"apiVersion": "berth.dev/v1", "kind": "TaskDefinition", "metadata": {"name": "d"},
                  "spec": {"taskTemplateName": "absent"}}
    said = k("create", "-f", "-", stdin=definition).fails()
    assert said == 'The TaskDefinition "d" is invalid: spec: there is no task template "absent"\n'
