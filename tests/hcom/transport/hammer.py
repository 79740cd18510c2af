"""Two waiters that wake each other in turn, started by test_doorbell.py in a process of its own.

    python hammer.py ROUNDS

Prints a line for threads and processes, on one core and on two: how many wake-ups were lost. The
doorbell's sleep is stretched to a second and sleeps that run out are counted: whoever rings is
always about to, so each of them is a lost wake-up. This takes kernels of its own: NUMBA_CACHE_DIR
must be a fresh folder.
"""

import os
import sys
import threading

from hcom.jit import jit
from hcom.transport import doorbell, layout
from hcom.transport.arena import Arena
from hcom.transport.atomics import add_int, fence, futex_wait, monotonic, store_release
from hcom.transport.layout import HEADER_BYTES, PAGE

SECOND = 999_999_999  # ns: what a futex takes without whole seconds
LATE = 900_000_000
MOST_LINGER = 20_000
LOST = HEADER_BYTES - 64  # a word of the header that nothing else uses


@jit()
def counted_sleep(address, expected, nanoseconds):
    before = monotonic()
    futex_wait(address, expected, SECOND)
    if monotonic() - before > LATE:
        add_int(address - layout.DOORBELL + LOST, 1)


doorbell.futex_wait = counted_sleep
doorbell.YIELDS = 0  # straight to sleep
doorbell.TURN_NANOSECONDS = 10**15
ring, wait_for = doorbell.ring, doorbell.wait_for


@jit()
def linger(number):
    """Let a while go by that differs from round to round: about as long as a wake-up takes."""
    ends = monotonic() + number * 7919 % MOST_LINGER
    while monotonic() < ends:
        pass


@jit()
def take_turns(first, mine, theirs, header, peer_header, window, rounds):
    for number in range(1, rounds + 1):
        if not first:
            linger(number)  # so that the peer's ring comes while this side falls asleep
            if wait_for(theirs, number, header, window, 0) != 0:
                return number
        store_release(mine, number)
        fence()
        ring(peer_header)
        if first:
            linger(number)
            if wait_for(theirs, number, header, window, 0) != 0:
                return number
    return 0


class Game:
    """Two headers, a word for each, and a window without fault."""

    def __init__(self, rounds):
        self.arena, self.rounds = Arena.create(16 * PAGE), rounds
        pages = [self.arena.address + PAGE * number for number in range(5)]
        self.headers, self.words, self.window = pages[:2], pages[2:4], pages[4]

    def play(self, side):
        words, headers = self.words, self.headers
        peer = 1 - side
        late = take_turns(
            side == 0,
            words[side],
            words[peer],
            headers[side],
            headers[peer],
            self.window,
            self.rounds,
        )
        assert late == 0, f"the wait of round {late} came back without its word"

    def lost(self):
        numbers = {a: self.number_at(a) for a in (*self.words, *(h + LOST for h in self.headers))}
        assert [numbers[word] for word in self.words] == [self.rounds, self.rounds]
        return sum(numbers[header + LOST] for header in self.headers)

    def number_at(self, address):
        start = address - self.arena.address
        return int.from_bytes(self.arena.memory[start : start + 8], "little")


def by_threads(game):
    sides = [threading.Thread(target=game.play, args=(side,)) for side in (0, 1)]
    for side in sides:
        side.start()
    for side in sides:
        side.join()


def by_processes(game):
    child = os.fork()
    game.play(1 if child else 0)
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def main():
    cores = sorted(os.sched_getaffinity(0))
    Game(0).play(0)  # compile
    for run in (by_threads, by_processes):
        for used in (1, 2):
            os.sched_setaffinity(0, cores[:used])
            game = Game(int(sys.argv[1]))
            run(game)
            sys.stdout.write(f"{run.__name__} on {used}: {game.lost()}\n")


if __name__ == "__main__":
    main()
