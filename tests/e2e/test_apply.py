"""`berth apply` takes the manifest of the Hyperion guide as it was printed; kubectl does, too (test_kubectl.py), and gets
Kubernetes' own errors for what Kubernetes would know."""

import pathlib

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"


def test_the_published_manifest_is_put_right_with_a_warning_per_slip(daemon, ns):
    result = daemon.berth("apply", "-n", ns, "-f", DATA / "hyperion-deployment.yaml")
    assert result.ok() == "job.batch/awesome-project-trainer created\n"
    for slip in ("apiVersion: a Job is in 'batch/v1', not in 'v1'",
                 "resources.request: taken as 'requests'",
                 "restartPolicy: missing, taken as 'Never'",
                 "nothing follows this '---'"):
        assert slip in result.err, slip
    job = daemon.get(f"/apis/batch/v1/namespaces/{ns}/jobs/awesome-project-trainer")
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "1", "memory": "4Gi", "cpu": "2"},
                                      "requests": {"memory": "1Gi", "cpu": "1"}}
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert "unchanged" in daemon.berth("apply", "-n", ns, "-f", DATA / "hyperion-deployment.yaml").ok()


def test_kubectl_gets_kubernetes_own_errors_for_it_under_batch(daemon, ns):
    text = (DATA / "hyperion-deployment.yaml").read_text().replace("apiVersion: v1", "apiVersion: batch/v1")
    error = daemon.kubectl("-n", ns, "apply", "-f", "-", stdin=text).fails(1)
    assert 'unknown field "spec.template.spec.containers[0].resources.request"' in error


def test_numbers_become_text_where_text_is_meant(daemon, ns):
    text = """
kind: pod
metadata: {name: p, labels: {user: ann, priority: 1}}
spec:
  containers:
  - {name: c, image: "busybox:1", env: [{name: COUNT, value: 3}, {name: FLAG, value: true}]}
"""
    result = daemon.berth("apply", "-n", ns, "-f", "-", stdin=text)
    assert result.ok() == "pod/p created\n"
    made = daemon.get(f"/api/v1/namespaces/{ns}/pods/p")
    assert made["metadata"]["labels"]["priority"] == "1"
    assert [e["value"] for e in made["spec"]["containers"][0]["env"]] == ["3", "true"]


def test_what_is_really_wrong_is_said_and_the_rest_applied(daemon, ns):
    text = """
apiVersion: v1
kind: ConfigMap
metadata: {name: good}
---
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {containers: [{name: c, imagee: x}]}
"""
    result = daemon.berth("apply", "-n", ns, "-f", "-", stdin=text)
    assert result.code == 1
    assert "configmap/good created" in result.out
    assert 'unknown field "spec.containers[0].imagee"' in result.err
    broken = daemon.berth("apply", "-n", ns, "-f", "-", stdin="a: [1\nb: 2")
    assert broken.code == 1 and "line" in broken.err


def test_dry_run_changes_nothing(daemon, ns):
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"
    assert "c created" in daemon.berth("apply", "-n", ns, "--dry-run", "-f", "-", stdin=text).ok()
    assert daemon.get(f"/api/v1/namespaces/{ns}/configmaps")["items"] == []
