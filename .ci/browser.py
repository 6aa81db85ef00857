"""Pages of several origins in Chromium, against the server: who may call, and what they can read.

Three origins, each a port of this machine: the shop's and the blog's are listed by a client each, the third by
none. Besides, a page that rebinds its name to a server in development mode.
"""

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import sync_playwright

PROGRAM = Path(sys.argv[1]).resolve()
SECRET = b"0123456789abcdef0123456789abcdef"

# Gives what a page can read of an answer, or the browser's refusal.
CALL = """async ([base, method, path, headers, body, more]) => {
    try {
        const answer = await fetch(base + path, {method, headers, body: body && JSON.stringify(body), ...more});
        const text = await answer.text();
        return {status: answer.status, body: text ? JSON.parse(text) : null, headers: Object.fromEntries(answer.headers)};
    } catch (error) {
        return {refused: String(error)};
    }
}"""


class Page(BaseHTTPRequestHandler):
    """A page with nothing on it."""

    def do_GET(self):
        body = b"<!doctype html><title>page</title>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
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


def identity_token(name):
    """What the shop's own login would sign for a person."""
    now = int(time.time())
    claims = {
        "iss": "https://shop.example", "aud": "shop", "sub": name, "iat": now, "exp": now + 300,
        "email": f"{name}@example.com", "email_verified": True,
    }
    encode = lambda bytes: base64.urlsafe_b64encode(bytes).rstrip(b"=")
    signed = b".".join(encode(json.dumps(part).encode()) for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return (signed + b"." + encode(hmac.new(SECRET, signed, hashlib.sha256).digest())).decode()


def set_up(folder, shop, blog):
    (folder / "provider.secret").write_bytes(SECRET)
    (folder / "settings.toml").write_text(f"""
mode = "production"
database = "sqlite://records.db"
keys = "server.keys"
identity_issuer = "https://shop.example"
identity_audience = "shop"
identity_secret_file = "provider.secret"

[[clients]]
id = "shop"
scopes = ["auth", "plans:read"]
origins = ["{shop}"]

[[clients]]
id = "blog"
scopes = ["plans:read"]
origins = ["{blog}"]
""")
    config = ["--config", "settings.toml"]
    run(folder, *config, "key", "rotate")
    added = run(folder, *config, "client", "add", "--name", "backend", "--scope", "plans:write")
    return config, added.splitlines()[-1]


def caller(page, base):
    """Calls from a page, as whichever client."""

    def call(method, path, client=None, body=None, token=None, headers=None, **more):
        headers = dict(headers or {})
        if client:
            headers["client-id"] = client
        if token:
            headers["authorization"] = f"Bearer {token}"
        if body is not None:
            headers["content-type"] = "application/json"
        return page.evaluate(CALL, [base, method, path, headers, body, more])

    return call


def refused(answer):
    assert "Failed to fetch" in answer.get("refused", ""), answer


def problem(answer, status, code):
    assert (answer.get("status"), answer["body"]["code"]) == (status, code), answer
    assert answer["headers"]["x-request-id"] == answer["body"]["request_id"], answer


def the_shops_page(call, backend):
    """All that a browser client does, from its own origin."""
    proof = {"access_token": identity_token("ada"), "email": "ada@example.com"}
    signed_up = call("POST", "/authentication/sign-up", "shop", proof)
    assert signed_up["status"] == 201, signed_up
    refresh = {"refresh_token": signed_up["body"]["refresh_token"]}
    refreshed = call("POST", "/authentication/refresh-token", "shop", refresh)
    assert refreshed["status"] == 200, refreshed
    assert '"refresh"' in refreshed["headers"]["ratelimit-policy"], refreshed
    token = refreshed["body"]["access_token"]
    logged_in = call("POST", "/authentication/user-logged-in", "shop", token=token)
    assert logged_in["body"]["logged_in"] is True, logged_in

    plans = call("GET", "/subscription-plans", "shop")
    assert [plan["slug"] for plan in plans["body"]["data"]] == ["pro"], plans
    plan = call("GET", "/subscription-plans/pro", "shop")
    assert plan["headers"]["etag"] == '"1"', plan
    same = call("GET", "/subscription-plans/pro", "shop", headers={"if-none-match": '"1"'}, cache="no-store")
    assert same["status"] == 304, same
    keys = call("GET", "/.well-known/jwks.json")
    assert keys["body"]["keys"], keys

    problem(call("GET", "/subscriptions", "shop"), 403, "scope_missing")
    problem(call("GET", "/subscription-plans", "nobody"), 401, "client_unknown")
    problem(call("GET", "/subscription-plans"), 401, "client_id_missing")
    problem(call("GET", "/authentication/tokens", "shop", token="forged"), 401, "token_invalid")
    problem(call("GET", "/subscription-plans/none", "shop"), 404, "not_found")
    problem(call("POST", "/authentication/sign-in", "shop", {}), 422, "validation_failed")
    # Neither as another client, nor as a server, nor with cookies.
    refused(call("GET", "/subscription-plans", "blog"))
    refused(call("POST", "/subscription-plans", backend, {"name": "x"}))
    refused(call("GET", "/subscription-plans", "shop", credentials="include"))


def pages_of_other_origins(browser, base, blog, nobody):
    page = browser.new_page()
    page.goto(blog)
    call = caller(page, base)
    assert call("GET", "/subscription-plans", "blog")["status"] == 200
    refused(call("GET", "/subscription-plans", "shop"))

    page.goto(nobody)
    for path, client in [("/subscription-plans", "shop"), ("/subscription-plans", None), ("/openapi.json", None)]:
        refused(call("GET", path, client))
    refused(call("POST", "/authentication/sign-in", "shop", {}))
    page.goto("data:text/html,<title>page</title>")
    refused(call("GET", "/subscription-plans", "shop"))
    page.close()


def development(browser, origin):
    """Pages of this machine need no setting; a page that rebinds its name gets nothing."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), "--database", "memory:") as base:
        page = browser.new_page()
        page.goto(origin)
        call = caller(page, base)
        plan = {"name": "Pro", "slug": "pro", "price": "19.90", "billing_cycle": "monthly"}
        assert call("POST", "/subscription-plans", "any", plan)["status"] == 201
        assert call("GET", "/subscription-plans/pro", "any")["headers"]["etag"] == '"1"'

        port = base.rsplit(":", 1)[1]
        rebound = f"http://evil.example:{port}"
        answer = page.goto(f"{rebound}/subscription-plans")
        assert (answer.status, answer.json()["code"]) == (400, "host_invalid"), answer.text()
        call = caller(page, rebound)
        for path in ["/subscriptions", "/subscription-plans/pro", "/metrics", "/health/ready"]:
            problem(call("GET", path, "any"), 400, "host_invalid")
        problem(call("POST", "/subscription-plans", "any", plan | {"slug": "evil"}), 400, "host_invalid")

        messages = []
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.goto(f"{base}/docs")
        page.get_by_text("/subscription-plans/{slug}").first.wait_for()
        assert messages == [], messages
        page.close()


def main():
    shop, blog, nobody = page_server(), page_server(), page_server()
    rules = "MAP evil.example 127.0.0.1"
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        # Root, as CI is, has no sandbox.
        arguments = [f"--host-resolver-rules={rules}"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        config, backend = set_up(Path(folder), shop, blog)
        with serving(Path(folder), *config) as base:
            made = subprocess.run(
                ["curl", "-sS", "-f", f"{base}/subscription-plans", "-H", f"client-id: {backend}", "--json",
                 '{"name": "Pro", "slug": "pro", "price": "19.90", "billing_cycle": "monthly"}'],
                capture_output=True, text=True,
            )
            assert made.returncode == 0, made.stderr
            page = browser.new_page()
            page.goto(shop)
            the_shops_page(caller(page, base), backend)
            page.close()
            pages_of_other_origins(browser, base, blog, nobody)
        development(browser, shop)
        browser.close()
    print("pages of listed origins may call, others may not")


main()
