#!/usr/bin/env python3
"""Decides which clients of Statehold may connect: docs/custom-authentication.md. For trying it out, not for production.

    examples/custom_authentication.py PORT CERT.pem KEY.pem     (port 0: a free one; it is printed)
"""
import base64, datetime, hmac, http.server, json, ssl, sys

CLIENTS = {"pump-7": {"password": "pencil", "attributes": {"site": "north"}, "hours": 8}}


class Server(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections, which saves a handshake for each client
    timeout = 60

    def do_POST(self):
        facts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        client = CLIENTS.get(facts.get("username"), {"password": ""})
        password = base64.b64decode(facts.get("password", ""))
        if client["password"] and hmac.compare_digest(password, client["password"].encode()):
            expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=client["hours"])
            self.answer(200, {"attributes": client["attributes"], "expiry": expiry.isoformat()})
        else:
            self.answer(403, {"reason": 0x86})

    def answer(self, status, said):
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Server)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(f"https://127.0.0.1:{server.server_address[1]}/", flush=True)
server.serve_forever()
