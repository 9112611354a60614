#!/usr/bin/env python3
"""Active and standby: two controllers of one pump, of which one acts at a time.

    examples/run active_standby          (or: python active_standby.py 127.0.0.1:1883)

Each controller is a process. The one that leads has the pump do strokes and counts them; the other one waits.
Then the leader is made to stand still for longer than its lease in the middle of a stroke, as a machine that
swaps or a virtual machine that is moved does. The standby goes on from the last stroke; and when the first
one wakes up and writes what it was about to write, the store refuses it: its fencing token is lower than that
of the new leader. So every stroke is counted once.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from statehold import Client, LeaderElection, Lock, RefusedByStore, StateStore, ValueSet

LEASE = 3.0
STROKE = 0.1
LEADER = "example/pump/leader"
STROKES = "example/pump/strokes"


async def controller(name: str, address: str) -> None:
    """Campaigns, leads, and campaigns again. The pump is at the other end of stdin: it says when a stroke is done."""
    pump = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(pump), sys.stdin)
    async with await Client.connect(address) as client:
        store = client.state_store()
        election = LeaderElection(store, LEADER, lease=LEASE)
        while True:
            leadership = await election.campaign(name)
            print("leads", flush=True)
            while leadership.is_held:
                # That of before the stroke: whatever happens meanwhile, what is written belongs to this leadership.
                token = leadership.token
                done = await store.get(STROKES)
                strokes = int(done.value) + 1 if done else 1
                print(f"begins stroke {strokes}", flush=True)
                await pump.readline()
                try:
                    await store.set(STROKES, str(strokes), fencing=token)
                except RefusedByStore as error:
                    print(f"is refused stroke {strokes}: {error}", flush=True)
                    break
                print(f"did stroke {strokes}", flush=True)


class Controller:
    """A controller in a process of its own, and what it has said."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self.process = process

    @classmethod
    async def start(cls, name: str, address: str) -> Controller:
        command = [sys.executable, __file__, "--controller", name, address]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        return cls(name, process)

    async def until(self, words: str, times: int = 1) -> None:
        """Until it has said so, so many times. Its pump does the strokes that it begins until then."""
        assert self.process.stdout is not None
        while True:
            line = (await asyncio.wait_for(self.process.stdout.readline(), 30)).decode().strip()
            if not line:
                raise SystemExit(f"{self.name} has ended")
            if not line.startswith("begins"):
                print(f"  {self.name} {line}")
            times -= line.startswith(words)
            if times == 0:
                return
            if line.startswith("begins"):
                await asyncio.sleep(STROKE)
                self.has_done_stroke()

    def has_done_stroke(self) -> None:
        """The pump says so."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"done\n")


async def count(store: StateStore, counted: list[int]) -> None:
    """What anybody who watches the pump sees."""
    async with await store.watch(STROKES) as strokes:
        counted.append(0)
        async for event in strokes:
            if isinstance(event, ValueSet):
                counted.append(int(event.value))


async def main(address: str) -> None:
    async with await Client.connect(address) as client:
        store = client.state_store()
        # From nothing, also where this was run before: the key is protected, and who leads may delete it.
        async with await Lock.acquire(store, LEADER, lease=LEASE) as lock:
            await store.delete(STROKES, fencing=lock.token)
        counted: list[int] = []
        counting = asyncio.create_task(count(store, counted))
        active = await Controller.start("controller-1", address)
        await active.until("did stroke", 3)
        standby = await Controller.start("controller-2", address)
        try:
            await active.until("did stroke", 3)
            await active.until("begins")
            print(f"  (controller-1 stands still, for longer than its lease of {LEASE:g} s)")
            active.process.send_signal(signal.SIGSTOP)
            await standby.until("leads")
            await standby.until("did stroke", 3)
            print("  (controller-1 wakes up, and its stroke is done)")
            active.process.send_signal(signal.SIGCONT)
            active.has_done_stroke()
            await active.until("is refused")
            await standby.until("did stroke", 2)
        finally:
            for each in (active, standby):
                each.process.kill()
                await each.process.wait()
        counting.cancel()
        assert counted[0] == 0 and counted == list(range(len(counted))), counted
        print(f"{counted[-1]} strokes, each counted once, by two controllers.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--controller"]:
        asyncio.run(controller(sys.argv[2], sys.argv[3]))
    else:
        asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:1883"))
