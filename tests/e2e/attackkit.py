"""What the tests of attacks share (attack_*.py): people of this machine who ask over the socket, by their uid alone, and
a lab with a namespace that two of them share.

    with attackkit.lab(tmp_path) as lab:
        lab.ann.create(podkit.pod("p", "id -u"))
        assert lab.bob.try_create(pod, ns="lab").code == 403

Attacks that no longer work and those that never did both stand here, by class: what can be reached through a pod's
fields, through references to others' objects, through values of templates."""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile

import harness
import labkit
import podkit

SHARED = "lab"


class Person:
    """Somebody with a uid and no account: known to Berth as uid-N."""

    def __init__(self, node, uid):
        self.node, self.uid, self.name = node, uid, f"uid-{uid}"

    def request(self, method, path, body=None, headers=None, timeout=30):
        """One request over the socket. The peer's uid is taken when it connects."""
        headers = {"Content-Type": "application/json", **(headers or {})}
        connection = self.node.connect("unix", timeout)
        with contextlib.closing(connection):
            os.setegid(self.uid)
            os.seteuid(self.uid)
            try:
                connection.connect()
            finally:
                os.seteuid(0)
                os.setegid(0)
            connection.request(method, path, body=body if body is None or isinstance(body, (str, bytes)) else json.dumps(body),
                               headers=headers)
            response = connection.getresponse()
            return harness.Answer(response.status, response.headers, response.read())

    def get(self, path):
        answer = self.request("GET", path)
        assert answer.code == 200, f"GET {path}: {answer.code} {answer.body!r}"
        return answer.json()

    def try_create(self, doc, ns=None):
        return self.request("POST", place(doc, ns or self.name), doc)

    def create(self, doc, ns=None):
        answer = self.try_create(doc, ns)
        assert answer.code == 201, f"{doc['kind']}: {answer.code} {answer.body!r}"
        return answer.json()


def place(doc, ns):
    """The path of a document's collection."""
    version = doc["apiVersion"]
    plural = {"Endpoints": "endpoints"}.get(doc["kind"], doc["kind"].lower() + "s")
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{root}/namespaces/{ns}/{plural}" if ns else f"{root}/{plural}"


class Lab:
    def __init__(self, node):
        self.node = node
        number = os.getpid() % 10000  # other runs of the tests share the machine
        self.ann, self.bob = Person(node, 300000 + 2 * number), Person(node, 300001 + 2 * number)
        for name in (self.ann.name, self.bob.name):
            self.namespace(name)
        self.namespace(SHARED, {"berth.dev/members": f"{self.ann.name}, {self.bob.name}"})

    def namespace(self, name, annotations=None):
        self.node.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace",
                                              "metadata": {"name": name, "annotations": annotations or {}}})

    def delete(self, name, ns):
        """Ends a pod, and waits until it is gone."""
        path = f"/api/v1/namespaces/{ns}/pods/{name}"
        self.node.request("DELETE", path + "?gracePeriodSeconds=0")
        harness.wait(lambda: self.node.request("GET", path).code == 404, f"pod {ns}/{name} is gone")

    def admin(self, doc, ns="default"):
        return self.node.post(place(doc, ns), doc)

    def pod(self, name, ns):
        return self.node.get(f"/api/v1/namespaces/{ns}/pods/{name}")

    def until(self, name, ns, test, what, timeout=30):
        def look():
            answer = self.node.request("GET", f"/api/v1/namespaces/{ns}/pods/{name}")  # a job's pod is made after the job
            return answer.json() if answer.code == 200 and test(answer.json()) else None
        try:
            return harness.wait(look, f"pod {ns}/{name}: {what}", timeout)
        except AssertionError as trouble:
            raise AssertionError(f"{trouble}\n{json.dumps(self.pod(name, ns)['status'], indent=1)}") from trouble

    def output(self, name, ns, phases=("Succeeded",)):
        """What a pod wrote, when it has ended."""
        self.until(name, ns, lambda p: p["status"].get("phase") in phases, f"phase {phases}")
        answer = self.node.request("GET", f"/api/v1/namespaces/{ns}/pods/{name}/log")
        assert answer.code == 200, answer.body
        return answer.body.decode()

    def refused(self, name, ns):
        """Why a pod's container does not start: the message of CreateContainerConfigError, or of the pod's failure."""
        def waits(pod):
            for status in pod["status"].get("containerStatuses", []) + pod["status"].get("initContainerStatuses", []):
                waiting = status.get("state", {}).get("waiting", {})
                if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
                    return waiting["reason"] + ": " + waiting.get("message", "")
            return None
        found = self.until(name, ns, waits, "does not start")
        return waits(found)


@contextlib.contextmanager
def folders(*people):
    """A folder that everybody may enter (pytest's are root's alone), and in it one for each of these people, closed to others."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="berth-attack-"))
    top.chmod(0o755)
    made = [top / person.name for person in people]
    for person, path in zip(people, made):
        path.mkdir(0o700)
        (path / "file").write_text(f"of {person.name}\n")
        for it in (path, path / "file"):
            os.chown(it, person.uid, person.uid)
    try:
        yield made
    finally:
        shutil.rmtree(top)


@contextlib.contextmanager
def lab(folder, *flags, start=podkit.start, close=podkit.close):
    node = start(folder, *labkit.open_socket(folder), *flags)
    try:
        yield Lab(node)
        close(node)
    except BaseException:
        with contextlib.suppress(Exception):  # what went wrong is told; what runs is ended all the same
            close(node)
        node.close(check=False)
        podkit.remove_traces(node.data)
        raise
