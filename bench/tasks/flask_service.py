"""The same work as POST /v1/jobs, the usual way: Flask, Jinja2, PyYAML (C loader), SQLite (WAL,
synchronous=FULL). For bench/tasks/run.py; started by gunicorn with TEMPLATE, DEFINITION and DATABASE set."""

import json
import os
import sqlite3
import threading
import uuid

import flask
import jinja2.sandbox
import yaml

app = flask.Flask(__name__)
DEFINITION = json.load(open(os.environ["DEFINITION"], encoding="utf-8"))
TEMPLATE = jinja2.sandbox.SandboxedEnvironment().from_string(open(os.environ["TEMPLATE"], encoding="utf-8").read())
DESCRIPTION = yaml.load(DEFINITION["user_values_description"], yaml.CSafeLoader)
SYSTEM = DEFINITION["system_values"]
KINDS = {"ConfigMap", "PersistentVolumeClaim", "Job"}
local = threading.local()


def database():
    if not hasattr(local, "db"):
        local.db = sqlite3.connect(os.environ["DATABASE"], timeout=60, isolation_level=None)
        local.db.execute("PRAGMA journal_mode=WAL")
        local.db.execute("PRAGMA synchronous=FULL")
        local.db.execute("CREATE TABLE IF NOT EXISTS objects (kind TEXT, name TEXT, owner TEXT, doc TEXT, "
                         "PRIMARY KEY (kind, name))")
    return local.db


def missing(description, values, path=""):
    if isinstance(description, dict):
        for key, below in description.items():
            yield from missing(below, values.get(key) if isinstance(values, dict) else None, f"{path}.{key}")
    elif isinstance(description, list):
        for i, below in enumerate(description):
            item = values[i] if isinstance(values, list) and i < len(values) else None
            yield from missing(below, item, f"{path}[{i}]")
    elif isinstance(description, str) and description.startswith("(Required)") and values is None:
        yield path[1:]


def quoted(value):
    return json.dumps(value).replace("'", "''")


@app.post("/v1/jobs")
def create():
    values = flask.request.get_json()
    absent = list(missing(DESCRIPTION, values))
    if absent:
        return {"error": absent}, 422
    release = f"mnist-softmax-cpu-{uuid.uuid4().hex[:8]}"
    merged = {**SYSTEM, **values}
    merged["global"] = {"release": release, "taskDef": DEFINITION["name"], "application": DEFINITION["application"],
                        "creator": values["creator"], "description": values["description"], "name": values["name"]}
    datasets = [e for e in values["endpoints"] if e["type"] == "dataset"]
    merged["configs"] = {"global": quoted(merged["global"]), "dataset": quoted({"endpoints": datasets}),
                         "process": quoted(values["process"])}
    docs = [d for d in yaml.load_all(TEMPLATE.render(merged), yaml.CSafeLoader) if d]
    if any(d["kind"] not in KINDS for d in docs):
        return {"error": "kind"}, 422
    db = database()
    db.execute("BEGIN IMMEDIATE")
    db.execute("INSERT INTO objects VALUES ('Task', ?, NULL, ?)", (release, json.dumps(values)))
    for doc in docs:
        db.execute("INSERT INTO objects VALUES (?, ?, ?, ?)",
                   (doc["kind"], doc["metadata"]["name"], release, json.dumps(doc)))
    db.execute("COMMIT")
    return {"task_id": release, "objects": [[d["kind"], d["metadata"]["name"]] for d in docs]}, 201
