"""Pages of several origins in Chromium, against the server: who may call, and what they can read.

Three origins, each a port of this machine: the shop's and the blog's are listed by a client each, the third by
none. Besides, a page that rebinds its name to a server in development mode. The pricing page (examples/pricing)
and the TypeScript client (examples/typescript) are driven from the shop's origin.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from running import Page, api, page_server, quiet_page, run, serving

CLIENT = Path(sys.argv[2]).resolve()
PRICING = Path("examples/pricing/index.html").resolve()
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
    scopes = [word for scope in ("plans:write", "subscriptions:write") for word in ("--scope", scope)]
    added = run(folder, *config, "client", "add", "--name", "backend", *scopes)
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
        pricing_in_development(browser, base, origin)
        page = browser.new_page()
        page.goto(origin)
        call = caller(page, base)
        plan = {"name": "Pro", "slug": "pro", "price": "19.90", "billing_cycle": "monthly"}
        assert call("POST", "/subscription-plans", "any", plan | {"slug": "new"})["status"] == 201
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


def pricing_page(base, *changes):
    """The file as it is, but for what its reader changes."""
    text = PRICING.read_text()
    for there, here in (('"http://127.0.0.1:8080"', f'"{base}"'), *changes):
        assert text.count(there) == 1, there
        text = text.replace(there, here)
    return "text/html; charset=utf-8", text


def pricing(browser, base, shop, nobody, backend):
    """The pricing page of examples/, from the shop's origin, in production."""
    login = "access_token: await (await fetch(`/login?name=${email.value.split(\"@\")[0]}`)).text()"
    Page.FILES["/pricing"] = pricing_page(base, ('"web"', '"shop"'), ('access_token: "development"', login))
    buy = "https://shop.lemonsqueezy.com/buy"
    team = {"name": "Team <b>one</b>", "tier": 2, "product_id": "17", "features": "sso, audit log"}
    offers = [
        {"name": "Solo", "slug": "solo", "price": "9", "billing_cycle": "monthly", "tier": 1},
        team | {"slug": "team", "price": "19.90", "billing_cycle": "monthly", "href": f"{buy}/m?embed=1"},
        team | {"slug": "team-yearly", "price": "199", "billing_cycle": "yearly", "href": f"{buy}/y?embed=1"},
    ]
    solo = [api(base, "POST", "/subscription-plans", offer, backend) for offer in offers][0]

    revoked = ["status of 401"]
    with quiet_page(browser, [shop, base, buy], revoked, viewport={"width": 390, "height": 800}) as page:
        page.route(f"{buy}/**", lambda route: route.fulfill(body="<title>checkout</title>", content_type="text/html"))
        page.goto(f"{shop}/pricing")
        page.get_by_role("heading", name="Team <b>one</b>").wait_for()
        prices = page.locator("article p:has(strong)")
        assert prices.all_inner_texts() == ["€19.90 a month", "€9 a month", "€19.90 a month"], prices.all_inner_texts()
        page.get_by_label("monthly").focus()
        page.keyboard.press("ArrowRight")
        assert prices.all_inner_texts() == ["€19.90 a month", "€9 a month", "€199 a year"], prices.all_inner_texts()
        assert page.evaluate("document.activeElement.id") == "cycle-yearly"
        assert page.evaluate("document.documentElement.scrollWidth") == 390

        page.get_by_role("button", name="Sign in").press("Enter")
        page.keyboard.type("ada@example.com")
        page.keyboard.press("Enter")
        page.get_by_text("You have no plan yet.").wait_for()
        session = json.loads(page.evaluate("sessionStorage.session"))
        ada = session["auth_id"]
        page.get_by_role("button", name="Get Team").press("Enter")
        page.wait_for_url(f"{buy}/**")
        assert page.url == f"{buy}/y?embed=1&checkout%5Bcustom%5D%5Buser_id%5D={ada}", page.url

        api(base, "POST", "/subscriptions", {"user_id": ada, "subscription_plan_id": solo["id"]}, backend)
        page.go_back()
        page.get_by_text("You have Solo. It renews on").wait_for()
        page.get_by_text("Your plan", exact=True).wait_for()

        revoke = caller(page, base)("POST", "/authentication/tokens/revoke-all", "shop", token=session["access_token"])
        assert revoke["status"] == 200, revoke
        page.reload()
        page.get_by_role("alert").get_by_text("(session_revoked)").wait_for()
        page.get_by_role("button", name="Sign in").wait_for()
        assert page.locator("article").count() == 3

    refusal = ["blocked by CORS policy", "net::ERR_FAILED"]
    with quiet_page(browser, [nobody, base], refusal, color_scheme="dark") as page:
        page.goto(f"{nobody}/pricing")
        page.get_by_role("alert").get_by_text(f"does not allow pages of {nobody}").wait_for()
        assert page.locator("article").count() == 0
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 19, 23)"


# Gives what the TypeScript client returns to a page, and how it fails.
SHOP = """async ([baseUrl, access_token]) => {
    const { Problem, Subscriptions } = await import("/client.js");
    let stored = null;
    const tokens = { get: () => stored, set: (next) => { stored = next; } };
    const api = new Subscriptions({ baseUrl, clientId: "shop", tokens });
    await api.auth.signIn({ access_token, email: "ada@example.com" });
    const prices = {};
    for await (const plan of api.plans.all({ sort: "tier", limit: 1 })) prices[plan.slug] = plan.price;
    const { features, grants } = await api.call("GET", "/me/entitlement");
    const { url } = await api.call("GET", "/me/checkout-link", { query: { plan: "team" } });
    const failure = await api.subscriptions.list().catch((problem) => problem);
    await api.auth.logout();
    return { prices, features, plan: grants[0].plan.slug, url, isProblem: failure instanceof Problem, code: failure.code, stored };
}"""


def typescript(browser, base, shop):
    """The client of examples/typescript, compiled, in a page of the shop."""
    Page.FILES["/client.js"] = ("text/javascript", CLIENT.read_text())
    with quiet_page(browser, [shop, base], ["status of 403"]) as page:
        page.goto(shop)
        got = page.evaluate(SHOP, [base, identity_token("ada")])
        assert got["prices"] == {"pro": "19.90", "solo": "9", "team": "19.90", "team-yearly": "199"}, got
        assert (got["features"], got["plan"], got["stored"]) == ([], "solo", None), got
        assert got["url"].startswith("https://shop.lemonsqueezy.com/buy/m?embed=1&checkout%5Bcustom%5D"), got
        assert (got["isProblem"], got["code"]) == (True, "scope_missing"), got


def pricing_in_development(browser, base, origin):
    """The pricing page as it is, beside a server without settings."""
    Page.FILES["/as-it-is"] = pricing_page(base)
    with quiet_page(browser, [origin, base], ["status of 404"]) as page:
        page.goto(f"{origin}/as-it-is")
        page.get_by_text("There are no plans yet.").wait_for()
        plan = {"name": "Pro", "slug": "pro", "price": "0.10", "billing_cycle": "P18M", "href": "https://pay.example/"}
        api(base, "POST", "/subscription-plans", plan)
        page.reload()
        page.get_by_text("€0.10 P18M").wait_for()
        # The first time there is no account, which the console tells as well.
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("E-mail address").fill("grace@example.com")
        page.get_by_role("button", name="Continue").click()
        page.get_by_text("You have no plan yet.").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("button", name="Sign in").wait_for()
        assert page.evaluate("sessionStorage.session") == "null"


def main():
    # The shop's own login, which signs a token for anybody.
    Page.FILES["/login"] = lambda query: ("text/plain", identity_token(query["name"][0]))
    shop, blog, nobody = page_server(), page_server(), page_server()
    rules = "MAP evil.example 127.0.0.1"
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        # Root, as CI is, has no sandbox.
        arguments = [f"--host-resolver-rules={rules}"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        config, backend = set_up(Path(folder), shop, blog)
        with serving(Path(folder), *config) as base:
            pro = {"name": "Pro", "slug": "pro", "price": "19.90", "billing_cycle": "monthly"}
            api(base, "POST", "/subscription-plans", pro, backend)
            page = browser.new_page()
            page.goto(shop)
            the_shops_page(caller(page, base), backend)
            page.close()
            pages_of_other_origins(browser, base, blog, nobody)
            pricing(browser, base, shop, nobody, backend)
            typescript(browser, base, shop)
        development(browser, shop)
        browser.close()
    print("pages of listed origins may call, others may not")


main()
