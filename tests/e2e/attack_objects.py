"""Attacks by what objects say: whose they claim to be, whom they name, what they ask for."""

import harness
import podkit
import pytest

import attackkit

pytestmark = podkit.needs


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with attackkit.lab(tmp_path_factory.mktemp("berth")) as running:
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
