"""The heap of due events: order, ties, and events pushed while the due ones are taken out."""

import random
from math import inf
from typing import Any

import pytest

from router.protocol.due import DueHeap


def test_events_come_in_the_order_of_their_instants_and_then_of_scheduling():
    rng = random.Random(1)
    heap: DueHeap[Any] = DueHeap()
    pushed = [(rng.randrange(20) / 4, number) for number in range(500)]  # 20 instants: ties are the rule
    for at, number in pushed:
        heap.push(at, number)
    # `sorted` is stable, which is exactly "in order of scheduling".
    assert list(heap.pop_due(inf)) == sorted(pushed, key=lambda event: event[0])
    assert len(heap) == 0


def test_items_that_cannot_be_compared_may_tie():
    heap: DueHeap[Any] = DueHeap()
    first, second = object(), object()
    heap.push(1.0, first)
    heap.push(1.0, second)
    assert [item for _, item in heap.pop_due(1.0)] == [first, second]


def test_what_is_due_exactly_now_is_due_and_what_is_later_stays():
    heap: DueHeap[Any] = DueHeap()
    for at in (3.0, 1.0, 2.0):
        heap.push(at, at)
    assert list(heap.pop_due(2.0)) == [(1.0, 1.0), (2.0, 2.0)]
    assert list(heap.pop_due(2.0)) == []
    assert heap.next_at == 3.0
    assert len(heap) == 1


def test_an_event_pushed_by_a_due_one_takes_its_turn_in_the_same_pass():
    heap: DueHeap[Any] = DueHeap()
    heap.push(1.0, "service ends")
    heap.push(3.0, "patience ends")
    seen = []
    for at, item in heap.pop_due(4.0):
        seen.append((at, item))
        if item == "service ends":
            heap.push(2.0, "next service ends")  # between the two, and due as well
            heap.push(5.0, "not due")
    assert seen == [(1.0, "service ends"), (2.0, "next service ends"), (3.0, "patience ends")]
    assert heap.next_at == 5.0


def test_an_empty_heap_has_no_next_instant_and_nothing_to_pop():
    heap: DueHeap[Any] = DueHeap()
    assert heap.next_at == inf
    assert not heap
    with pytest.raises(IndexError):
        heap.pop()


def test_pop_takes_the_earliest_whatever_the_time():
    heap: DueHeap[Any] = DueHeap()
    heap.push(9.0, "late")
    heap.push(7.0, "early")
    assert heap.pop() == (7.0, "early")
    assert heap.next_at == 9.0


def test_leaving_a_pass_early_loses_nothing():
    heap: DueHeap[Any] = DueHeap()
    for at in (1.0, 2.0, 3.0):
        heap.push(at, at)
    for _ in heap.pop_due(3.0):
        break
    assert list(heap.pop_due(3.0)) == [(2.0, 2.0), (3.0, 3.0)]
