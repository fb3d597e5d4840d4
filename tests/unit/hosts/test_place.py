"""The place of a trainer, by what each starter leaves in the environment."""

from __future__ import annotations

import os

import pytest
from support.messages import line_with, says

from gsplit.errors import InputError
from gsplit.hosts import place_of

STORE = {"MASTER_ADDR": "host1", "MASTER_PORT": "29500"}


def torchrun(rank, world, local, here, **more):
    numbers = {"RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": here}
    return STORE | {name: str(number) for name, number in (numbers | more).items()}


def slurm(rank, world, local, node, nodes, **more):
    names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NUM_NODES")
    numbers = zip(names, (rank, world, local, node, nodes), strict=True)
    job = {"SLURM_JOB_ID": "70123", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "node[03-05,9],login"}
    return {name: str(number) for name, number in numbers} | job | more


def open_mpi(rank, world, local, here, **more):
    numbers = {"RANK": rank, "SIZE": world, "LOCAL_RANK": local, "LOCAL_SIZE": here}
    return {f"OMPI_COMM_WORLD_{name}": str(number) for name, number in numbers.items()} | more


def pod(rank, world, **more):
    """As the operator of Kubernetes' PyTorchJob sets it, in the one process of a pod."""
    return STORE | {"RANK": str(rank), "WORLD_SIZE": str(world), "PET_NNODES": str(world)} | more


def test_of_torchrun():
    place = place_of(torchrun(5, 8, 1, 4, GROUP_RANK=1, TORCHELASTIC_USE_AGENT_STORE=True))
    assert (place.rank, place.world, place.local, place.here) == (5, 8, 1, 4)
    assert (place.host, place.hosts, place.mistake) == (1, 2, None)
    assert (place.address, place.port, place.served) == ("host1", 29500, True)


def test_of_slurm():
    place = place_of(slurm(5, 8, 1, 1, 2, SLURM_RESTART_COUNT="2", SLURM_STEP_TASKS_PER_NODE="4(x2)"))
    assert (place.rank, place.world, place.local, place.here, place.host) == (5, 8, 1, 4, 1)
    assert (place.address, place.port, place.served, place.restarts) == ("node03", 20123, False, 2)
    assert place.mistake is None
    assert place_of(slurm(5, 8, 1, 1, 2, **STORE)).port == 29500


def test_steps_of_a_job_have_stores_of_their_own():
    first, second = (place_of(slurm(0, 8, 0, 0, 2, SLURM_STEP_ID=step)) for step in "01")
    assert first.port != second.port
    assert first.step != second.step


def test_jobs_of_slurm_have_ports_of_their_own():
    jobs = [
        slurm(0, 2, 0, 0, 2, SLURM_JOB_ID=str(job), SLURM_STEP_ID=str(step)) for job in range(900) for step in (0, 1)
    ]
    ports = {place_of(job).port for job in jobs}
    assert len(ports) == len(jobs)
    assert min(ports) >= 20000
    assert max(ports) < 30000  # where Linux gives connections no ports


@pytest.mark.parametrize(
    ("reserved", "port"), [("12007-12010", 12007), ("12003", 12003), ("", 20123), ("(null)", 20123)]
)
def test_a_port_that_slurm_has_reserved_is_taken(reserved, port):
    assert place_of(slurm(1, 8, 1, 0, 2, SLURM_STEP_RESV_PORTS=reserved)).port == port
    assert place_of(slurm(1, 8, 1, 0, 2, SLURM_STEP_RESV_PORTS=reserved, **STORE)).port == 29500


def test_of_open_mpi():
    place = place_of(open_mpi(3, 4, 1, 2, **STORE))
    assert (place.rank, place.local, place.host, place.by) == (3, 1, 1, "mpirun")
    assert (place.address, place.port) == ("host1", 29500)


def test_open_mpi_on_one_host_needs_no_address():
    first, last, other = (
        place_of(open_mpi(rank, 4, rank, 4, PMIX_NAMESPACE=job)) for rank, job in ((0, "a"), (3, "a"), (3, "b"))
    )
    assert first.address == "127.0.0.1"
    assert first.port == last.port != other.port


def test_open_mpi_in_a_job_of_slurm():
    """There mpirun's helpers are tasks of Slurm's, one on each host but the first."""
    job = {"SLURM_JOB_NODELIST": "node[1-2]", "PMIX_NAMESPACE": "a"}
    place = place_of(slurm(0, 1, 0, 0, 1) | open_mpi(2, 4, 0, 2, **job))
    assert (place.rank, place.world, place.by, place.address) == (2, 4, "mpirun", "node1")


def test_torch_wins_over_slurm():
    assert place_of(slurm(7, 8, 3, 1, 2) | torchrun(0, 2, 0, 1)).rank == 0


def test_what_scripts_export_of_slurm_is_completed_by_it():
    exported = STORE | {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
    place = place_of(slurm(5, 8, 1, 1, 2) | exported)
    assert (place.rank, place.local, place.here, place.port) == (5, 1, 4, 29500)


def test_of_a_pod_with_one_process():
    place = place_of(pod(1, 2, PET_NPROC_PER_NODE="1", PET_NODE_RANK="1"))
    assert (place.rank, place.world, place.local, place.here, place.host) == (1, 2, 0, 1, 1)


def test_of_torchrun_in_a_pod():
    of_pod = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "4", "PET_NODE_RANK": "1", "PET_RDZV_BACKEND": "c10d"}
    place = place_of(of_pod | torchrun(5, 8, 1, 4, GROUP_RANK=1, TORCHELASTIC_RUN_ID="job"))
    assert (place.rank, place.here, place.by) == (5, 4, "torchrun")


def in_terminal(task, pid):
    return slurm(task, 4, task, 0, 1, SLURM_PTY_PORT="40001", SLURM_TASK_PID=str(pid))


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WORLD_SIZE": "2", "LOCAL_RANK": "0"},
        torchrun(0, 1, 0, 1),  # of a notebook
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"},  # of a batch script
        slurm(0, 1, 0, 0, 1),
        in_terminal(0, 1),  # of a shell of srun --pty
    ],
)
def test_processes_that_start_their_trainers_themselves_have_none(environment):
    assert place_of(environment) is None


def test_a_task_with_a_terminal_is_placed():
    assert place_of(in_terminal(2, os.getpid())).rank == 2


def test_one_trainer_of_torchrun_is_placed():
    assert place_of(torchrun(0, 1, 0, 1, TORCHELASTIC_RUN_ID="none")).world == 1


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (torchrun(0, 6, 0, 4, GROUP_RANK=0), "WORLD_SIZE, 6, 4, as many"),
        (torchrun(4, 6, 0, 2, GROUP_RANK=1), "RANK, 4, 2, follow one another"),
        (torchrun(1, 4, 0, 2), "RANK, 1, follow one another"),
        (slurm(1, 4, 0, 1, 2), "SLURM_PROCID, 1, --distribution=block"),
        (slurm(0, 4, 0, 0, 2, SLURM_DISTRIBUTION="cyclic"), "cyclic, --distribution=block"),
        (slurm(0, 6, 0, 0, 2, SLURM_STEP_TASKS_PER_NODE="4,2"), "4, 2, --ntasks-per-node"),
        (open_mpi(1, 4, 0, 2, **STORE), "OMPI_COMM_WORLD_RANK, 1, --map-by slot"),
    ],
)
def test_where_nobody_can_train_the_others_are_to_hear_of_it(environment, words):
    place = place_of(environment)
    says(place.mistake, words)
    assert (place.hosts, place.host) == (1, 0)


def test_a_dealt_task_a_host_follows():
    assert place_of(slurm(1, 2, 0, 1, 2, SLURM_DISTRIBUTION="cyclic")).mistake is None


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "LOCAL_RANK, torchrun"),
        (pod(0, 8, PET_NNODES="2", PET_NPROC_PER_NODE="4"), "LOCAL_RANK, torchrun"),
        ({"RANK": "zero", "WORLD_SIZE": "2"}, "RANK, 'zero'"),
        (torchrun(0, 2, 0, 2) | {"MASTER_ADDR": ""}, "MASTER_ADDR, MASTER_PORT"),
        (torchrun(0, 2, 0, 2) | {"MASTER_PORT": "70000"}, "MASTER_PORT, 70000"),
        (open_mpi(0, 4, 0, 2, PMIX_NAMESPACE="a"), "mpirun, MASTER_ADDR, -x"),
        (in_terminal(1, 1), "--pty, task 0"),
    ],
)
def test_what_cannot_be_trained_at_is_refused(environment, words):
    with pytest.raises(InputError, match=line_with(words)):
        place_of(environment)


def test_the_way_to_the_store_begins_at_an_address_of_this_host():
    assert place_of(torchrun(0, 2, 0, 2) | {"MASTER_ADDR": "127.0.0.1"}).interface_address == "127.0.0.1"
    with pytest.raises(InputError, match=line_with("MASTER_ADDR, no-such-host.invalid")):
        _ = place_of(torchrun(0, 2, 0, 2) | {"MASTER_ADDR": "no-such-host.invalid"}).interface_address
