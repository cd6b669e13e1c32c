from __future__ import annotations

import pickle
import socket
import threading
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sidecar_core.isolation import wire

values = st.recursive(
    st.none() | st.integers() | st.text() | st.binary(max_size=200) | st.integers(0, 300_000).map(bytes),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(values, max_size=4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_messages_arrive_as_they_were_sent(sent, blocking):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(blocking)
        sender = wire.Sender(ours.sendmsg)
        receiver = wire.Receiver(theirs.fileno())
        for number, value in enumerate(sent):
            sender.push(wire.Outgoing(wire.VALUE, number, wire.encode(value), extra=number * 7, flags=number % 2))

        def write():
            while not sender.flush():
                pass
            ours.shutdown(socket.SHUT_WR)

        writer = threading.Thread(target=write)
        writer.start()
        for number, value in enumerate(sent):
            message = receiver.receive()
            assert message[:4] == (wire.VALUE, number % 2, number, number * 7)
            assert pickle.loads(message.body) == value
        with pytest.raises(EOFError):
            receiver.receive()
        writer.join()


def test_a_receiver_that_would_block_goes_on_where_it_was():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        receiver = wire.Receiver(theirs.fileno())
        message = wire.Outgoing(wire.ROW, 3, wire.encode(b"payload"))
        for byte in b"".join(message.parts)[:-1]:
            assert receiver.receive() is None
            ours.send(bytes([byte]))
        assert receiver.receive() is None
        ours.send(b"".join(message.parts)[-1:])
        assert pickle.loads(receiver.receive().body) == b"payload"


def test_a_large_message_is_not_kept_and_a_small_buffer_is():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        sender = wire.Sender(ours.sendmsg)
        receiver = wire.Receiver(theirs.fileno())
        tracemalloc.start()
        try:
            for size in (64 << 20, 1 << 20):
                body = wire.encode(bytes(size))
                sender.push(wire.Outgoing(wire.VALUE, 1, body))
                writer = threading.Thread(target=sender.flush)
                writer.start()
                message = receiver.receive()
                writer.join()
                assert len(message.body) > size
                del message, body
                assert tracemalloc.get_traced_memory()[0] < 4 << 20
        finally:
            tracemalloc.stop()


def test_bytes_of_others_are_no_message():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.send(b"something that native code wrote here")
        with pytest.raises(wire.BrokenChannelError, match="something"):
            wire.Receiver(theirs.fileno()).receive()


def test_large_bytes_are_not_copied():
    image = bytes(200_000)

    assert any(part is image for part in wire.encode({"image": image, "key": "a"}))


def test_what_children_cannot_import_has_no_pickle():
    class Inner:
        pass

    for value in (lambda: None, Inner, Inner(), [{"a": Inner()}]):
        with pytest.raises(pickle.PicklingError, match="which no other process can import"):
            wire.encode(value)
