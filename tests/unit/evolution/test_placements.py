"""How the key groups of restored operators are spread: as their state has it, whatever release wrote it."""

from __future__ import annotations

import pytest
from manifests import a_query, an_operator
from statefulspark.checkpoint import plans
from statefulspark.contract.manifest import OperatorEntry
from statefulspark.contract.placement import Placement


@pytest.mark.parametrize(
    ("batch_id", "operators", "placements"),
    [
        pytest.param(3, [an_operator("a", name="tws", placement=Placement.EVEN)], {"a": Placement.EVEN}, id="written"),
        pytest.param(
            3,
            [an_operator("a", name="tws", placement=None)],
            {"a": Placement.HASHED},
            id="by a release that knew only one way",
        ),
        pytest.param(3, [an_operator("tws-0", name="tws", placement=None)], {}, id="Spark's own"),
        pytest.param(-1, [an_operator("a", name="tws", placement=None)], {}, id="not written yet"),
    ],
)
def test_placements_of_restored_operators(
    batch_id: int, operators: list[OperatorEntry], placements: dict[str, Placement]
) -> None:
    query = a_query("q", *operators, batch_id=batch_id)

    assert plans.placements([query]) == placements


@pytest.mark.parametrize("placement", Placement)
@pytest.mark.parametrize("uid", ["a", "head_a", "even_head_a", "x-y_z"])
def test_a_variable_names_its_operator_and_placement(placement: Placement, uid: str) -> None:
    assert Placement.of_variable(placement.head(uid)) == (uid, placement)
    assert Placement.of_variable(placement.log(uid)) is None
