"""Redis behind TLS: whom an import believes, who it is, and what it says if either is wrong."""

import json
import pathlib
import shutil
import tempfile

from case import Case
from programs import Program, free_port, needs, run, statehold
from server import binary, needs_statehold


@needs_statehold
@needs("redis-server", "redis-cli")
class RedisTls(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.certs = pathlib.Path(tempfile.mkdtemp(prefix="statehold-import-certs-"))
        cls.addClassCleanup(shutil.rmtree, cls.certs)
        # A second authority signs nothing that anybody here believes.
        for directory in ("ours", "others"):
            out = ("--out", str(cls.certs / directory))
            run(binary(), "certs", "ca", *out)
            run(binary(), "certs", "server", "localhost", "127.0.0.1", *out)
            run(binary(), "certs", "server", "elsewhere.example", *out)
            run(binary(), "certs", "client", "importer", *out)
        cls.open_port, cls.open = cls.redis("localhost", "no")
        cls.closed_port, cls.closed = cls.redis("localhost", "yes")
        cls.misnamed_port, cls.misnamed = cls.redis("elsewhere.example", "no")

    @classmethod
    def redis(cls, name, asks_clients):
        """A server with this certificate, and two keys."""
        port, ours = free_port(), cls.certs / "ours"
        identity = ["--cert", str(ours / "importer.pem"), "--key", str(ours / "importer.key")]

        def cli(*arguments):
            return run("redis-cli", "--tls", "--insecure", "--cacert", str(ours / "ca.pem"), *identity, "-p", str(port), *arguments)

        server = Program(
            lambda directory: [
                "redis-server", "--port", "0", "--tls-port", str(port), "--save", "", "--dir", str(directory),
                "--tls-cert-file", str(ours / f"{name}.pem"), "--tls-key-file", str(ours / f"{name}.key"),
                "--tls-ca-cert-file", str(ours / "ca.pem"), "--tls-auth-clients", asks_clients],
            lambda: cli("ping"))
        cls.addClassCleanup(server.stop)
        cli("set", f"{name}/text", "over TLS")
        # More than a record of TLS, and than what is read at once.
        large = server.directory / "large"
        large.write_bytes(bytes(range(256)) * 2_500)
        run("redis-cli", "--tls", "--insecure", "--cacert", str(ours / "ca.pem"), *identity, "-p", str(port), "-x", "set", f"{name}/large",
            input=large.read_bytes())
        return port, server

    def imported(self, port, *options, host="localhost"):
        address = f"rediss://{host}:{port}"
        return statehold(self.server, "import", "redis", "--from", address, "--json", *options, env={"REDISCLI_AUTH": ""})

    def believing(self, directory="ours"):
        return "--from-cafile", str(self.certs / directory / "ca.pem")

    def identity(self, directory):
        files = self.certs / directory
        return "--from-cert", str(files / "importer.pem"), "--from-key", str(files / "importer.key")

    def check_imported(self, code, out, err, prefix):
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["carried_over"]["keys"]["count"], 2)
        self.assertEqual(statehold(self.server, "get", f"{prefix}localhost/text")[1], b"over TLS")
        self.assertEqual(statehold(self.server, "get", f"{prefix}localhost/large")[1], bytes(range(256)) * 2_500)

    def test_its_keys_come_over(self):
        for host, prefix in (("localhost", "name/"), ("127.0.0.1", "address/")):
            self.check_imported(*self.imported(self.open_port, *self.believing(), "--prefix", f"={prefix}", host=host), prefix)

    def test_one_that_asks_for_certificates_gets_one(self):
        self.check_imported(
            *self.imported(self.closed_port, *self.believing(), *self.identity("ours"), "--prefix", "=closed/"), "closed/")
        for identity in ((), self.identity("others")):
            code, _, err = self.imported(self.closed_port, *self.believing(), *identity)
            self.assertEqual(code, 5, err)
            self.assertIn("--from-cert", err)

    def test_an_authority_that_is_not_believed_is_told_with_its_option(self):
        for believed in (self.believing("others"), ()):
            code, _, err = self.imported(self.open_port, *believed)
            self.assertEqual(code, 5, err)
            self.assertIn("--from-cafile", err)

    def test_a_certificate_for_another_name_is_refused(self):
        code, _, err = self.imported(self.misnamed_port, *self.believing())
        self.assertEqual(code, 5, err)
        self.assertIn("for other names", err)

    def test_tls_on_one_side_only_is_told(self):
        # The port of MQTT here speaks no TLS, nor Redis.
        code, _, err = self.imported(self.server.port, *self.believing(), "--timeout", "20s")
        self.assertEqual(code, 5, err)
        code, _, err = statehold(self.server, "import", "redis", "--from", f"redis://localhost:{self.open_port}", env={"REDISCLI_AUTH": ""})
        self.assertEqual(code, 5, err)
        self.assertIn("rediss://", err)
