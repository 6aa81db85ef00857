"""Attacks on the console: hostile records, frames, formulas, secrets that are shown again."""

import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import opened, provider_event
from pages import addresses

HIT = "<img src=x onerror=window.hit=1><svg onload=window.hit=1>"
TEXTS = [
    HIT,
    '"><script>window.hit=1</script><a href="javascript:window.hit=1">',
    "\u202egnp.exe\u202c \u2067\u2066\u200f\u061c\u0301\u0301\ufeff {{7*7}} ${window.hit=1} `",
    "W" * 4_000,
    "'; -- =HYPERLINK(1) \U0001f4a9" * 200,
]


def cut(text, most):
    """As much of a text as a field takes: limits count characters or bytes, so it stays below both."""
    while len(text.encode()) > most:
        text = text[: max(1, len(text) * most // len(text.encode()) - 1)]
    return text.strip()


def furnish(server):
    """Records of which every text is hostile."""
    for index, text in enumerate(TEXTS):
        metadata = {cut(text, 40): cut(text, 500), "price": "<b>1", "__proto__": cut(text, 500), "constructor": HIT}
        plan = server.make("/subscription-plans", {
            "name": cut(text, 200), "slug": f"plan-{index}" + "x" * (50 * (index == 3)), "price": "9.99", "billing_cycle": "monthly", "currency": "EUR",
            "description": cut(text, 4_000), "features": cut(text, 4_000).replace(",", ";"), "product_id": cut(text, 255), "metadata": metadata,
            "href": "https://pay.example/" + "%22%3E" * 300, "node_quota": 9007199254740991, "tier": index,
        })
        email = ["'{img}`=`onerror`@x.example", "a`${window.hit=1}`@x.example", "x" * 64 + "@" + ("y" * 50 + ".") * 3 + "example", "c'--@x.example", "d|e/f?g=h&i#@x.example"][index]
        signed = server.make("/authentication/sign-up", {"access_token": "any", "email": email}, user_agent=cut(text.encode("ascii", "ignore").decode(), 500))
        subscription = server.make("/subscriptions", {
            "user_id": signed["user"]["id"], "subscription_plan_id": plan["id"], "external_subscription_id": cut(text, 255), "metadata": metadata, "managed_by": "caller" if index % 2 else "clock",
        })
        server.make("/subscription-payments", {
            "subscription_id": subscription["id"], "amount": "9.99", "currency": "EUR", "external_payment_id": cut(text, 255), "metadata": metadata, "status": "succeeded",
        })
        server.make("/webhook-endpoints", {"url": "https://hooks.invalid/" + "%3Cimg%3E" * 40, "description": cut(text, 200)})
        provider_event(server, id=f"evt_{index}", type=cut(text, 200), data={"object": {"id": cut(text, 200)}})
        provider_event(server, id=f"evt_{index}_", type="customer.subscription.updated", data={"object": {"id": "sub_" + "W" * 200, "object": "subscription", "customer": text}})


def texts_of_records(browser, server, width):
    """C1: nothing runs, nothing is said, nothing scrolls sideways."""
    if not server.get("/users")["data"]:
        furnish(server)
    found = addresses(server)
    found |= {f"user {index}": f"#/users/{one['id']}" for index, one in enumerate(server.all("/users"))}
    found |= {f"subscription {index}": f"#/subscriptions/{one['id']}" for index, one in enumerate(server.all("/subscriptions"))}
    found["search for markup"] = f"#/search?q={HIT}"
    literal = ""
    with opened(browser, server, width=width) as view:
        view.open()
        for name, address in found.items():
            page = view.step(address)
            assert page.evaluate("window.hit") is None, name
            assert page.locator("main :is(img, script, iframe, object, embed, style, [onerror], [onload], [style])").count() == 0, name
            links = page.locator("a").evaluate_all("all => all.map((one) => one.href)")
            assert not any(link.lower().startswith(("javascript:", "data:")) for link in links), (name, links)
            wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide[0] <= wide[1], (name, width, wide)
            literal += page.locator("main").inner_text()
            view.quiet(*([404] if name.startswith("no such") else []))
    # They were shown, as they are.
    assert HIT in literal and TEXTS[1] in literal and cut(TEXTS[3], 200) in literal
    return f"{width} wide"


def framing(browser, server):
    """C2: in a page of another origin a frame of the console stays empty."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(f"<iframe src='{server.base}/console/'></iframe>".encode())

        def log_message(self, *_):
            pass

    other = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    with opened(browser, server) as view:
        view.page.goto(f"http://127.0.0.1:{other.server_address[1]}/")
        while not view.said:
            view.page.wait_for_timeout(10)
        assert any("frame-ancestors" in text or "X-Frame-Options" in text for text in view.said), view.said
        assert view.page.frames[1].url.startswith("chrome-error:"), view.page.frames[1].url
    other.shutdown()


# What a cell holds, and what the file says.
CELLS = [
    (None, ""), ("", ""), (0, "0"), (-5, "-5"), ("-5", "-5"), ("-5.25", "-5.25"), ("19.90", "19.90"), ("plain", "plain"), ("a,b", '"a,b"'), ('a"b', '"a""b"'), ("a\nb", '"a\nb"'),
    ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1+1", "'-1+1"), ("-", "'-"), ("@SUM(A1)", "'@SUM(A1)"), ("\t=1", "'\t=1"), ("\r=1", '"\'\r\'=1"'), ('=HYPERLINK("http://x","y")', '"\'=HYPERLINK(""http://x"",""y"")"'),
    ("--5", "'--5"), ("-5e3", "'-5e3"), ("-5\n=1", '"\'-5\n\'=1"'), ("=", "'="), (True, "true"), ("a=b", "a=b"), (" =1", "' =1"), ("\uff1d1", "'\uff1d1"), ("a;b", '"a;b"'),
    ("a;=1+1", '"a;\'=1+1"'), ("a; \u200b@x", '"a; \u200b\'@x"'), ("a;-5", '"a;\'-5"'),
]


def formulas_in_files(browser, server):
    """C10."""
    with opened(browser, server) as view:
        page = view.open()
        made = page.evaluate("async (cells) => { const { cell } = await import('./table.js'); return cells.map(cell); }", [cell for cell, _ in CELLS])
        wrong = [(cell, got, wanted) for (cell, wanted), got in zip(CELLS, made) if got != wanted]
        assert wrong == [], wrong
        view.quiet()


def many_calls_for_figures(browser, server):
    """C8: a hundred at once are one walk, so all have the same time.

    Figures of a small store are cached for about a second, and a busy machine may take longer for the calls: then the
    hundred are sent again.
    """
    with ThreadPoolExecutor(100) as pool:
        for path in ("/stats/now", "/stats/months", "/stats/forecast"):
            for _ in range(10):
                times = {answer["as_of"] for answer in pool.map(lambda _: server.get(path), range(100))}
                if len(times) == 1:
                    break
            assert len(times) == 1, (path, times)


def a_name_that_is_rebound(browser, server):
    """C5: a page that points its name at this machine gets nothing."""
    with opened(browser, server) as view:
        answer = view.context.request.get(f"{server.base}/console/", headers={"host": "evil.example"})
        assert answer.status == 400, answer.status


def a_secret_is_shown_once(browser, server):
    """C11: once its dialog is closed, the secret of an endpoint is nowhere in the page."""
    with opened(browser, server) as view:
        page = view.open("#/webhooks")
        dialog = view.choose("New endpoint")
        dialog.get_by_label("URL").fill("https://hooks.invalid/secret")
        dialog.get_by_role("button", name="Create").click()
        secret = page.get_by_role("dialog").get_by_label("Secret").input_value()
        assert secret.startswith("whsec_"), secret
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        view.until("location.hash.startsWith('#/webhooks/')")
        view.ready()
        for step in (lambda: None, page.reload, page.go_back):
            step()
            view.ready()
            held = page.evaluate("() => [...document.querySelectorAll('input, textarea')].map((one) => one.value).join() + JSON.stringify([{...sessionStorage}, {...localStorage}, history.state])")
            assert secret not in page.content() + held + page.url
        assert secret not in server.log()
        view.quiet()


THREATS = [framing, formulas_in_files, many_calls_for_figures, a_name_that_is_rebound, a_secret_is_shown_once]
