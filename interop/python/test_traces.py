"""Traces, with OpenTelemetry's own SDK at the client, and its own messages at the collector."""

import base64
import http.server
import json
import queue
import threading
import unittest

from google.protobuf import json_format
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv.attributes import error_attributes, service_attributes
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cluster import Cluster
from peer import TIMEOUT, Peer, user
from server import needs_statehold
from store import INVOKE, clock, resp

IDS = ("traceId", "spanId", "parentSpanId")


def parsed(body):
    """The message that the body is. In OTLP ids are hexadecimal, while everything else is as protobuf has it in JSON."""
    body = json.loads(body)
    for resource in body["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in IDS:
                    if name in span:
                        span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
    # A field that is not known fails.
    return json_format.ParseDict(body, ExportTraceServiceRequest())


class Collector:
    """Takes spans, and gives them out one after the other with what is said of their server."""

    def __init__(self):
        spans = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                request = parsed(self.rfile.read(int(self.headers["Content-Length"])))
                answer = b"{}" if self.path == "/v1/traces" else b""
                self.send_response(200 if answer else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            spans.put((attributes(resource.resource), span))

            def log_message(self, *_):
                pass

        self.spans = spans
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def settings(self):
        port = self.server.server_address[1]
        return f'[otlp]\nendpoint = "http://127.0.0.1:{port}"\ninterval = "100ms"\nsample_ratio = 0\n'

    def of(self, trace_id, names):
        """The spans of a trace by name, when there are all of these."""
        found = {}
        while not names <= found.keys():
            resource, span = self.spans.get(timeout=TIMEOUT)
            assert resource[service_attributes.SERVICE_NAME] == "statehold"
            if int.from_bytes(span.trace_id) == trace_id:
                found[span.name] = span
        return found

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def attributes(of):
    return {each.key: each.value.string_value or each.value.int_value for each in of.attributes}


@needs_statehold
class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.collector = Collector()
        cls.cluster = Cluster(cls.collector.settings())
        cls.tracer = TracerProvider().get_tracer("interop")

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        cls.collector.stop()

    def peer(self, node, client_id):
        peer = Peer(node, client_id)
        self.addCleanup(peer.close)
        return peer

    def context(self):
        """User properties with the place of the client's present span, as OpenTelemetry writes them."""
        carrier = {}
        TraceContextTextMapPropagator().inject(carrier)
        return list(carrier.items())

    def check(self, span, parent, kind):
        self.assertEqual(span.parent_span_id, parent)
        self.assertEqual(span.kind, kind)
        self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano)

    def test_a_request_continues_the_trace_of_its_client(self):
        for number, node in enumerate(self.cluster.nodes):
            with self.subTest(node=number), self.tracer.start_as_current_span("client") as own:
                peer = self.peer(node, f"traced-{number}")
                answers = f"answers/{number}"
                peer.subscribe(answers, qos=1)
                peer.publish(INVOKE, resp("SET", "traced", "v"), qos=1, ResponseTopic=answers, CorrelationData=b"1",
                             UserProperty=[("__ts", clock()), *self.context()])
                self.assertEqual(peer.next().payload, b"+OK\r\n")
                context = own.get_span_context()
                spans = self.collector.of(context.trace_id, {"SET", "replicate", "sync"})
                request = spans["SET"]
                self.check(request, context.span_id.to_bytes(8), Span.SPAN_KIND_SERVER)
                self.assertNotIn(error_attributes.ERROR_TYPE, attributes(request))
                decided_for = request
                if "forward" in spans or spans["replicate"].parent_span_id != request.span_id:
                    spans |= self.collector.of(context.trace_id, {"forward"} - spans.keys())
                    spans |= self.collector.of(context.trace_id, {"lead"} - spans.keys())
                    self.check(spans["forward"], request.span_id, Span.SPAN_KIND_CLIENT)
                    self.check(spans["lead"], spans["forward"].span_id, Span.SPAN_KIND_SERVER)
                    decided_for = spans["lead"]
                self.check(spans["replicate"], decided_for.span_id, Span.SPAN_KIND_INTERNAL)

    def test_a_message_takes_its_context_along(self):
        subscriber = self.peer(self.cluster.nodes[1], "traced-display")
        subscriber.subscribe("traced/#", qos=1)
        publisher = self.peer(self.cluster.nodes[0], "traced-pump")
        with self.tracer.start_as_current_span("client") as own:
            publisher.publish("traced/1", b"on", qos=1, UserProperty=self.context())
            context = own.get_span_context()
        spans = self.collector.of(context.trace_id, {"publish", "store"})
        self.check(spans["publish"], context.span_id.to_bytes(8), Span.SPAN_KIND_CONSUMER)
        self.assertEqual(attributes(spans["publish"])["messaging.destination.name"], "traced/1")
        self.check(spans["store"], spans["publish"].span_id, Span.SPAN_KIND_INTERNAL)
        # The subscriber goes on with the trace.
        message = subscriber.next()
        carrier = {"traceparent": user(message, "traceparent")[0]}
        continued = trace.get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
        self.assertEqual((continued.trace_id, continued.span_id), (context.trace_id, context.span_id))
