"""The size of a job's state by operator and partition."""

from __future__ import annotations

from manifests import a_query, an_operator
from statefulspark.contract import observations
from statefulspark.contract.manifest import OperatorStateEntry
from statefulspark.driver import status


def test_files_are_added_up_by_operator_and_partition() -> None:
    entry = a_query(
        "delays",
        an_operator("mean", 0, partitions=2),
        an_operator("last", 1, partitions=1),
        files={
            "state/0/0/4_a.zip": 100,
            "state/0/0/head_mean/5_b.changelog": 20,
            "state/0/0/head_mean/SSTs/000012.sst": 30,
            "state/0/1/4_c.zip": 50,
            "state/1/0/4_d.zip": 7,
            "state/0/_metadata/metadata": 1000,
            "offsets/3": 1000,
        },
    )

    measured = status.state_sizes("checkpoint 4", (entry,))

    assert measured == observations.StateSizes(
        snapshot="checkpoint 4",
        operators=(
            observations.OperatorSize(
                query="delays",
                uid="mean",
                name="transformWithStateInPandasExec",
                size_bytes=200,
                files=4,
                partitions=(
                    observations.PartitionSize(partition=0, size_bytes=150, files=3),
                    observations.PartitionSize(partition=1, size_bytes=50, files=1),
                ),
                skew=1.5,
            ),
            observations.OperatorSize(
                query="delays",
                uid="last",
                name="transformWithStateInPandasExec",
                size_bytes=7,
                files=1,
                partitions=(observations.PartitionSize(partition=0, size_bytes=7, files=1),),
                skew=1.0,
            ),
        ),
    )


def test_every_key_group_is_in_one_partition() -> None:
    entry = a_query("delays", an_operator(partitions=5, max_parallelism=128))

    (operator,) = status.state_sizes(None, (entry,)).operators

    counts = [partition.key_groups for partition in operator.partitions]
    assert counts == [26, 26, 26, 25, 25]


def test_a_partition_without_files_is_told_as_empty() -> None:
    entry = a_query("delays", an_operator(partitions=3), files={"state/0/1/2_a.zip": 30})

    (operator,) = status.state_sizes(None, (entry,)).operators

    assert ([one.size_bytes for one in operator.partitions], operator.skew) == ([0, 30, 0], 3.0)


def test_an_operator_without_state_has_no_skew() -> None:
    (operator,) = status.state_sizes(None, (a_query("delays", an_operator()),)).operators

    assert (operator.size_bytes, operator.skew) == (0, None)


def test_the_state_of_a_function_is_told_as_well() -> None:
    state = OperatorStateEntry(uid="buffer", path="operators/buffer/3.bin", batch_id=3)
    entry = a_query("delays", files={"operators/buffer/3.bin": 77}, operator_states=(state,))

    assert status.state_sizes(None, (entry,)).operators == (
        observations.OperatorSize(query="delays", uid="buffer", name="operatorState", size_bytes=77, files=1),
    )
