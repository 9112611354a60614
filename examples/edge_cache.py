#!/usr/bin/env python3
"""A cache at the edge: many readers, and a slow origin that is asked once.

    examples/run edge_cache          (or: python edge_cache.py 127.0.0.1:1883)

Twenty workers want the same recipe at the same moment, and it is far away: a web server that takes a third of
a second. What is in the cache is a key that expires by itself. Who does not find it takes a lock, looks once
more, and only then asks the origin; the others wait for the lock and find what the first one has brought.
When the key has expired, it is asked once more.
"""

from __future__ import annotations

import asyncio
import http.server
import sys
import threading
import time
import urllib.request

from statehold import Client, Lock, StateStore, ValueDeleted

FRESH = 3.0
RECIPE = "recipe-7"


class Origin(http.server.BaseHTTPRequestHandler):
    """Far away, and slow."""

    asked = 0

    def do_GET(self) -> None:
        Origin.asked += 1
        time.sleep(0.3)
        body = f"{self.path[1:]}, edition {Origin.asked}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Cache:
    """What the origin says, for a while."""

    def __init__(self, store: StateStore, origin: str) -> None:
        self._store = store
        self._origin = origin

    async def get(self, name: str) -> bytes:
        key = f"example/cache/{name}"
        found = await self._store.get(key)
        if found:
            return found.value
        async with await Lock.acquire(self._store, f"example/cache-lock/{name}", lease=5, wait=20) as lock:
            # Another one may have brought it while this one waited.
            found = await self._store.get(key)
            if found:
                return found.value
            value = await asyncio.to_thread(self._ask, name)
            # With the token of the lock: who was held up for longer than its lease overwrites nothing newer.
            await self._store.set(key, value, expires_in=FRESH, fencing=lock.token)
            return value

    def _ask(self, name: str) -> bytes:
        with urllib.request.urlopen(f"{self._origin}/{name}", timeout=10) as answer:
            body: bytes = answer.read()
        return body


async def all_at_once(caches: list[Cache]) -> set[bytes]:
    return set(await asyncio.gather(*(cache.get(RECIPE) for cache in caches)))


async def main(address: str) -> None:
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{origin.server_address[1]}"
    async with await Client.connect(address) as one, await Client.connect(address) as other:
        stores = [one.state_store(), other.state_store()]
        # From nothing, also where this was run a moment ago.
        async with await Lock.acquire(stores[0], f"example/cache-lock/{RECIPE}", lease=5) as lock:
            await stores[0].delete(f"example/cache/{RECIPE}", fencing=lock.token)
        caches = [Cache(stores[number % 2], url) for number in range(20)]
        async with await stores[0].watch(f"example/cache/{RECIPE}") as changes:
            editions = await all_at_once(caches)
            print(f"  20 workers got {editions}; questions to the origin: {Origin.asked}")
            editions |= await all_at_once(caches)
            print(f"  20 more did; questions to the origin: {Origin.asked}")
            # Also on a machine so slow that it expires in between: a question for each edition, not for each worker.
            assert Origin.asked == len(editions)
            async for change in changes:
                if isinstance(change, ValueDeleted):
                    break
        print(f"  {FRESH:g} s after it was written it has expired")
        editions |= await all_at_once(caches)
        print(f"  20 workers got it again; questions to the origin: {Origin.asked}")
        assert Origin.asked == len(editions) > 1
    origin.shutdown()
    print(f"60 answers, {Origin.asked} questions.")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:1883"))
