"""Attacks by what is filled into tasks: values that try to be more than a value, definitions of others' names."""

import os

import harness
import pytest

import attackkit

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="people are told apart by their uid: needs root")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Without containers: tasks stay pending."""
    with attackkit.lab(tmp_path_factory.mktemp("berth"), start=harness.Daemon, close=lambda node: node.close()) as running:
        yield running


def definition(name, template="non-distributed-task", **more):
    return {"name": name, "task_template_name": template, "creator": "x", "description": "", **more}


def define(who, ns=None, **form):
    path = "/v1/task-definitions" + (f"?namespace={ns}" if ns else "")
    answer = who.request("POST", path, definition(**form))
    assert answer.code == 201, answer.body
    return answer.json()


def start(who, **values):
    return who.request("POST", "/v1/jobs", values)


def members(value):
    """All keys at any depth."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield key
            yield from members(below)
    elif isinstance(value, list):
        for below in value:
            yield from members(below)


IMAGE = {"repository": "host"}


def test_a_definition_of_another_namespace_is_named_in_full(lab):
    define(lab.ann, name="popular", system_values={"image": {"repository": "ann-was-here"}})
    answer = start(lab.bob, taskDef="popular", image=IMAGE, process={})
    assert answer.code == 422 and "NAMESPACE/NAME" in answer.json()["error"], answer.body
    answer = start(lab.bob, taskDef=f"{lab.ann.name}/popular", image=IMAGE, process={})
    assert answer.code == 201 and answer.json()["user"] == lab.bob.name
    assert lab.node.request("POST", "/v1/jobs", {"taskDef": "popular", "image": IMAGE, "process": {}}).code == 422
    define(lab.node, name="popular")  # in default: found by everybody
    assert start(lab.bob, taskDef="popular", image=IMAGE, process={}).code == 201


PAYLOADS = ['a"\n    injected: "b', 'a"\n        injected: "b', 'a"\ninjected: "b', "a'\ninjected: 'b", "a\ninjected: b", 'a", "injected": "b', "a\n---\ninjected: b", "{{ 'zq' ~ 'zq' }}", 'a" # injected', "\u2028injected: b"]
PLACES = ["creator", "application", "name", "description", "image.repository", "image.tag", "image.pullPolicy", "image.command",
          "resources.cpu", "resources.memory", "resources.storage", "resources.storageClassName", "nodeSelector.key", "process.x"]


@pytest.mark.parametrize("template", ["countdown-task", "non-distributed-task", "single-gpu-task"])
def test_a_value_stays_one_value(lab, template):
    name = f"inject-{template}"
    define(lab.node, name=name, template=template)
    for place in PLACES:
        for payload in PAYLOADS:
            values = {"taskDef": name, "image": dict(IMAGE), "resources": {"memory": "1Mi"}, "process": {"train": {"number": 1}}}
            first, _, rest = place.partition(".")
            if rest:
                values[first] = {**values.get(first, {}), rest: payload}
            else:
                values[first] = payload
            answer = start(lab.bob, **values)
            assert answer.code in (201, 400, 422), answer.body
            if answer.code != 201:
                continue
            made = answer.json()
            for item in made["objects"]:
                shown = lab.node.get(item["link"])
                keys = set(members({k: v for k, v in shown.items() if k != "data"}))
                assert not keys & {"injected", "envFrom"}, (place, payload, shown)
                assert "zqzq" not in str(shown["metadata"].get("labels")), (place, payload)
            assert lab.bob.request("DELETE", f"/v1/jobs/{made['task_id']}").code == 200


def test_a_secret_is_not_had_by_a_value(lab):
    define(lab.node, name="limits")
    memory = '512Mi"\n          envFrom:\n            - secretRef:\n                name: "top-secret'
    answer = start(lab.bob, taskDef="limits", image=IMAGE, process={}, resources={"memory": memory})
    assert answer.code == 400 and "quantities must match" in answer.json()["error"], answer.body


def image_of(lab, made):
    link = [item["link"] for item in made["objects"] if item["kind"] == "Job"][0]
    return lab.node.get(link)["spec"]["template"]["spec"]["containers"][0]["image"]


def test_what_a_definition_sets_is_not_the_users_to_change(lab):
    fixed = {"image": {"repository": "approved", "tag": "1"}}
    define(lab.node, name="locked", system_values=fixed)
    evil = {"repository": "evil", "tag": "6", "command": ["sh"]}
    answer = start(lab.bob, taskDef="locked", image=evil, process={})
    assert answer.code == 201 and image_of(lab, answer.json()) == "approved:1"
    assert start(lab.bob, taskDef="locked", image="evil", process={}).code in (201, 400, 422)
    define(lab.node, name="part", system_values=fixed, overridable_values=["image.tag"])
    assert image_of(lab, start(lab.bob, taskDef="part", image=evil, process={}).json()) == "approved:6"
    define(lab.node, name="open", system_values=fixed, overridable_values=["*"])
    assert image_of(lab, start(lab.bob, taskDef="open", image=evil, process={}).json()) == "evil:6"


def test_system_values_are_shown_to_those_who_may_write_them(lab):
    deep = {"image": {"repository": "registry.example/deep-in-the-sea"}, "process": {"key": "deep-in-the-sea"}}
    define(lab.ann, ns=attackkit.SHARED, name="deep", system_values=deep)
    task = {"taskDef": f"{attackkit.SHARED}/deep", "process": {}, "image": {}}
    kube = f"/apis/berth.dev/v1/namespaces/{attackkit.SHARED}/taskdefinitions"
    for path in (kube, f"{kube}/deep", f"{kube}?watch=1&timeoutSeconds=1&resourceVersion=0", "/v1/task-definitions",
                 f"/v1/task-definitions/{attackkit.SHARED}%2Fdeep", f"/v1/task-definitions/deep?namespace={attackkit.SHARED}"):
        assert b"deep-in-the-sea" not in lab.bob.request("GET", path).body, path
    assert b"deep-in-the-sea" in lab.ann.request("GET", f"{kube}/deep").body
    for headers in ({}, {"Accept": "application/yaml"}):
        shown = lab.bob.request("POST", "/v1/jobs?dryRun=1", task, headers)
        assert shown.code == 200 and b"deep-in-the-sea" not in shown.body and b"(hidden)" in shown.body, shown.body
    assert b"deep-in-the-sea" in lab.ann.request("POST", "/v1/jobs?dryRun=1", task).body


def test_an_admins_rerun_of_a_task_is_the_users(lab):
    define(lab.node, name="again")
    made = start(lab.bob, taskDef="again", image=IMAGE, process={}).json()
    again = lab.node.post(f"/v1/jobs/{lab.bob.name}%2F{made['task_id']}/rerun", {})
    assert again["user"] == lab.bob.name
    for item in again["objects"]:
        assert lab.node.get(item["link"])["metadata"]["annotations"]["berth.dev/user"] == lab.bob.name
