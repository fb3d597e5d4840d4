"""What the launcher tells the leader: it never waits for it."""

from __future__ import annotations

from multiprocessing import Pipe

from gsplit.supply.pipes import NonBlockingWriter
from gsplit.supply.ring import Handle
from gsplit.supply.tickets import Ticket


def test_more_than_a_pipe_holds_is_told_without_waiting_and_in_order():
    reader, writer = Pipe(duplex=False)
    told = NonBlockingWriter(writer)
    extents = tuple((i, i + 1) for i in range(8))
    numbers = [range(256 * bulk, 256 * (bulk + 1)) for bulk in range(5)]
    bulks = [
        tuple(Handle(ticket=Ticket(number=i, epoch=0, batch=i), slot=0, extents=extents) for i in some)
        for some in numbers
    ]
    for bulk in bulks:
        told.tell(bulk)  # 40 KB each; nobody reads yet
    told.tell(None)
    assert [reader.recv() for _ in range(6)] == [*bulks, None]
    told.close()


def test_a_reader_that_has_ended_is_no_error():
    reader, writer = Pipe(duplex=False)
    told = NonBlockingWriter(writer)
    reader.close()
    told.tell("word")
    told.close()
    NonBlockingWriter(Pipe(duplex=False)[1]).close()  # that was never told anything
