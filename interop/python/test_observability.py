"""The dashboard and the alerts in deploy/ name only what is on the /metrics pages of a running cluster."""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import time
import unittest
import urllib.request

import promql_parser
import yaml

from cluster import Cluster
from peer import TIMEOUT, Peer
from server import binary, needs_statehold
from store import INVOKE

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DASHBOARD = ROOT / "deploy/grafana/statehold.json"
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
ALERT_TESTS = ROOT / "deploy/prometheus/alerts_test.yml"
REPOSITORY = "https://github.com/statehold/statehold/blob/main/"
PROMTOOL = shutil.which("promtool")

# What Prometheus itself adds.
ADDED_METRICS = {"up": set()}
ADDED_LABELS = {"job", "instance"}

# Families that have values only on the page of a server with TLS, or of one that has refused somebody: their labels.
RARE = {
    "statehold_authentication_failures_total": {"method", "cause"},
    "statehold_connections_turned_away_total": {"limit"},
    "statehold_peer_connections_refused_total": {"cause"},
    "statehold_peer_messages_dropped_total": {"cause"},
    "statehold_otlp_spans_total": {"result"},
    "statehold_certificate_expiry_timestamp_seconds": {"setting", "file", "subject", "serial"},
    "statehold_crl_expiry_timestamp_seconds": {"setting", "file", "issuer", "number"},
}

if not PROMTOOL:
    print("SKIPPED: the alerts with promtool, which is not here", flush=True)


def panels(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def dashboard_queries(dashboard):
    """(where, query, legend) of each."""
    for panel in panels(dashboard):
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"], target["legendFormat"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"], annotation["titleFormat"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"]).groups()
            yield variable["name"], f"count by ({label}) ({series})", ""


def rules():
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


class Names:
    """The metrics, labels and values of labels that a query names."""

    def __init__(self, query):
        self.metrics, self.labels, self.values = set(), set(), set()
        parsed = promql_parser.parse(query.replace("$__rate_interval", "5m"))
        promql_parser.walk(parsed, self._visit)

    def _visit(self, node):
        if isinstance(node, promql_parser.VectorSelector):
            self.metrics.add(node.name)
            for matcher in node.matchers.matchers:
                self.labels.add(matcher.name)
                if not matcher.value.startswith("$") and matcher.name not in ADDED_LABELS:
                    self.values.update((matcher.name, value) for value in matcher.value.split("|"))
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier:
            self.labels.update(node.modifier.labels)
        if isinstance(node, promql_parser.BinaryExpr) and node.modifier:
            matching, group = node.modifier.matching, node.modifier.group_labels
            self.labels.update(matching.labels if matching else (), group or ())


def families(page):
    """name -> its labels, as on a page of metrics; of a histogram the names of its series."""
    found = {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            for suffix in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
                found.setdefault(name + suffix, set())
        elif line and not line.startswith("#"):
            name = re.match(r"\w+", line)[0]
            found[name].update(re.findall(r'[{,](\w+)="', line))
    return found


def values(page):
    return set(re.findall(r'[{,](\w+)="([^"]*)"', page))


class Files(unittest.TestCase):
    """What can be seen without a server."""

    def test_panels_are_whole_and_do_not_overlap(self):
        dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        self.assertEqual([each["name"] for each in dashboard["templating"]["list"]], ["datasource", "job", "instance"])
        taken, ids = {}, set()
        for panel in panels(dashboard):
            title, at = panel["title"], panel["gridPos"]
            self.assertNotIn(panel["id"], ids, title)
            ids.add(panel["id"])
            self.assertLessEqual(at["x"] + at["w"], 24, title)
            for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
                self.assertIsNone(taken.get(cell), f"{title} is over {taken.get(cell)}")
                taken[cell] = title
            if panel["type"] == "row":
                continue
            self.assertTrue(panel["description"].strip(), title)
            self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], title)
            for source in [panel["datasource"], *(target["datasource"] for target in panel["targets"])]:
                self.assertEqual(source["uid"], "${datasource}", title)

    def test_legends_name_labels_that_the_query_leaves(self):
        dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
        for title, query, legend in dashboard_queries(dashboard):
            for label in re.findall(r"{{(\w+)}}", legend):
                self.assertIn(label, Names(query).labels, f"{title}: {query}")

    def test_alerts_say_what_to_do_and_where_more_is(self):
        names = [rule["alert"] for rule in rules()]
        self.assertEqual(len(names), len(set(names)))
        for rule in rules():
            name, notes = rule["alert"], rule["annotations"]
            self.assertIn(rule["labels"]["severity"], ("warning", "critical"), name)
            self.assertTrue(notes["summary"] and notes["description"], name)
            self.assertTrue(notes["runbook_url"].startswith(REPOSITORY), name)
            page, anchor = notes["runbook_url"].removeprefix(REPOSITORY).split("#")
            self.assertIn(anchor, anchors(ROOT / page), name)

    @unittest.skipUnless(PROMTOOL, "needs promtool")
    def test_promtool_takes_the_alerts_and_they_fire(self):
        for arguments in (["check", "rules", ALERTS], ["test", "rules", ALERT_TESTS]):
            done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


@needs_statehold
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster('[self_test]\ninterval = "1s"\n')
        cls.addClassCleanup(cls.cluster.stop)
        make_figures(cls.cluster)
        pages = [tested_page(node) for node in cls.cluster.nodes]
        cls.page = "\n".join(pages)
        cls.families = families(cls.page)
        for name, labels in RARE.items():
            cls.families[name] |= labels

    def check(self, where, query):
        names = Names(query)
        self.assertTrue(names.metrics, f"{where}: {query}")
        known = set(ADDED_LABELS)
        for metric in names.metrics:
            self.assertIn(metric, self.families | ADDED_METRICS, f"{where}: {query}")
            known |= (self.families | ADDED_METRICS)[metric]
        self.assertLessEqual(names.labels, known, f"{where}: {query}")
        for label, value in names.values:
            self.assertTrue((label, value) in values(self.page) or (label, value) in STATES, f"{where}: {label}={value}")

    def test_the_dashboard_names_what_is_there(self):
        for where, query, _ in dashboard_queries(json.loads(DASHBOARD.read_text(encoding="utf-8"))):
            with self.subTest(where=where):
                self.check(where, query)

    def test_the_alerts_name_what_is_there(self):
        for rule in rules():
            with self.subTest(alert=rule["alert"]):
                self.check(rule["alert"], rule["expr"])

    def test_a_name_that_is_not_there_is_found(self):
        for query in ("sum(statehold_no_such_total)", 'statehold_node_state{status="DEAD"}',
                      "sum by (nobody) (statehold_sessions)", 'statehold_messages_dropped_total{cause="sun"}'):
            with self.assertRaises(AssertionError, msg=query):
                self.check("", query)


# Nodes that are well are in no other one.
STATES = {("state", name) for name in re.findall(
    r"^\| ([A-Z_]+) \|", (ROOT / "docs/replication.md").read_text(encoding="utf-8"), re.MULTILINE)}


def make_figures(cluster):
    """Does what brings a first value to families that have none in an idle cluster."""
    first = cluster.nodes[0]
    peer = Peer(first, "observed")
    peer.subscribe("observed/#", qos=1)
    peer.publish("observed/1", b"x", qos=1)
    peer.next()
    # Not QoS 1, so not a request.
    peer.publish(INVOKE, b"", qos=0)
    peer.leave()
    subprocess.run([binary(), "set", "-p", str(first.port), "observed", "1"], check=True, stdout=subprocess.DEVNULL)
    with socket.create_connection((first.host, first.port), timeout=TIMEOUT) as garbage:
        garbage.sendall(b"\x00\x00")
        while garbage.recv(64):
            pass


def tested_page(node):
    """The page as soon as the node has tested itself, and found that it works."""
    until = time.monotonic() + TIMEOUT
    while "\nstatehold_self_test_ok 1\n" not in (found := page(node)):
        assert time.monotonic() < until, found
    return found


def page(node):
    with urllib.request.urlopen(f"http://{node.addresses['admin']}/metrics", timeout=TIMEOUT) as answer:
        return answer.read().decode()
