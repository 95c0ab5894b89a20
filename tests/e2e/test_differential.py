"""Answers of a real kube-apiserver, recorded once (tests/data/kube-diff), held against ours."""

import pathlib

import pytest

import kube_diff

SCENARIOS = sorted((pathlib.Path(__file__).resolve().parent.parent / "data" / "kube-diff").glob("*.json"))


@pytest.fixture(scope="module")
def token(daemon):
    return daemon.post("/v1/tokens", {})["token"]


@pytest.fixture(scope="module")
def user_token(daemon):
    """Of somebody who has no rights in the scenarios' namespaces."""
    return daemon.post("/v1/tokens", {"user": "alice"})["token"]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_answers_are_those_of_kubernetes(daemon, token, user_token, path):
    found = kube_diff.run_scenarios(daemon.http, token, [path], user_token)
    differences = [d for d in found if not d.known]
    assert not differences, "\n".join(str(d) for d in differences)
