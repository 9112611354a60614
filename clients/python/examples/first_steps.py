"""Set, get, watch and lock: ``python first_steps.py 127.0.0.1:1883``."""

import asyncio
import sys

from statehold import Client, Lock, ValueSet


async def main(address: str) -> None:
    async with await Client.connect(address) as client:
        store = client.state_store()

        await store.set("example/door", "open")
        found = await store.get("example/door")
        assert found is not None
        print("the door is", found.value.decode())

        async with await store.watch("example/door") as changes:
            await store.set("example/door", "shut")
            async for change in changes:
                if isinstance(change, ValueSet):
                    print("the door is now", change.value.decode())
                    break

        # What is written while the lock is held carries its token: a holder who comes too late is refused.
        async with await Lock.acquire(store, "example/lock", lease=10) as lock:
            await store.set("example/pump", "7", fencing=lock.token)
            await store.delete("example/pump", fencing=lock.token)
        await store.delete("example/door")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:1883"))
