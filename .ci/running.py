"""The program on a port of its own, calls of its API as a server makes them, and pages that call it."""

import json
import os
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

PROGRAM = Path(sys.argv[1]).resolve()


class Page(BaseHTTPRequestHandler):
    """The file of the path, or a page with nothing on it. A file is its content type, its text, and perhaps more headers;
    a function makes it from the query."""

    FILES = {}

    def do_GET(self):
        url = urlsplit(self.path)
        file = self.FILES.get(url.path, ("text/html", "<!doctype html><title>page</title>"))
        kind, text, *headers = file(parse_qs(url.query)) if callable(file) else file
        body = text.encode()
        self.send_response(200)
        for name, value in [("content-type", kind), ("content-length", str(len(body))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def page_server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://localhost:{server.server_address[1]}"


def run(folder, *arguments):
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def environment():
    ours = lambda name: name.startswith("SUBSCRIPTION_") or name == "DATABASE_URL"
    return {name: value for name, value in os.environ.items() if not ours(name)}


@contextmanager
def serving(folder, *arguments):
    with open(folder / "log", "wb") as log:
        command = [PROGRAM, "--listen", "127.0.0.1:0", *arguments]
        server = subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=log)
    try:
        line = server.stdout.readline().decode()
        assert line.startswith("listening on "), (folder / "log").read_text()
        yield line.removeprefix("listening on ").strip()
    finally:
        server.terminate()
        assert server.wait(15) == 0


def api(base, method, path, body=None, client="suite"):
    """A request of a server, not of a page. Amounts keep their digits."""
    headers = {"client-id": client, "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(base + path, data, headers, method=method)) as answer:
        text = answer.read()
    return json.loads(text, parse_float=str) if text else None


@contextmanager
def quiet_page(browser, hosts, expected=(), **settings):
    """A page that calls these hosts alone, and says nothing on the console but what is expected."""
    context = browser.new_context(locale="en-GB", **settings)
    page = context.new_page()
    messages, requests = [], []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    yield page
    others = [url for url in requests if not url.startswith(("data:", *hosts))]
    assert others == [], others
    assert len(messages) == len(expected), messages
    assert all(part in message for part, message in zip(expected, messages)), messages
    context.close()
