"""Attacks by the fields of a pod: what would give rights that its owner does not have."""

import podkit
import pytest

import attackkit

pytestmark = podkit.needs


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with attackkit.lab(tmp_path_factory.mktemp("berth")) as running:
        yield running


def host_path(name, path, command, kind="", **mount):
    return podkit.pod(name, command, spec={"volumes": [{"name": "h", "hostPath": {"path": str(path), "type": kind}}]},
                      volumeMounts=[{"name": "h", "mountPath": "/h", **mount}])


REFUSED = {
    "privileged": (dict(), {"securityContext": {"privileged": True}}),
    "capability": (dict(), {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}),
    "root": (dict(), {"securityContext": {"runAsUser": 0}}),
    "hostpid": ({"hostPID": True}, {}),
    "hostipc": ({"hostIPC": True}, {}),
    "sysctl": ({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}}, {}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_fields_that_give_rights_are_refused(lab, what):
    spec, container = REFUSED[what]
    made = podkit.pod(f"field-{what}", "id", spec=spec, **container)
    answer = lab.ann.try_create(made)
    if answer.code == 201:
        found = lab.until(f"field-{what}", lab.ann.name, lambda p: p["status"].get("phase") == "Failed" or any(
            s.get("state", {}).get("waiting", {}).get("reason", "").endswith("Error") for s in p["status"].get("containerStatuses", [])),
            "does not start")
        assert not any(s.get("containerID") for s in found["status"].get("containerStatuses", []))
    else:
        assert answer.code in (403, 422), answer.body


@pytest.mark.parametrize("path", ["/etc/shadow", "/proc/self/root/etc/shadow", "/proc/1/root/etc/shadow"])
def test_a_host_path_is_opened_with_the_users_rights(lab, path):
    name = "path-" + path.strip("/").replace("/", "-")
    lab.ann.create(host_path(name, path, "cat /h"))
    found = lab.until(name, lab.ann.name, lambda p: p["status"].get("phase") in ("Succeeded", "Failed") or any(
        s.get("state", {}).get("waiting", {}).get("message") for s in p["status"].get("containerStatuses", [])), "is refused or reads nothing")
    if found["status"]["phase"] != "Pending":
        assert "root:" not in lab.output(name, lab.ann.name, ("Succeeded", "Failed"))
    lab.node.request("DELETE", f"/api/v1/namespaces/{lab.ann.name}/pods/{name}")


def test_a_link_leads_where_its_owner_may_go(lab, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "link").symlink_to("/root")
    lab.ann.create(host_path("link", tmp_path / "link", "ls -a /h"))
    found = lab.until("link", lab.ann.name, lambda p: p["status"].get("phase") in ("Succeeded", "Failed") or any(
        s.get("state", {}).get("waiting", {}).get("message") for s in p["status"].get("containerStatuses", [])), "is refused or reads nothing")
    assert found["status"]["phase"] in ("Pending", "Failed")
    lab.node.request("DELETE", f"/api/v1/namespaces/{lab.ann.name}/pods/link")


def test_anothers_private_image_is_not_for_others(lab):
    made = podkit.pod("image", "id")
    made["spec"]["containers"][0]["image"] = f"own.localhost/{lab.bob.name}/trainer:latest"
    lab.ann.create(made)
    assert "belongs to another user" in lab.refused("image", lab.ann.name)
