"""Production: keys, and all that must be gone without one."""

import json
from contextlib import contextmanager

from harness import RULES, Server, axe, opened

SETTINGS = """
mode = "production"
database = "sqlite://records.db"
keys = "server.keys"
users = "any"
identity_issuer = "https://shop.example"
identity_audience = "shop"
identity_secret_file = "provider.secret"
console = "on"

[webhooks]
enabled = true
"""

AREAS = ("plans", "subscriptions", "payments", "webhooks")
READS = [f"{area}:read" for area in (*AREAS, "events")]
WRITES = [f"{area}:write" for area in AREAS]
USER = "0190f3a0-0000-7000-8000-000000000001"

# Buttons that only look, which a key for reading sees as well.
LOOKING = {"CSV", "Apply", "Sign out", "Show later steps", "Show more", "Refresh", "Pause following", "Follow", "Open"}


@contextmanager
def production(folder):
    server = Server(folder, "--config", "settings.toml")
    (folder / "settings.toml").write_text(SETTINGS)
    (folder / "provider.secret").write_text("0123456789abcdef0123456789abcdef")
    config = ["--config", "settings.toml"]
    server.run(*config, "key", "rotate")
    keys = {}
    for name, scopes in {"operator": READS + WRITES + ["users:read"], "reader": READS, "leaver": READS, "planner": ["plans:read"]}.items():
        words = [word for scope in scopes for word in ("--scope", scope)]
        keys[name] = server.run(*config, "client", "add", "--name", name, *words).splitlines()[-1].strip()
    with server:
        plan = server.make("/subscription-plans", {"name": "Pro", "slug": "pro", "price": "19.90", "billing_cycle": "monthly", "currency": "EUR"}, client=keys["operator"])
        body = {"user_id": USER, "subscription_plan_id": plan["id"], "external_subscription_id": "order-17"}
        server.subscription = server.make("/subscriptions", body, client=keys["operator"])
        yield server, keys


def sign_in(view, key):
    view.page.get_by_label("Client key").fill(key)
    view.page.keyboard.press("Enter")
    view.page.locator("#pages").wait_for()
    view.ready()


def signed_out(view):
    view.page.get_by_label("Client key").wait_for()
    assert view.page.title() == "Sign in · Console", view.page.title()
    assert view.page.locator("nav, table, dialog").count() == 0


STORED = "() => JSON.stringify([{...sessionStorage}, {...localStorage}, document.cookie, history.state, window.name, document.referrer])"


def kept(view):
    return view.page.evaluate(STORED)


def a_wrong_key(browser, server, keys):
    with opened(browser, server) as view:
        view.open()
        signed_out(view)
        box = view.page.get_by_label("Client key")
        assert (box.get_attribute("type"), box.get_attribute("autocomplete")) == ("password", "current-password")
        for wrong in ("sck_wrong", f"{keys['reader'][:-1]}~", "demo-key", "<img src=x onerror=alert(1)>", "schlüssel", "with blank", "x" * 5000):
            box.fill(wrong)
            view.page.keyboard.press("Enter")
            view.page.get_by_role("alert").wait_for()
            signed_out(view)
            assert wrong not in kept(view) and wrong not in view.page.content(), wrong
            assert view.page.evaluate("document.activeElement.type") == "password", wrong
        found = axe.run(view.page, options=RULES)
        assert found.violations_count == 0, found.generate_report()
        view.quiet(401, 400, 431)


def the_key_stays_in_the_tab(browser, server, keys):
    """C3 and C6: in no address, no log, no document; and gone with everything else after signing out."""
    key = keys["operator"]
    with opened(browser, server) as view:
        page = view.open("#/subscriptions")
        sign_in(view, key)
        assert view.heading() == "Subscriptions", "the address was kept"
        page.reload()
        view.ready()
        view.page.get_by_role("row").nth(1).get_by_role("link").first.click()
        view.until("location.hash.startsWith('#/subscriptions/')")
        view.ready()
        assert key not in page.content() and key not in page.url
        assert json.loads(kept(view))[1:] == [{}, "", None, "", ""], kept(view)
        assert list(json.loads(kept(view))[0].values()) == [key]
        assert page.context.cookies() == []

        # Another tab has no key.
        with page.context.expect_page() as opening:
            page.evaluate("address => { window.open(address, '_blank', 'noopener'); }", page.url)
        other = opening.value
        other.get_by_label("Client key").wait_for()
        other.close()

        view.button("Sign out").click()
        signed_out(view)
        for step in (lambda: page.go_back(), lambda: page.go_forward(), lambda: page.reload(), lambda: (page.goto("about:blank"), page.go_back())):
            step()
            signed_out(view)
            assert json.loads(kept(view)) == [{}, {}, "", None, "", ""], kept(view)
            assert not any(text in page.content() for text in (key, "order-17", USER))
        for request in view.requests:
            carried = {name: value for name, value in request.headers.items() if key in value}
            assert key not in request.url and set(carried) <= {"client-id"}, (request.url, carried)
            assert not carried or request.url.startswith(f"{server.base}/"), request.url
        view.quiet()
    assert not any(part in server.log() for part in (key, key[-12:]))


def signing_out_while_calls_are_under_way(browser, server, keys):
    with opened(browser, server) as view:
        page = view.open()
        sign_in(view, keys["operator"])
        held = []
        page.route("**/subscriptions?*", lambda route: held.append(route))
        view.link("Subscriptions").click()
        while not held:
            page.wait_for_timeout(10)
        view.button("Sign out").click()
        signed_out(view)
        for route in held:
            route.continue_()
        page.unroute("**/subscriptions?*")
        page.wait_for_timeout(200)
        signed_out(view)
        # Another key begins where the last one was.
        sign_in(view, keys["reader"])
        assert view.heading() == "Subscriptions" and "reader" in page.locator("header").inner_text()
        view.quiet()


def a_key_that_is_withdrawn(browser, server, keys):
    with opened(browser, server) as view:
        view.open("#/subscriptions")
        sign_in(view, keys["leaver"])
        server.stop()
        server.run("--config", "settings.toml", "client", "revoke", "leaver")
        server.start()
        view.link("Events").click()
        view.page.get_by_role("alert").wait_for()
        signed_out(view)
        assert keys["leaver"] not in kept(view)
        view.quiet(401)


def a_key_for_reading(browser, server, keys):
    """It sees no button that changes anything, and a call that is forced is refused."""
    with opened(browser, server) as view:
        path = f"/subscriptions/{server.subscription['id']}"
        view.open(f"#{path}")
        sign_in(view, keys["reader"])
        for address in (f"#{path}", "#/overview", "#/subscriptions", "#/users", f"#/users/{USER}", "#/plans", "#/events", "#/webhooks", "#/search?q=pro"):
            view.step(address)
            names = {name.split(" (")[0] for name in view.page.get_by_role("button").all_inner_texts()}
            assert names <= LOOKING, (address, names - LOOKING, view.text())
        view.quiet()
        answer = view.page.evaluate(
            """async (path) => {
                const { call } = await import("./api.js");
                return await call("POST", path, { body: {} }).catch(({ status, code }) => [status, code]);
            }""", f"{path}/cancel")
        assert answer == [403, "scope_missing"], answer
        view.quiet(403)
    with opened(browser, server) as view:
        view.open("#/subscriptions")
        sign_in(view, keys["planner"])
        assert "subscriptions:read" in view.text(), view.text()
        names = view.page.locator("#pages a").all_inner_texts()
        assert names == ["Plans"], names
        view.quiet()


def users_without_accounts(browser, server, keys):
    """Where users need no account, any id opens the page of a user."""
    with opened(browser, server) as view:
        page = view.open("#/users")
        sign_in(view, keys["operator"])
        page.get_by_label("Id of any user").fill(USER)
        page.keyboard.press("Enter")
        view.until("hash => location.hash === hash", f"#/users/{USER}")
        view.ready()
        assert view.link("Pro").count() > 0 and view.button("Try again").count() == 0, view.text()
        view.quiet()


def guessing(browser, server, keys):
    """C12, the last one here: this address is refused for a while."""
    for attempt in range(30):
        status, _ = server.call("GET", "/subscriptions", client=f"guess-{attempt}")
        if status == 429:
            break
    assert status == 429, status
    with opened(browser, server) as view:
        view.open()
        view.page.get_by_label("Client key").fill("guess")
        view.page.keyboard.press("Enter")
        view.page.get_by_role("alert").wait_for()
        signed_out(view)
        view.quiet(429)


FLOWS = [a_wrong_key, the_key_stays_in_the_tab, signing_out_while_calls_are_under_way, a_key_that_is_withdrawn, a_key_for_reading, users_without_accounts, guessing]
