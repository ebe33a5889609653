"""Small traces and manifests in a temporary folder, and the real traces where they exist."""

from pathlib import Path

import pytest

NODES = """sn,cpu_milli,memory_mib,gpu,model
node-0,32000,1024,0,
node-1,64000,2048,2,T4
node-2,96000,4096,8,G2
node-3,8000,512,1,T4
"""
PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
creation_time,deletion_time,scheduled_time
pod-a,1000,10,1,1000,,LS,Running,0,100,10
pod-b,1000,10,1,460,T4|G2|T4,BE,Running,20,100,30
pod-c,500,0,0,0,,Burstable,Pending,10,60,
pod-d,500,5,8,1000,G2,Guaranteed,Failed,20,100,20
"""
DLRM = """\
instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,\
memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,\
creation_time,scheduled_time,deletion_time
instance_0,HN,app_0,12,12,1,1,25,25,120.0,120.0,640.0,800.0,8,,,
instance_1,CN,app_1,64,64,0,0,1,1,320.5,320.5,85.0,100.0,-1,,,75.0
instance_2,CN,app_1,64,64,0,0,1,1,320.0,320.0,85.0,100.0,-1,100.0,110.0,200.0
instance_3,CN,app_1,192,192,0,0,1,1,960.0,960.0,85.0,100.0,2,150.0,150.0,
"""


@pytest.fixture
def openb(tmp_path: Path) -> Path:
    """A folder with a tiny openb trace (both pod lists alike)."""
    (tmp_path / "openb_node_list_all_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS)
    (tmp_path / "openb_pod_list_gpuspec33.csv").write_text(PODS)
    return tmp_path


@pytest.fixture
def dlrm(tmp_path: Path) -> Path:
    """A folder with a tiny DLRM trace."""
    (tmp_path / "disaggregated_DLRM_trace.csv").write_text(DLRM)
    return tmp_path


def edited(path: Path, old: str, new: str) -> None:
    """Replace a part of a file that must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
