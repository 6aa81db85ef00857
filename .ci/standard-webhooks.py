"""Receives deliveries of a server, verifies them with the library from PyPI, and writes them to a file for the one
from npm. Called by .ci/standard-webhooks."""

import http.server
import json
import os
import queue
import sys
import threading
import urllib.request

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

received = queue.Queue()


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        received.put((dict(self.headers.items()), body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"client-id": "standard-webhooks"}
    if data is not None:
        headers["content-type"] = "application/json"
    request = urllib.request.Request(os.environ["API"] + path, data, headers, method=method)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def is_refused(webhook, body, headers):
    try:
        webhook.verify(body, headers)
    except WebhookVerificationError:
        return True
    return False


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/hooks"
endpoint = call("POST", "/webhook-endpoints", {"url": url, "types": ["*"]})

deliveries = []
secrets = [endpoint["secret"]]
for slug in ["one-secret", "two-secrets"]:
    if slug == "two-secrets":
        secrets.insert(0, call("POST", f"/webhook-endpoints/{endpoint['id']}/rotate-secret", {})["secret"])
    name = "Größe “M” 🏠 \\ \""
    call("POST", "/subscription-plans", {"name": name, "slug": slug, "price": 9.90, "billing_cycle": "monthly"})
    headers, body = received.get(timeout=30)
    for secret in secrets:
        webhook = Webhook(secret)
        event = webhook.verify(body, headers)
        assert event["data"]["object"]["name"] == name, event
        assert is_refused(webhook, body.replace("sequence", "Sequence"), headers), "a changed body was accepted"
    assert is_refused(Webhook("whsec_" + "A" * 32), body, headers), "another secret was accepted"
    deliveries.append({"secrets": list(secrets), "headers": headers, "body": body})

with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(deliveries, file)
print(f"PyPI: {len(deliveries)} deliveries verified")
