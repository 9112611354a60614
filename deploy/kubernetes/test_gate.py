"""Runs the gate against pages that say what this test wants them to."""

import http.server
import os
import subprocess
import sys
import tempfile
import threading
import time

GATE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "statehold", "gate.sh")


class Node(http.server.ThreadingHTTPServer):
    """The page of one node."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Page)
        self.start, self.unmerged, self.silent, self.looks = 1, 0, False, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        node = self.server
        node.looks += 1
        known = self.headers["Authorization"] == "Bearer secret" and self.path == "/metrics"
        self.send_response(503 if node.silent else 200 if known else 401)
        self.end_headers()
        self.wfile.write(
            f"# TYPE statehold_unmerged_slots gauge\n"
            f"statehold_unmerged_slots {node.unmerged}\n"
            f"statehold_start_time_seconds {node.start}.25\n".encode()
        )

    def log_message(self, *_):
        pass


def expect(what, opened, nodes, path):
    """Waits for five further looks, or for what is expected, whichever takes longer to be sure of."""
    if opened:
        until = time.monotonic() + 20
        while not os.path.exists(path) and time.monotonic() < until:
            time.sleep(0.05)
    else:
        target = nodes[0].looks + 10
        while nodes[0].looks < target:
            time.sleep(0.05)
    if os.path.exists(path) != opened:
        sys.exit(f"{what}: the gate is {'closed' if opened else 'open'}")
    print(f"ok: {what}")


def main():
    with tempfile.TemporaryDirectory() as scratch:
        path, token = os.path.join(scratch, "open"), os.path.join(scratch, "token")
        with open(token, "w", encoding="utf-8") as file:
            file.write("secret\n")
        nodes = [Node() for _ in range(3)]
        nodes[1].unmerged = 3
        environment = dict(
            os.environ,
            OWN=nodes[0].url(),
            NODES=" ".join(node.url() for node in nodes),
            OPEN=path,
            TOKEN_FILE=token,
            SILENCE_MAX="4",
            COPIES_MAX="3600",
            EVERY="0.1",
        )
        gate = subprocess.Popen(["sh", GATE], env=environment)
        try:
            expect("another node has not merged all slots", False, nodes, path)
            nodes[1].unmerged = 0
            expect("all slots are merged", True, nodes, path)
            nodes[1].unmerged = 1
            time.sleep(0.5)
            expect("later troubles take no clients away", True, nodes, path)
            nodes[0].start = 2
            until = time.monotonic() + 20
            while os.path.exists(path) and time.monotonic() < until:
                time.sleep(0.05)
            expect("the node was started anew", False, nodes, path)
            nodes[1].unmerged, nodes[2].silent = 0, True
            expect("a node that is silent for too long is not waited for", True, nodes, path)
        finally:
            gate.terminate()
            gate.wait()


main()
