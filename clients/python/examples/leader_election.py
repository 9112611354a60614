"""One leader of two candidates, and somebody who watches: ``python leader_election.py 127.0.0.1:1883``."""

import asyncio
import sys

from statehold import Client, LeaderElection


async def main(address: str) -> None:
    async with await Client.connect(address) as one, await Client.connect(address) as other:
        first = LeaderElection(one.state_store(), "example/leader", lease=10)
        second = LeaderElection(other.state_store(), "example/leader", lease=10)

        async with await second.watch() as leaders:
            assert await anext(leaders) is None, "nobody leads"
            leadership = await first.campaign("controller-1")
            assert await anext(leaders) == b"controller-1"

            _, leadership = await asyncio.gather(leadership.resign(), second.campaign("controller-2"))
            async for leader in leaders:
                print("leading:", leader)
                if leader == b"controller-2":
                    break
            await leadership.resign()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:1883"))
