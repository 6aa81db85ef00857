"""The program on a port of its own, and pages of its console that are watched."""

import hashlib
import hmac
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error

PROGRAM = Path(sys.argv[1]).resolve()
NOW = "2025-06-30T00:00:00Z"
CLOCK = ["--clock", "manual", "--clock-at", NOW]

# The criteria of WCAG 2.2, A and AA.
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
axe = Axe()


class Server:
    """The program with a folder of its own. A restart keeps its port and its records."""

    def __init__(self, folder, *arguments):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.arguments, self.port, self.process = folder, arguments, 0, None

    def run(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments], cwd=self.folder, env=environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self):
        with open(self.folder / "log", "ab") as log:
            command = [PROGRAM, "--listen", f"127.0.0.1:{self.port}", *self.arguments]
            self.process = subprocess.Popen(command, cwd=self.folder, env=environment(), stdout=subprocess.PIPE, stderr=log)
        line = self.process.stdout.readline().decode()
        assert line.startswith("listening on "), self.log()
        self.base = line.removeprefix("listening on ").strip()
        self.port = int(self.base.rsplit(":", 1)[1])
        return self

    def stop(self):
        self.process.terminate()
        assert self.process.wait(15) == 0, self.log()

    def log(self):
        return (self.folder / "log").read_text()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()

    def call(self, method, path, body=None, client="suite", **headers):
        """A call of the API, as curl makes it: status and body. Amounts keep their digits."""
        sent = {"client-id": client, "content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, sent, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                status, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        return status, json.loads(text, parse_float=str) if text else None

    def get(self, path, **query):
        status, body = self.call("GET", path + ("?" + urllib.parse.urlencode(query, doseq=True) if query else ""))
        assert status == 200, (path, body)
        return body

    def make(self, path, body, **headers):
        status, made = self.call("POST", path, body, **headers)
        assert status in (200, 201), (path, body, made)
        return made

    def all(self, path, **query):
        """All records of a list."""
        rows, cursor = [], {}
        while True:
            page = self.get(path, limit=200, **query, **cursor)
            rows += page["data"]
            if not page["next_cursor"]:
                return rows
            cursor = {"cursor": page["next_cursor"]}


def environment():
    ours = lambda name: name.startswith("SUBSCRIPTION_") or name == "DATABASE_URL"
    return {name: value for name, value in os.environ.items() if not ours(name)}


PROVIDER_SECRET = "whsec_0123456789abcdef"
PROVIDER = f"""
[providers.stripe]
kind = "stripe"
signing_secrets = ["{PROVIDER_SECRET}"]
api_key = "rk_test_0123456789"
manage_url = "https://billing.stripe.com/p/login/test_0123"
"""


def with_provider(folder):
    """Settings with a payment provider, which is never asked: all its events are of the other mode, or unreadable."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.toml").write_text(PROVIDER)
    return ["--config", "settings.toml"]


def provider_event(server, **event):
    status, clock = server.call("GET", "/clock")
    at = str(int(datetime.fromisoformat(clock["now"]).timestamp() if status == 200 else time.time()))
    body = json.dumps({"object": "event", "created": int(at), "livemode": True, **event}).encode()
    signature = hmac.new(PROVIDER_SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"stripe-signature": f"t={at},v1={signature}", "content-type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{server.base}/provider-webhooks/stripe", body, headers)) as answer:
        assert answer.status == 200


class Demo(Server):
    """The server with two years of an invented business, at a known time. They are written while other steps run."""

    def __init__(self, folder):
        database = ["--database", "sqlite://records.db"]
        super().__init__(folder, *database, *CLOCK, *with_provider(folder))
        with open(folder / "demo.log", "wb") as log:
            command = [PROGRAM, *database, "demo", "--seed", "1", "--until", NOW]
            self.filling = subprocess.Popen(command, cwd=folder, env=environment(), stdout=subprocess.DEVNULL, stderr=log)

    def start(self):
        if self.process is None:
            assert self.filling.wait(120) == 0, (self.folder / "demo.log").read_text()
        return super().start()


class View:
    """A page of the console, of which every message, error, failed request and foreign host is kept."""

    def __init__(self, context, server):
        self.context, self.page, self.server = context, context.new_page(), server
        self.said, self.requests = [], []
        self.page.set_default_timeout(60_000)
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(f"page error: {error}"))
        self.page.on("dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request))
        self.page.on("requestfailed", lambda request: self.failed(request))

    def failed(self, request):
        # A call that the page gave up since it was left.
        if request.failure != "net::ERR_ABORTED":
            self.said.append(f"failed: {request.url} {request.failure}")

    def open(self, address=""):
        """Opens an address after `#` in a page that is loaded anew, and waits until all of it is there."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.server.base}/console/{address}")
        self.ready()
        return self.page

    def step(self, address):
        """Goes to an address as a link does, without loading the page anew."""
        self.page.evaluate("address => { location.hash = address; }", address)
        self.ready()
        return self.page

    def ready(self):
        self.until("arrivedAt === location.hash && document.querySelector('h1') && !document.querySelector('[aria-busy=true]')")

    def until(self, expression, arg=None):
        """Waits until an expression holds. Playwright's own wait needs `eval`, which the console's policy forbids."""
        end = time.monotonic() + 60
        while True:
            try:
                if self.page.evaluate(expression, arg):
                    return
            except Error as error:
                # The page was left meanwhile.
                if "context was destroyed" not in str(error):
                    raise
            assert time.monotonic() < end, (self.page.url[:300], expression, arg, self.said)
            self.page.wait_for_timeout(10)

    def quiet(self, *expected):
        """Nothing was said but the statuses or texts that are expected, and no other host was called."""
        parts = [f"status of {part}" if isinstance(part, int) else part for part in expected]
        other = [text for text in self.said if not any(part in text for part in parts)]
        assert other == [], (self.page.url[:300], other)
        hosts = {urllib.parse.urlsplit(request.url).netloc for request in self.requests if not request.url.startswith(("about:", "blob:"))}
        assert hosts <= {f"127.0.0.1:{self.server.port}"}, hosts
        self.said.clear()

    def heading(self):
        return self.page.locator("h1").inner_text()

    def text(self):
        return self.page.locator("main").inner_text()

    def rows(self):
        return self.page.locator("main tbody tr").all_inner_texts()

    def link(self, name):
        return self.page.get_by_role("link", name=name, exact=True)

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def choose(self, name):
        """Opens the dialog of a button."""
        self.button(name).first.click()
        return self.page.get_by_role("dialog")

    def confirm(self, name):
        """Confirms the dialog, which has to close, and waits for the page behind it."""
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_role("button", name=name, exact=True).click()
        dialog.wait_for(state="detached")
        self.ready()


def sound(view, stops=40):
    """What holds on every page: a heading, a title, no sideways scrolling, no violation of axe, focus that is seen."""
    page = view.page
    where = page.url[-80:]
    assert page.locator("h1").count() == 1 and page.locator("h1").inner_text().strip(), (where, "h1")
    assert re.fullmatch(r".+ · Console", page.title(), re.S) or page.title() == "Console", (where, page.title())
    # Parts that are folded read their data when they are opened, a moment later.
    if page.evaluate("[...document.querySelectorAll('main details')].slice(0, 9).map((part) => { part.open = true; }).length"):
        page.wait_for_timeout(30)
        view.ready()
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], (where, "scrolls sideways", wide)
    page.locator(".skip").focus()
    seen = []
    for _ in range(stops):
        stop = page.evaluate(FOCUS)
        if stop is None or stop["path"] in seen:
            break
        assert stop["seen"], (where, "focus cannot be seen", stop)
        seen.append(stop["path"])
        page.keyboard.press("Tab")
    assert len(seen) > 8, (where, "few elements take the focus", seen)
    page.evaluate(FEW)
    found = axe.run(page, options=RULES)
    assert found.violations_count == 0, (where, found.generate_report())


# The rows of a table are alike, and axe takes long for each of them.
FEW = """() => {
    document.activeElement.blur();
    for (const list of document.querySelectorAll("tbody, ol, ul")) for (const row of [...list.children].slice(6)) row.remove();
}"""

# The address that the console was told of: it hears of a new one a moment after `location` has changed.
ARRIVED = """
    globalThis.arrivedAt = location.hash;
    addEventListener("hashchange", () => { arrivedAt = location.hash; });
"""

# The element with the focus: where it is in the document, and whether its outline is seen.
FOCUS = """() => {
    const node = document.activeElement;
    if (!node || node === document.body) return null;
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    let path = "";
    for (let at = node; at.parentElement; at = at.parentElement) path = `${[...at.parentElement.children].indexOf(at)}/${path}`;
    const outline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 && !/, 0\\)$|transparent/.test(style.outlineColor);
    return { path, name: node.outerHTML.slice(0, 200), outline, seen: outline && box.width > 0 && box.height > 0 && box.right > 0 && box.left < innerWidth };
}"""


@contextmanager
def opened(browser, server, scheme="light", width=1280, **settings):
    """A page of the console in a browser of its own: no storage is shared."""
    context = browser.new_context(locale="en-GB", timezone_id="America/New_York", color_scheme=scheme, reduced_motion="reduce",
                                  viewport={"width": width, "height": 800}, **settings)
    context.add_init_script(ARRIVED)
    yield View(context, server)
    context.close()
