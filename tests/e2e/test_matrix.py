"""Every row of the table of who may do what, asked as everybody, against access_matrix.txt. After a change on purpose:

    BERTH_WRITE_MATRIX=1 pytest tests/e2e/test_matrix.py     # writes the file anew; read the diff

A cell is `yes` (not refused: whatever else the answer is), 401, 403, or 404 where what is there is not shown. Objects, jobs, tasks,
definitions, tokens and certificates that are asked about belong to the owner, in a namespace that the member shares; `job` is
the token of the owner's job that the routes name, `job2` the one of another. What would change something is a dry run, has a body that
is refused later, or is about something made for this one request."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import re
import sqlite3

import pytest

import harness

EXPECTED = pathlib.Path(__file__).with_name("access_matrix.txt")
ROLES = ("admin", "owner", "member", "other", "viewer", "disabled", "http", "https", "nameless", "job", "job2", "expired", "revoked")
CONTAINERS = [{"name": "c", "image": "busybox:1"}]
OBJECTS = {  # what stands in the shared namespace: path of the collection → what is particular
    "/api/v1/namespaces/lab/pods": {"spec": {"containers": CONTAINERS}},
    "/api/v1/namespaces/lab/configmaps": {},
    "/api/v1/namespaces/lab/secrets": {},
    "/api/v1/namespaces/lab/services": {"spec": {"ports": [{"port": 80}]}},
    "/api/v1/namespaces/lab/endpoints": {},
    "/api/v1/namespaces/lab/persistentvolumeclaims": {"spec": {"accessModes": ["ReadWriteOnce"],
                                                               "resources": {"requests": {"storage": "1Mi"}}}},
    "/apis/batch/v1/namespaces/lab/jobs": {"spec": {"suspend": True, "template": {"spec": {"containers": CONTAINERS,
                                                                                            "restartPolicy": "Never"}}}},
    "/apis/berth.dev/v1/namespaces/lab/trainingjobs": {"spec": {"image": "busybox:1", "command": ["true"]}},
    "/apis/discovery.k8s.io/v1/namespaces/lab/endpointslices": {"addressType": "IPv4", "endpoints": []},
}
TRAINING = "/apis/berth.dev/v1/namespaces/lab/trainingjobs"
TEMPLATE = "non-distributed-task"
NAMELESS = 64999  # a uid without an account
VERBS = {"get": "GET", "list": "GET", "watch": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE",
         "deletecollection": "DELETE"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with harness.Daemon(tmp_path_factory.mktemp("matrix"), "--agent", "off", "--anonymous", "none", "--user-quota", "off") as daemon:
        yield Lab(daemon)


class Lab:
    def __init__(self, daemon):
        self.daemon = daemon
        os.chmod(os.path.dirname(daemon.socket), 0o755)
        daemon.post("/api/v1/namespaces", {"metadata": {"name": "lab", "annotations": {"berth.dev/members": "owner,member"}}})
        self.tokens, self.count = {}, 0
        for name in ("owner", "member", "other", "viewer", "disabled"):
            daemon.post("/v1/users", {"name": name, "groups": ["berth:viewers"] if name == "viewer" else []})
            self.tokens[name] = daemon.post("/v1/tokens", {"user": name})["token"]
        revoked = daemon.post("/v1/tokens", {"user": "owner"})
        daemon.request("DELETE", f"/v1/tokens/{revoked['id']}")
        expired = daemon.post("/v1/tokens", {"user": "owner", "ttlSec": 1})["token"]
        daemon.request("PATCH", "/v1/users/disabled", {"disabled": True})
        for path, more in OBJECTS.items():
            self.create(path, {"metadata": {"name": "mine"}, **more})
        self.uid = daemon.get(f"{TRAINING}/mine")["metadata"]["uid"]
        self.tokens.update(revoked=revoked["token"], expired=expired, job=self.job_token(self.uid),
                           job2=self.job_token(self.training().rpartition("/")[2]))
        self.create("/v1/task-definitions?namespace=lab", {"name": "mine", "task_template_name": TEMPLATE, "description": ""})
        self.task = self.create("/v1/jobs?namespace=lab", {"taskDef": "mine", "image": {"repository": "host"}, "process": {}})["task_id"]
        harness.wait(lambda: [p for p in daemon.get("/api/v1/namespaces/lab/pods")["items"] if p["metadata"]["name"] != "mine"
                              and p["metadata"]["name"].startswith("mine")], "the task's pod")
        harness.wait(lambda: daemon.request("GET", "/v1/tokens", via="http", token=expired).code == 401, "the token to end")

    def job_token(self, uid):
        """As the pod of a TrainingJob finds it in its environment: no pod runs here."""
        with contextlib.closing(sqlite3.connect(f"file:{self.daemon.data}/berth.db?mode=ro", uri=True)) as db:
            key, = db.execute("SELECT val FROM value WHERE tab = 'keys' AND key = 'train'").fetchone()
        return hmac.new(base64.b64decode(key), uid.encode(), hashlib.sha256).hexdigest()

    def create(self, path, doc):
        """Something of the owner's."""
        answer = self.daemon.request("POST", path, doc, via="http", token=self.tokens["owner"])
        assert answer.code in (200, 201), (path, answer.body)
        return answer.json()

    # What is made for one request: paths of things that it may take away.

    def training(self):
        self.count += 1
        made = self.create(TRAINING, {"metadata": {"name": f"m{self.count}"}, "spec": {"image": "busybox:1", "command": ["true"]}})
        return f"/v1/queue/{made['metadata']['uid']}"

    def token(self):
        return f"/v1/tokens/{self.create('/v1/tokens', {})['id']}"

    def certificate(self):
        return f"/v1/certificates/{self.create('/v1/kubeconfig', {})['certificate']}"

    def user(self):
        self.count += 1
        self.daemon.post("/v1/users", {"name": f"spare{self.count}"})
        return f"/v1/users/spare{self.count}"

    def connect(self, role):
        if role != "nameless":
            return self.daemon.connect("unix" if role == "admin" else "https" if role == "https" else "http")
        connection = self.daemon.connect("unix")
        os.setegid(NAMELESS)
        os.seteuid(NAMELESS)
        try:
            connection.connect()  # whose it is, is found then
        finally:
            os.seteuid(0)
            os.setegid(0)
        return connection

    def ask(self, role, method, path, body=None):
        """Of a stream without an end, its beginning tells."""
        kind = "application/merge-patch+json" if method == "PATCH" and path.startswith("/api") else "application/json"
        token = {"Authorization": f"Bearer {self.tokens[role]}"} if role in self.tokens else {}
        with contextlib.closing(self.connect(role)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": kind, **token})
            return connection.getresponse().status


def kube_rows(lab):
    """(name of the row, method, path) of every kind × verb, and of what is below objects."""
    for root in ("/api/v1", *(f"/apis/{v}" for g in lab.daemon.get("/apis")["groups"] for v in [g["preferredVersion"]["groupVersion"]])):
        for kind in sorted(lab.daemon.get(root)["resources"], key=lambda k: k["name"]):
            plural, _, sub = kind["name"].partition("/")
            base = f"{root}/namespaces/lab/{plural}" if kind["namespaced"] else f"{root}/{plural}"
            name = {"namespaces": "lab", "tasks": lab.task, "tasktemplates": TEMPLATE}.get(plural, "mine")
            for verb in sorted(kind["verbs"]):
                if verb not in VERBS:
                    continue
                path = base if verb in ("list", "watch", "deletecollection") or (verb == "create" and not sub) else f"{base}/{name}"
                path += f"/{sub}" if sub else ""
                query = "?dryRun=All" if VERBS[verb] != "GET" else "?watch=1&timeoutSeconds=1" if verb == "watch" else ""
                yield f"{verb} {root.rpartition('/')[0].removeprefix('/apis/') if root != '/api/v1' else 'core'} {kind['name']}", \
                    VERBS[verb], path + query


def path_of(lab, method, pattern, who):
    """A path of the table that names something that is there."""
    made = {"/v1/queue/": lab.training, "/v1/tokens/": lab.token, "/v1/certificates/": lab.certificate, "/v1/users/": lab.user}
    prefix, star, rest = pattern.partition("*")
    rest = rest.removeprefix("*")
    if who == "job":
        return prefix + lab.uid + rest + ("/x" if pattern.endswith("**") else "") if star else pattern
    if not star:
        return pattern.replace("/...", "/v1") + ("?namespace=lab&dryRun=1" if method == "POST" and pattern in ("/v1/jobs", "/v1/task-definitions") else "")
    if prefix in made and (method != "GET" or prefix == "/v1/users/"):
        return made[prefix]() + rest
    name = {"/v1/jobs/": f"lab/{lab.task}", "/v1/task-templates/": TEMPLATE, "/v1/queue/": lab.uid, "/describe/": lab.uid}
    return prefix + name.get(prefix, "lab/mine") + rest + ("" if method == "GET" else "?dryRun=1")


def cell(code, shown):
    return str(code) if code in shown else "yes"


def table(lab):
    lines = [f"{'':62}" + "".join(f"{role:>10}" for role in ROLES)]
    for row in lab.daemon.get("/v1/access")["paths"]:
        cells = []
        for role in ROLES:
            path = path_of(lab, row["method"], row["path"], row["who"])
            body = None if row["method"] in ("GET", "DELETE") else {}
            cells.append(cell(lab.ask(role, row["method"], path, body), (401, 403, 404) if "*" in row["path"] else (401, 403)))
        lines.append(f"{row['method'] + ' ' + row['path']:62}" + "".join(f"{it:>10}" for it in cells))
    for title, method, path in kube_rows(lab):
        path = path.replace("?watch=1&timeoutSeconds=1", "?watch=1&resourceVersion=bad")  # the watch itself would have to be waited for
        cells = [cell(lab.ask(role, method, path, None if method in ("GET", "DELETE") else {}), (401, 403)) for role in ROLES]
        lines.append(f"{title:62}" + "".join(f"{it:>10}" for it in cells))
    return lines


def test_everybody_may_do_what_the_matrix_says_and_nothing_else(lab):
    if os.geteuid():
        pytest.skip("one of the roles needs root")
    rows = table(lab)
    if os.environ.get("BERTH_WRITE_MATRIX"):
        EXPECTED.write_text("\n".join(rows) + "\n")
    expected = EXPECTED.read_text().splitlines()
    missing = sorted({row[:62] for row in rows} - {row[:62] for row in expected})
    assert not missing, f"these have no row in {EXPECTED.name}: {missing}"
    assert rows == expected


def test_no_route_is_served_without_a_row(lab):
    """The tables of handlers hold nothing that the table of who may does not."""
    known = {(row["method"], row["path"]) for row in lab.daemon.get("/v1/access")["paths"]}
    route = re.compile(r'\{"(GET|POST|PUT|DELETE|PATCH)", "(/[^"]*)",')
    for folder in ("src/api/rest", "src/machine"):
        for source in (harness.ROOT / folder).rglob("*.c"):
            for method, path in route.findall(source.read_text()):
                assert (method, path) in known, f"{source.name}: {method} {path}"
    assert lab.daemon.request("GET", "/v1/nothing").code == 404
