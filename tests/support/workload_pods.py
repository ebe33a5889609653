"""Pods, and groups of them, as the controllers of Job, JobSet and LeaderWorkerSet make them."""

import hashlib
from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]
JOBSET, LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"
SUFFIX = "x7k2p"
"""The random end of a Job's pods."""
REVISION = "dd6699c7c"


def job_with_group(job: Object) -> list[Object]:
    """Return what the Job controller of 1.37 makes with its gate WorkloadWithJob: a PodGroup, as in
    the Workload that it makes besides, and the pods of the group.
    """
    name, policy = job["metadata"]["name"], job["spec"]["scheduling"]["schedulingPolicy"]
    workload = f"{name}-6c7b9d5f4"
    template = {"workloadName": workload, "podGroupTemplateName": f"{name}-pgt-0"}
    group = f"{workload}-{name}-pgt-0-5d8f7"
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True}]
    made = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": group, "ownerReferences": owners},
        "spec": {"schedulingPolicy": policy, "workloadRef": template},
    }
    pods = list(_pods_of_job(name, job["spec"]))
    for pod in pods:
        pod["spec"]["schedulingGroup"] = {"podGroupName": group}
    return [made, *pods]


def jobset_pods(jobset: Object) -> Iterator[Object]:
    """Yield the pods of all Jobs of a JobSet."""
    name, number = jobset["metadata"]["name"], 0
    replicated = jobset["spec"]["replicatedJobs"]
    total = sum(one["replicas"] for one in replicated)
    for one in replicated:
        for index in range(one["replicas"]):
            job = f"{name}-{one['name']}-{index}"
            shown = {
                f"{JOBSET}/jobset-name": name,
                f"{JOBSET}/jobset-uid": "2f3e4c55-0b0a-4f0e-9f3e-3c6f0f1f7d11",
                f"{JOBSET}/replicatedjob-name": one["name"],
                f"{JOBSET}/replicatedjob-replicas": str(one["replicas"]),
                f"{JOBSET}/global-replicas": str(total),
                f"{JOBSET}/job-index": str(index),
                f"{JOBSET}/job-global-index": str(number),
                f"{JOBSET}/job-key": hashlib.sha1(f"default/{job}".encode()).hexdigest(),
                f"{JOBSET}/restart-attempt": "0",
            }
            for pod in _pods_of_job(job, one["template"]["spec"]):
                pod["metadata"]["labels"].update(shown)
                pod["metadata"]["annotations"].update(shown)
                yield pod
            number += 1


def lws_with_groups(lws: Object) -> list[Object]:
    """Return the pods of a LeaderWorkerSet and the PodGroups of Volcano that its controller makes
    with `schedulerProvider: volcano`.
    """
    name, template = lws["metadata"]["name"], lws["spec"]["leaderWorkerTemplate"]
    found: list[Object] = []
    for index in range(lws["spec"]["replicas"]):
        leader, group = f"{name}-{index}", f"{name}-{index}-{REVISION}"
        owners = [{"apiVersion": "v1", "kind": "Pod", "name": leader, "controller": True}]
        found.append(
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": group, "ownerReferences": owners},
                "spec": {"minMember": template["size"], "minResources": {"cpu": "3"}},
            }
        )
        for worker in range(template["size"]):
            pod = _pod(template["workerTemplate"], f"{leader}-{worker}" if worker else leader)
            labels = {
                f"{LWS}/name": name,
                f"{LWS}/group-index": str(index),
                f"{LWS}/worker-index": str(worker),
                f"{LWS}/group-key": hashlib.sha1(f"default/{leader}".encode()).hexdigest(),
                f"{LWS}/template-revision-hash": REVISION,
                "statefulset.kubernetes.io/pod-name": pod["metadata"]["name"],
            }
            notes = {f"{LWS}/size": str(template["size"]), "scheduling.k8s.io/group-name": group}
            pod["metadata"]["labels"].update(labels)
            pod["metadata"]["annotations"].update(notes)
            if worker:
                pod["metadata"]["annotations"][f"{LWS}/leader-name"] = leader
            found.append(pod)
    return found


def _pods_of_job(job: str, spec: Object) -> Iterator[Object]:
    uid = "5b9cb3f0-3d8f-4a55-8f0c-0d5d0e5f3c11"
    for index in range(spec["parallelism"]):
        pod = _pod(spec["template"], f"{job}-{index}-{SUFFIX}")
        completion = {"batch.kubernetes.io/job-completion-index": str(index)}
        labels = {"job-name": job, "controller-uid": uid}
        shown = {f"batch.kubernetes.io/{key}": value for key, value in labels.items()}
        pod["metadata"]["labels"].update({**labels, **shown, **completion})
        pod["metadata"]["annotations"].update(completion)
        yield pod


def _pod(template: Object, name: str) -> Object:
    """Return a pod of a template."""
    meta = template.get("metadata", {})
    metadata = {
        "name": name,
        "labels": dict(meta.get("labels", {})),
        "annotations": dict(meta.get("annotations", {})),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**template["spec"]}}
