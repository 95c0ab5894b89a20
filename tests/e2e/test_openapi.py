"""/v1/openapi.json against what is there: every route of the tables is described, every description is a valid
one, and answers are what it says. With schemathesis installed, its generated requests are tried as well."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

import harness

jsonschema = pytest.importorskip("jsonschema", reason="needs python3-jsonschema")
SOURCES = ("src/api", "src/machine")
ROUTE = re.compile(r'\{"(GET|POST|PUT|DELETE|PATCH)", "(/v1/[^"]*)",')


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with harness.Daemon(tmp_path_factory.mktemp("openapi"), "--agent", "off") as daemon:
        definition = json.loads((harness.ROOT / "tests/data/tasks/definition.json").read_text())
        values = json.loads((harness.ROOT / "tests/data/tasks/values.json").read_text())
        values["endpoints"] = values["endpoints"][:1]
        daemon.post("/v1/task-definitions", definition)
        daemon.task = daemon.post("/v1/jobs", values)["task_id"]
        daemon.doc = daemon.get("/v1/openapi.json")
        yield daemon


def schema_of(doc, node):
    """OpenAPI 3.0's schema as JSON Schema, references resolved."""
    if isinstance(node, list):
        return [schema_of(doc, n) for n in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return schema_of(doc, doc["components"]["schemas"][node["$ref"].rsplit("/", 1)[1]])
    plain = {k: schema_of(doc, v) for k, v in node.items() if k != "nullable"}
    return {"anyOf": [{"type": "null"}, plain]} if node.get("nullable") is True else plain


def check(doc, method, path, answer):
    described = doc["paths"][path][method]["responses"]
    assert str(answer.code) in described, (method, path, answer.code, answer.body)
    content = described[str(answer.code)]["content"]
    kind = answer.headers["Content-Type"].split(";")[0]
    assert kind in content, (path, kind)
    if kind == "application/json":
        jsonschema.validate(answer.json(), schema_of(doc, content[kind]["schema"]))


def test_every_route_is_described(server):
    known = {(m.upper(), re.sub(r"\{\w+\}", "*", p)) for p, ops in server.doc["paths"].items() for m in ops}
    for folder in SOURCES:
        for source in (harness.ROOT / folder).rglob("*.c"):
            for method, path in ROUTE.findall(source.read_text()):
                if path.endswith("/"):  # a prefix with an id behind it
                    continue
                assert (method, path.replace("**", "*")) in known, f"{source.name}: {method} {path}"


def test_the_document_is_sound(server):
    doc = server.doc
    assert doc["openapi"].startswith("3.0.")
    text = json.dumps(doc)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in doc["components"]["schemas"], name
    for schema in doc["components"]["schemas"].values():
        jsonschema.Draft7Validator.check_schema(schema_of(doc, schema))
    for path, operations in doc["paths"].items():
        for operation in operations.values():
            named = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path)), path


UPGRADES = {"/v1/files", "/v1/images/import"}  # answer only to who switches protocols
KNOWN = {"/v1/task-templates/{name}": "countdown-task", "/v1/jobs/{id}": "TASK",
         "/v1/task-definitions/{name}": "mnist_softmax_cpu",
         "/v1/task-definitions/{name}/schema": "mnist_softmax_cpu"}


def test_answers_to_reads_are_as_described(server):
    for path, operations in server.doc["paths"].items():
        if "get" not in operations or path.endswith("/stream") or path in UPGRADES:
            continue
        for one in ({KNOWN[path], "no-such-thing"} if path in KNOWN else {"no-such-thing"}):
            filled = re.sub(r"\{\w+\}", server.task if one == "TASK" else one, path)
            answer = server.request("GET", filled)
            if answer.code == 404 and answer.headers["Content-Type"].startswith("text/plain"):
                continue  # a part of the daemon that this one runs without
            check(server.doc, "get", path, answer)


WRITES = [
    ("post", "/v1/render", {"template": "{{ a }}", "values": {"a": 1}}),
    ("post", "/v1/render", {"template": "{% if %}"}),
    ("post", "/v1/render", []),
    ("post", "/v1/jobs", {"taskDef": "no-such"}),
    ("post", "/v1/jobs?dryRun=1", "VALUES"),
    ("post", "/v1/jobs", "{"),
    ("post", "/v1/task-templates", {"name": "countdown-task", "template": "a: 1"}),
    ("post", "/v1/task-templates", {"name": "Bad Name", "template": "a: 1"}),
    ("post", "/v1/task-definitions", {"name": "x"}),
    ("post", "/v1/task-definitions", {"name": "mnist_softmax_cpu", "task_template_name": "countdown-task"}),
    ("post", "/v1/tokens", {"ttlSec": 60}),
    ("post", "/v1/tokens", {"ttlSec": -1}),
    ("delete", "/v1/tokens/{id}", None),
    ("delete", "/v1/jobs/{id}", None),
    ("delete", "/v1/task-definitions/{name}", None),
    ("post", "/v1/jobs/{id}/rerun", {}),
]


@pytest.mark.parametrize("method,path,body", WRITES)
def test_answers_to_writes_are_as_described(server, method, path, body):
    if body == "VALUES":
        body = server.get(f"/v1/jobs/{server.task}")["values"]
    answer = server.request(method.upper(), re.sub(r"\{\w+\}", "no-such-thing", path), body)
    check(server.doc, method, path.split("?")[0], answer)


def schemathesis():
    return os.environ.get("BERTH_SCHEMATHESIS") or shutil.which("schemathesis")


@pytest.mark.plain
@pytest.mark.skipif(not schemathesis(), reason="there is no schemathesis on PATH (pip install schemathesis)")
def test_generated_requests(server, tmp_path):
    token = server.post("/v1/tokens", {"ttlSec": 600})["token"]
    done = subprocess.run([schemathesis(), "run", f"{server.http}/v1/openapi.json", "-H",
                           f"Authorization: Bearer {token}", "--include-tag", "tasks", "--max-examples", "15",
                           "--phases", "examples,fuzzing", "--checks",
                           "not_a_server_error,status_code_conformance,content_type_conformance,"
                           "response_schema_conformance", "--exclude-path-regex", "logs$", "--no-color",
                           "--seed", "1"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
