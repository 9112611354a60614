#!/usr/bin/env python3
"""A room, a thermostat and a person, who know of each other only what is in keys.

    examples/run thermostat          (or: python thermostat.py 127.0.0.1:1883)

The room measures its temperature and heats when it is told to; the thermostat watches temperature and
setpoint and switches the heater; the person changes the setpoint and watches until the room has it. Nobody
asks again and again: each is told of changes. And whoever starts late reads what is there: nothing has to be
said twice.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

from statehold import Client, Gap, StateStore, ValueSet

SETPOINT = "example/room/setpoint"
TEMPERATURE = "example/room/temperature"
HEATER = "example/room/heater"

TICK = 0.02


async def values(store: StateStore, key: str) -> AsyncIterator[str]:
    """What a key is, and then whatever it becomes."""
    # Watch first, then read: a change in between is seen twice, not missed.
    async with await store.watch(key) as changes:
        entry = await store.get(key)
        if entry:
            yield entry.value.decode()
        async for event in changes:
            if isinstance(event, ValueSet):
                yield event.value.decode()
            elif isinstance(event, Gap):
                # The connection was lost for a while: what was missed is in the key.
                entry = await store.get(key)
                if entry:
                    yield entry.value.decode()


async def room(address: str) -> None:
    """Becomes warmer while it is heated, and colder otherwise."""
    async with await Client.connect(address) as client:
        store = client.state_store()
        temperature, heats = 15.0, False

        async def obey() -> None:
            nonlocal heats
            async for command in values(store, HEATER):
                heats = command == "on"

        obeying = asyncio.create_task(obey())
        try:
            while True:
                temperature += 0.1 if heats else -0.05
                await store.set(TEMPERATURE, f"{temperature:.2f}")
                await asyncio.sleep(TICK)
        finally:
            obeying.cancel()


async def thermostat(address: str) -> None:
    """Switches the heater, with a quarter of a degree on both sides so that it does not click all the time."""
    async with await Client.connect(address) as client:
        store = client.state_store()
        known: dict[str, float] = {}
        command = ""

        async def decide() -> None:
            nonlocal command
            if len(known) < 2:
                return
            below = known[SETPOINT] - known[TEMPERATURE]
            wanted = "on" if below > 0.25 else "off" if below < -0.25 else command or "off"
            if wanted != command:
                command = wanted
                await store.set(HEATER, command)
                has, wants = known[TEMPERATURE], known[SETPOINT]
                print(f"  thermostat: {has:.2f} degrees, {wants:g} wanted: heater {command}")

        async def learn(key: str) -> None:
            async for value in values(store, key):
                known[key] = float(value)
                await decide()

        await asyncio.gather(learn(SETPOINT), learn(TEMPERATURE))


async def person(address: str) -> None:
    """Wants it warm, and then cool."""
    async with await Client.connect(address) as client:
        store = client.state_store()
        for wanted in (21.0, 17.5):
            print(f"  person: {wanted:g} degrees, please")
            await store.set(SETPOINT, f"{wanted:g}")
            async for value in values(store, TEMPERATURE):
                if abs(float(value) - wanted) < 0.1:
                    print(f"  person: {value} degrees, thank you")
                    break


async def main(address: str) -> None:
    machines = [asyncio.create_task(machine(address)) for machine in (room, thermostat)]
    wishes = asyncio.create_task(person(address))
    done, _ = await asyncio.wait([*machines, wishes], timeout=60, return_when=asyncio.FIRST_COMPLETED)
    for task in [*machines, wishes]:
        task.cancel()
    assert wishes in done, "the room did not become as it was wanted"
    await wishes
    print("The room was as warm, and as cool, as it was wanted.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:1883"))
