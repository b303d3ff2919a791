"""Waits in a backward pass have the line of the forward operation that they belong to."""

from __future__ import annotations

import numpy as np

from tests.support.builders import AUTOGRAD, Machine
from tests.support.clocked_loops import ClockedLoop
from tests.support.timelines import built
from tracelens.trace.forward_ops import backward_nodes
from tracelens.trace.tables import TraceRows


def linked(machine: Machine) -> dict[str, str | None]:
    """Node to forward operation, by name; a name that starts the row's is enough."""
    trace = machine.trace()
    rows = TraceRows(trace)
    nodes = backward_nodes(rows)
    node = [name.rpartition(" ")[2] for name in rows.names(nodes.rows)]
    forward = [rows.names(np.array([row]))[0] if row >= 0 else None for row in nodes.forward]
    return dict(zip(node, forward, strict=True))


def test_of_operations_with_one_number_the_last_one_made_the_node() -> None:
    """`item` makes no node: it carries the number that the next operation gets. A linear layer holds its transpose."""
    machine = Machine()
    with machine.operation("aten::item", 7):
        machine.host(5)
    with machine.operation("aten::linear", 7):
        machine.host(5)
        with machine.operation("aten::t", 7):
            machine.host(5)
    with machine.operation("aten::addmm", 8):
        machine.launch("gemm", 10)
    with machine.node("AddmmBackward0", 8), machine.operation("AddmmBackward0", 8, AUTOGRAD):
        machine.launch("gemm", 10, thread=AUTOGRAD)
    with machine.node("TBackward0", 7):
        machine.host(5)
    with machine.node("UnknownBackward0", 9):
        machine.host(5)
    assert linked(machine) == {"AddmmBackward0": "aten::addmm", "TBackward0": "aten::t", "UnknownBackward0": None}


def test_a_gradient_is_accumulated_for_the_node_before_it() -> None:
    machine = Machine()
    with machine.operation("aten::mul", 3):
        machine.launch("mul", 10)
    with machine.node("MulBackward0", 3):
        machine.launch("mul", 10, thread=AUTOGRAD)
    with machine.node("torch::autograd::AccumulateGrad"):
        machine.host(5)
    assert linked(machine)["torch::autograd::AccumulateGrad"] == "aten::mul"


def test_a_second_pass_over_the_same_graph_finds_the_forward_operation_too() -> None:
    machine = Machine()
    with machine.operation("aten::mul", 3):
        machine.launch("mul", 10)
    for _ in range(2):
        with machine.node("MulBackward0", 3), machine.operation("MulBackward0", 3, AUTOGRAD):
            machine.launch("mul", 10, thread=AUTOGRAD)
    assert linked(machine) == {"MulBackward0": "aten::mul"}
    nodes = backward_nodes(TraceRows(machine.trace()))
    assert len(set(nodes.forward)) == 1


def masked(machine: Machine, sequence: int) -> None:
    """A boolean mask, whose gradient has to know how many values were picked."""
    with machine.operation("aten::index", sequence):
        machine.launch("nonzero", 100)
        machine.stream_synchronize()


def gradient(machine: Machine, sequence: int) -> None:
    with machine.node("IndexBackward0", sequence):
        machine.launch("nonzero", 200, thread=AUTOGRAD)
        machine.stream_synchronize(thread=AUTOGRAD)


def test_the_line_clock_knows_the_forward_line_and_it_is_carried_to_the_clean_steps() -> None:
    loop = ClockedLoop()

    def body(loop: ClockedLoop, number: int) -> None:
        masked(loop.at(10), 2 * number)
        masked(loop.at(11), 2 * number + 1)
        loop.at(12)
        gradient(loop.machine, 2 * number + 1)
        gradient(loop.machine, 2 * number)

    loop.run(body)
    waits = loop.timeline().syncs()
    backward = waits[waits["thread"] == AUTOGRAD]
    for step in range(8):
        assert list(backward.loc[backward["step"] == step, "line"]) == [11, 10]
    assert set(backward["location_source"]) == {"forward"}


def test_a_trace_with_python_stacks_needs_no_clock() -> None:
    machine = Machine()
    for number in range(3):
        with machine.step(number):
            began = machine.now
            masked(machine, number)
            machine.events.frame("model.py(40): pick", began, machine.now - began)
            gradient(machine, number)
    waits = built(machine.events).syncs()
    backward = waits[waits["thread"] == AUTOGRAD]
    assert set(backward["line"]) == {40} and set(backward["function"]) == {"pick"}
