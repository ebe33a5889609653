"""Huge pages that a pod requests at pod level."""

from typing import Any

import pytest

from shared.model.objects import PodSpec
from shared.worlds.case import case_of
from tests.unit.worlds.manifests import pod

PAGES, MI = "hugepages-2Mi", 1 << 20


def spec_of(inner: dict[str, str], **whole: Any) -> PodSpec:
    resources = {"requests": {**inner, "cpu": "1"}, "limits": inner}
    asked = pod(containers=[{"name": "c", "resources": resources}], **whole)
    return case_of("case", {"objects": [], "pods": [asked]}).asked[0].spec


@pytest.mark.parametrize(("inner", "scored"), [({}, 0), ({PAGES: "2Mi"}, 2 * MI)])
def test_pod_level_pages_are_requested_and_not_scored(inner, scored):
    pages = {PAGES: "4Mi"}
    spec = spec_of(inner, resources={"requests": pages, "limits": pages})
    assert spec.request(PAGES) == 4 * MI
    assert spec.asked_pages == ((PAGES, scored),)


def test_requests_of_containers_are_scored_as_they_are():
    assert spec_of({PAGES: "2Mi"}).asked_pages == ()
    whole = {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}
    assert spec_of({}, resources=whole).asked_pages == ()
