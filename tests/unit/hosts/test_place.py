"""The place of a trainer, by what each starter leaves in the environment."""

from __future__ import annotations

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
    job = {"SLURM_JOB_ID": "70123", "SLURM_STEP_NODELIST": "node[03-05,9],login"}
    return {name: str(number) for name, number in numbers} | job | more


def test_of_torchrun():
    place = place_of(torchrun(5, 8, 1, 4, GROUP_RANK=1, TORCHELASTIC_USE_AGENT_STORE=True))
    assert (place.rank, place.world, place.local, place.here) == (5, 8, 1, 4)
    assert (place.host, place.hosts, place.mistake) == (1, 2, None)
    assert (place.address, place.port, place.served) == ("host1", 29500, True)


def test_of_slurm():
    place = place_of(slurm(5, 8, 1, 1, 2, SLURM_RESTART_COUNT="2"))
    assert (place.rank, place.world, place.local, place.here, place.host) == (5, 8, 1, 4, 1)
    assert (place.address, place.port, place.served, place.restarts) == ("node03", 20123, False, 2)
    assert place_of(slurm(5, 8, 1, 1, 2, **STORE)).port == 29500


def test_of_open_mpi():
    numbers = {"RANK": "3", "SIZE": "4", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}
    place = place_of(STORE | {f"OMPI_COMM_WORLD_{name}": number for name, number in numbers.items()})
    assert (place.rank, place.local, place.host, place.by) == (3, 1, 1, "mpirun")


def test_torch_wins_over_slurm():
    assert place_of(slurm(7, 8, 3, 1, 2) | torchrun(0, 2, 0, 1)).rank == 0


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"WORLD_SIZE": "2", "LOCAL_RANK": "0"},
        torchrun(0, 1, 0, 1),  # of a notebook
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"},  # of a batch script
        slurm(0, 1, 0, 0, 1),
    ],
)
def test_processes_that_start_their_trainers_themselves_have_none(environment):
    assert place_of(environment) is None


def test_one_trainer_of_torchrun_is_placed():
    assert place_of(torchrun(0, 1, 0, 1, TORCHELASTIC_RUN_ID="none")).world == 1


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        (torchrun(0, 6, 0, 4, GROUP_RANK=0), "WORLD_SIZE, 6, 4, as many"),
        (torchrun(4, 6, 0, 2, GROUP_RANK=1), "RANK, 4, 2, as many"),
        (torchrun(1, 4, 0, 2), "RANK, 1, follow one another"),
        (slurm(1, 4, 0, 1, 2), "SLURM_PROCID, 1, --distribution=block"),
    ],
)
def test_where_nobody_can_train_the_others_are_to_hear_of_it(environment, words):
    says(place_of(environment).mistake, words)


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "LOCAL_RANK, torchrun"),
        ({"RANK": "zero", "WORLD_SIZE": "2"}, "RANK, 'zero'"),
        (torchrun(0, 2, 0, 2) | {"MASTER_ADDR": ""}, "MASTER_ADDR, MASTER_PORT"),
        (torchrun(0, 2, 0, 2) | {"MASTER_PORT": "70000"}, "MASTER_PORT, 70000"),
    ],
)
def test_what_cannot_be_trained_at_is_refused(environment, words):
    with pytest.raises(InputError, match=line_with(words)):
        place_of(environment)


def test_the_way_to_the_store_begins_at_an_address_of_this_host():
    assert place_of(torchrun(0, 2, 0, 2) | {"MASTER_ADDR": "127.0.0.1"}).interface_address == "127.0.0.1"
    with pytest.raises(InputError, match=line_with("MASTER_ADDR, no-such-host.invalid")):
        _ = place_of(torchrun(0, 2, 0, 2) | {"MASTER_ADDR": "no-such-host.invalid"}).interface_address
