"""A lock with a fencing token, and why the token matters: ``python lock.py 127.0.0.1:1883``."""

import asyncio
import sys

from statehold import Client, ErrorText, Lock, NotInTime, RefusedByStore


async def main(address: str) -> None:
    async with await Client.connect(address) as one, await Client.connect(address) as other:
        first, second = one.state_store(), other.state_store()

        lock = await Lock.acquire(first, "example/lock", lease=10)
        old_token = lock.token
        await first.set("example/protected", "1", fencing=old_token)

        # Another gets it only when it is free.
        try:
            await Lock.acquire(second, "example/lock", lease=10, wait=0)
        except NotInTime as error:
            print(error)
        _, lock = await asyncio.gather(lock.release(), Lock.acquire(second, "example/lock", lease=10))
        async with lock:
            assert lock.is_held
            assert lock.token > old_token
            await second.set("example/protected", "2", fencing=lock.token)

            # One who still believes to hold the lock is too late.
            try:
                await first.set("example/protected", "3", fencing=old_token)
            except RefusedByStore as error:
                assert error.reason is ErrorText.FENCING_TOKEN_LOWER
                print(error)
            await second.delete("example/protected", fencing=lock.token)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:1883"))
