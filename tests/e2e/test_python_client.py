"""The official Python client (Debian's python3-kubernetes) does create, read, update, delete and watch."""

import pytest

kubernetes = pytest.importorskip("kubernetes", reason="python3-kubernetes is not installed")


@pytest.fixture
def api(daemon):
    client = kubernetes.config.new_client_from_config(str(daemon.kubeconfig))
    return kubernetes.client.CoreV1Api(client), kubernetes.client.BatchV1Api(client)


def pod(name):
    c = kubernetes.client
    return c.V1Pod(metadata=c.V1ObjectMeta(name=name, labels={"user": "ann"}),
                   spec=c.V1PodSpec(restart_policy="Never",
                                    containers=[c.V1Container(name="c", image="busybox:1", command=["true"])]))


def test_pods(api, ns):
    core, _ = api
    made = core.create_namespaced_pod(ns, pod("a"))
    assert made.status.phase == "Pending" and made.metadata.uid
    assert [p.metadata.name for p in core.list_namespaced_pod(ns, label_selector="user=ann").items] == ["a"]
    core.patch_namespaced_pod("a", ns, {"metadata": {"labels": {"priority": "2"}}})
    read = core.read_namespaced_pod("a", ns)
    assert read.metadata.labels == {"user": "ann", "priority": "2"}
    read.metadata.annotations = {"note": "x"}
    assert core.replace_namespaced_pod("a", ns, read).metadata.annotations["note"] == "x"
    with pytest.raises(kubernetes.client.ApiException) as conflict:
        core.replace_namespaced_pod("a", ns, read)
    assert conflict.value.status == 409
    core.delete_namespaced_pod("a", ns)
    with pytest.raises(kubernetes.client.ApiException) as missing:
        core.read_namespaced_pod("a", ns)
    assert missing.value.status == 404


def test_jobs(api, ns):
    _, batch = api
    c = kubernetes.client
    job = c.V1Job(metadata=c.V1ObjectMeta(name="j"), spec=c.V1JobSpec(
        suspend=True, backoff_limit=0, template=c.V1PodTemplateSpec(spec=pod("x").spec)))
    assert batch.create_namespaced_job(ns, job).spec.backoff_limit == 0
    assert batch.read_namespaced_job("j", ns).spec.parallelism == 1
    batch.delete_namespaced_job("j", ns, propagation_policy="Background")
    assert batch.list_namespaced_job(ns).items == []


def test_watch(api, ns):
    core, _ = api
    version = core.list_namespaced_config_map(ns).metadata.resource_version
    for name in ("a", "b"):
        core.create_namespaced_config_map(ns, {"metadata": {"name": name}})
    core.delete_namespaced_config_map("a", ns)
    stream = kubernetes.watch.Watch()
    seen = []
    for event in stream.stream(core.list_namespaced_config_map, ns, resource_version=version, timeout_seconds=20):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 3:
            stream.stop()
    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_binding_and_eviction(api, daemon, ns):
    core, _ = api
    c = kubernetes.client
    core.create_namespaced_pod(ns, {"metadata": {"name": "p"}, "spec": {"schedulerName": "mine", "containers": [
        {"name": "c", "image": "busybox:1"}]}})
    node = core.list_node().items[0].metadata.name
    core.create_namespaced_binding(ns, c.V1Binding(metadata=c.V1ObjectMeta(name="p", annotations={"ours/gpus": "3,5"}),
                                                   target=c.V1ObjectReference(kind="Node", name=node)),
                                   _preload_content=False)
    bound = core.read_namespaced_pod("p", ns)
    assert bound.spec.node_name == node and bound.metadata.annotations["ours/gpus"] == "3,5"
    assert [x.status for x in bound.status.conditions if x.type == "PodScheduled"] == ["True"]
    again = daemon.request("POST", f"/api/v1/namespaces/{ns}/pods/p/binding",
                           {"metadata": {"name": "p"}, "target": {"name": "other"}})
    assert again.code == 409 and "is already assigned to node" in again.json()["message"]
    def evict(**preconditions):
        return daemon.request("POST", f"/api/v1/namespaces/{ns}/pods/p/eviction",
                              {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
                               "deleteOptions": {"preconditions": preconditions}}).code

    now = core.read_namespaced_pod("p", ns).metadata
    assert evict(uid="another") == evict(resourceVersion="1") == 409
    assert not [x for x in core.read_namespaced_pod("p", ns).status.conditions if x.type == "DisruptionTarget"]
    assert evict(uid=now.uid, resourceVersion=now.resource_version) == 201, "the pod is as the caller saw it"
    evict()
    assert len([x for x in core.read_namespaced_pod("p", ns).status.conditions if x.type == "DisruptionTarget"]) == 1
    assert core.read_namespaced_pod("p", ns).metadata.deletion_timestamp is not None
