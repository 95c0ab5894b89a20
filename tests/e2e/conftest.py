"""Fixtures of all e2e tests. `daemon` is one per module, for tests that only need some server: they
keep to namespaces of their own (`ns`). `own_daemon` is fresh, for tests that stop, break or fill it."""

import itertools
import shutil

import pytest

import harness

_numbers = itertools.count(1)


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
