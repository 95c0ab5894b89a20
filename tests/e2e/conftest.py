"""Fixtures of all e2e tests. `daemon` is one per module, for tests that only need some server: they
keep to namespaces of their own (`ns`). `own_daemon` is fresh, for tests that stop, break or fill it."""

import glob
import itertools
import os
import shutil
import signal

import pytest

import harness

_numbers = itertools.count(1)
# What of the machine containers come near to: devices, what is executed for them, what they have views of.
_MACHINE = ("/dev/*", "/dev/*/*", "/", "/etc", "/etc/*", "/home", "/root", "/run", "/tmp", "/var", "/usr", "/usr/*", "/bin/busybox",
            "/usr/bin/crun", "/usr/sbin/runc", "/usr/bin/runc", "/usr/bin/tini*", "/proc/self/ns/*", "/sys/fs/cgroup")
_PASSING = ("/dev/fd/", "/dev/pts/", "/dev/shm/", "/dev/loop", "/dev/mqueue/")
_commands = {}  # row of docs/kubectl.md -> kubectl version -> "yes", "no" or "skipped"


def pytest_configure(config):
    # Started in the background by a shell, SIGINT is ignored, and would be by all that the tests start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "command(text): the row of docs/kubectl.md that this test proves")
    config.addinivalue_line("markers", "plain: not again under the sanitizers (long, or about other programs)")


def _machine_inodes():
    """{path: type, mode, owner} of what tests must leave as it is, links themselves and not what they lead to."""
    found = {}
    for pattern in _MACHINE:
        for path in glob.glob(pattern):
            try:
                st = os.lstat(path)
            except OSError:
                continue
            if not path.startswith(_PASSING):
                found[path] = (oct(st.st_mode), st.st_uid, st.st_gid, st.st_rdev, st.st_ino if path.startswith("/dev/") else 0)
    return found


@pytest.fixture(scope="session", autouse=True)
def machine_stays_as_it_is():
    """No container, command or upload of any test changes owner or mode of a file of this machine, or replaces a device."""
    before = _machine_inodes()
    yield
    after = _machine_inodes()
    changed = [f"{path}: {before[path]} -> {after[path]}" for path in before if path in after and before[path] != after[path]]
    changed += [f"{path} is gone" for path in before if path.startswith("/dev/") and path not in after]
    assert not changed, "\n".join(changed)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    report = (yield).get_result()
    row, params = item.get_closest_marker("command"), getattr(item, "callspec", None)
    if row is None or params is None or (report.when != "call" and report.passed):
        return
    cells = _commands.setdefault(row.args[0], {})
    cell = "skipped" if report.skipped else "yes" if report.passed else "no"
    if cells.get(params.params.get("k")) != "no":  # a row may have several tests
        cells[params.params.get("k")] = cell


def pytest_sessionfinish():
    """Writes the table command x kubectl version where $BERTH_KUBECTL_TABLE names a file."""
    path = os.environ.get("BERTH_KUBECTL_TABLE")
    if not path or not _commands:
        return
    versions = sorted({v for cells in _commands.values() for v in cells},
                      key=lambda v: [int(n) if n.isdigit() else 0 for n in str(v).split(".")])
    lines = ["| command | " + " | ".join(map(str, versions)) + " |", "|---" * (len(versions) + 1) + "|"]
    lines += ["| `" + row.replace("|", "\\|") + "` | " + " | ".join(cells.get(v, "") for v in versions) + " |"
              for row, cells in _commands.items()]
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")


def pytest_collection_modifyitems(items):
    """Tests that take a kubectl are skipped where there is none."""
    if shutil.which("kubectl"):
        return
    for item in items:
        if "kubectl" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason="there is no kubectl on PATH"))


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    with harness.Daemon(tmp_path_factory.mktemp("berth")) as running:
        yield running


@pytest.fixture
def own_daemon(tmp_path):
    with harness.Daemon(tmp_path) as running:
        yield running


@pytest.fixture
def ns(daemon):
    """The name of a new, empty namespace."""
    name = f"t{next(_numbers)}"
    daemon.post("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
def kubectl(daemon):
    """daemon.kubectl, of the version on PATH."""
    return daemon.kubectl
