"""Renders the chart, compares the plain manifests with it, and asks the schemas of Kubernetes about both.

With UPDATE=1 the manifests (statehold.yaml) are written anew. With --settings PATH the settings of a node are written there.
"""

import pathlib
import os
import sys

import helm_python
import kubernetes_validate
import yaml

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE / "statehold"
MANIFESTS = HERE / "statehold.yaml"
VERSIONS = ["1.27", "1.37"]
HEAD = "# Three nodes in the namespace statehold. Made from the chart beside it by UPDATE=1 deploy/test kubernetes.\n"

# Each of them has to be taken as well, and has what its line says.
OTHERS = [
    ({"replicas": 5, "clusterSize": 3}, "statehold-4.statehold-nodes"),
    ({"antiAffinity": "preferred"}, "preferredDuringScheduling"),
    ({"storage": {"className": "fast"}}, "storageClassName: fast"),
    ({"service": {"type": "LoadBalancer", "annotations": {"a": "b"}}}, "type: LoadBalancer"),
    ({"nodeSelector": {"disk": "nvme"}, "tolerations": [{"key": "mqtt", "operator": "Exists"}]}, "disk: nvme"),
]


def render(values):
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values, name="statehold", namespace="statehold")
    rendered = {name: text for name, text in files.items() if name.endswith(".yaml")}
    return "---\n".join(rendered[name].strip() + "\n" for name in sorted(rendered))


def validate(text):
    kinds = []
    for document in yaml.safe_load_all(text):
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)
        kinds.append(document["kind"])
    return kinds


def main():
    text = render({})
    expected = ["PodDisruptionBudget", "StatefulSet", "Service", "Service", "ConfigMap"]
    assert validate(text) == expected, validate(text)
    if os.environ.get("UPDATE"):
        MANIFESTS.write_text(HEAD + text)
    assert MANIFESTS.read_text() == HEAD + text, "statehold.yaml is not what the chart says: UPDATE=1 writes it anew"
    for values, has in OTHERS:
        other = render(values)
        assert has in other, f"{values} has no {has}"
        validate(other)
    findings = helm_python.lint(str(CHART))
    print(findings)
    if "--settings" in sys.argv:
        settings = [d for d in yaml.safe_load_all(text) if d["kind"] == "ConfigMap"][0]["data"]
        pathlib.Path(sys.argv[sys.argv.index("--settings") + 1]).write_text(settings["statehold.toml"])


main()
