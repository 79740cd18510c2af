"""Lines on their way through."""

import os

import pytest

from launch.streams import Stream


@pytest.fixture
def pipes():
    source, write = os.pipe()
    read, sink = os.pipe()
    os.set_blocking(read, False)

    def arrived():
        try:
            return os.read(read, 1 << 20)
        except BlockingIOError:
            return b""

    yield source, write, sink, arrived
    for descriptor in (write, read, sink):
        os.close(descriptor)


def test_a_line_passes_once_it_is_whole(pipes):
    source, write, sink, arrived = pipes
    stream = Stream(source, sink)
    os.write(write, b"one\ntw")
    stream.pump()
    assert arrived() == b"one\n"
    os.write(write, b"o\n")
    stream.pump()
    assert arrived() == b"two\n"
    stream.close()


def test_a_progress_bars_line_passes_at_its_carriage_return(pipes):
    source, write, sink, arrived = pipes
    stream = Stream(source, sink)
    os.write(write, b"10%\r20%")
    stream.pump()
    assert arrived() == b"10%\r"
    stream.close()


def test_the_start_of_a_line_passes_at_the_end(pipes):
    source, write, sink, arrived = pipes
    stream = Stream(source, sink)
    os.write(write, b"no newline")
    stream.close()
    assert arrived() == b"no newline"


def test_a_line_without_an_end_is_not_kept_for_ever(pipes, tmp_path):
    source, write, _, _ = pipes
    with (tmp_path / "sink").open("wb") as sink:
        stream = Stream(source, sink.fileno())
        for _ in range(2):
            os.write(write, b"x" * 40_000)
            stream.pump()
        assert (tmp_path / "sink").stat().st_size >= 65_536
        stream.close()
    assert (tmp_path / "sink").stat().st_size == 80_000


def test_a_terminals_text_passes_as_it_is(pipes):
    source, write, sink, arrived = pipes
    stream = Stream(source, sink, whole_lines=False)
    os.write(write, b"half a li")
    stream.pump()
    assert arrived() == b"half a li"
    stream.close()


def test_a_reader_that_has_gone_is_reported_once(pipes):
    source, write, _, _ = pipes
    read, sink = os.pipe()
    os.close(read)
    stream = Stream(source, sink)
    os.write(write, b"line\n")
    with pytest.raises(BrokenPipeError):
        stream.pump()
    os.write(write, b"line\n")
    stream.close()
    os.close(sink)
