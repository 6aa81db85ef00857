"""The page of examples/portal in Chromium, with links of a server whose clock is turned: each section, each dialog, what
the keyboard reaches, what a link that is no longer valid shows, and what its policy forbids.

    python .ci/portal.py target/debug/subscription-http [folder]    # the folder gets pictures of the page
"""

import base64
import hashlib
import re
import sys
import tempfile
from contextlib import contextmanager
from os import geteuid
from pathlib import Path
from urllib.error import HTTPError

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

from running import Page, api, page_server, quiet_page, run, serving

FILE = Path("examples/portal/index.html")
PICTURES = Path(sys.argv[2]) if len(sys.argv) > 2 else None
NOBODY = "01940000-0000-7000-8000-000000000000"
# The criteria of WCAG 2.2, A and AA.
RULES = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
MARKUP = 'Pro <img src=x onerror="alert(1)"> & <b>one</b>'


def the_policy_fits_the_file():
    text = FILE.read_text()
    assert text.count("\n") <= 400, "the page is longer than 400 lines"
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", text, re.S)
        expected = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{expected}'" in text, f"the hash of the {tag} is {expected}"
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text, word


class Shop:
    """A business on a server with a clock of its own, and the page under two addresses: as the guide says, and without the
    header against frames."""

    def __init__(self, base, origin):
        self.base, self.origin, self.link_of = base, origin, None
        page = FILE.read_text()
        for there, here in (("http://127.0.0.1:8080", base), ('name="back" content="/"', f'name="back" content="{origin}/account"')):
            assert page.count(there) == 1, there
            page = page.replace(there, here)
        kind = "text/html; charset=utf-8"
        Page.FILES["/portal"] = (kind, page, ("content-security-policy", "frame-ancestors 'none'"))
        Page.FILES["/without-header"] = (kind, page)
        plan = {"name": MARKUP, "slug": "pro", "price": "19.90", "currency": "EUR", "billing_cycle": "monthly", "trial_period": None}
        self.pro = self.post("/subscription-plans", plan)["id"]
        self.team = self.post("/subscription-plans", plan | {"name": "Team", "slug": "team", "price": "30"})["id"]
        yen = {"name": "Tokyo", "slug": "tokyo", "price": "1500", "currency": "JPY", "billing_cycle": "P18M", "trial_period": "P14D"}
        self.yen = self.post("/subscription-plans", yen)["id"]

    def post(self, path, body=None):
        return api(self.base, "POST", path, body)

    def person(self, name):
        return self.post("/authentication/sign-up", {"access_token": "any", "email": f"{name}@example.com"})["auth_id"]

    def subscribe(self, user, plan, **more):
        return self.post("/subscriptions", {"user_id": user, "subscription_plan_id": plan, **more})["id"]

    def link(self, user):
        return self.post(f"/users/{user}/portal-links")["url"]

    def turn(self, by, payments="succeed"):
        while not self.post("/clock/advance", {"by": by, "payments": payments})["done"]:
            pass

    def report(self, status, **more):
        """Reports the result of every payment that is due."""
        for payment in api(self.base, "GET", "/due-payments")["data"]:
            api(self.base, "PUT", f"/subscription-payments/{payment['id']}", {"status": status, **more})


@contextmanager
def opened(browser, shop, user, expected=(), path="/portal", **settings):
    """The page of a person, with the server's time and New York's days."""
    with quiet_page(browser, [shop.origin, shop.base], expected, timezone_id="America/New_York", reduced_motion="reduce", **settings) as page:
        page.set_default_timeout(60_000)
        page.clock.set_fixed_time(api(shop.base, "GET", "/clock")["now"])
        page.goto(shop.link(user).replace("/portal", path))
        yield page


def section(page, name):
    return page.get_by_role("region", name=name, exact=True)


def sees(page, name, *texts):
    """Waits until the section has each of these texts."""
    for text in texts:
        section(page, name).get_by_text(text).first.wait_for()


def focus(page):
    return page.evaluate("document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent")


def sound(page, name):
    """No violation of axe, nothing wider than the page, and a picture of it."""
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1], (name, wide)
    if PICTURES:
        page.screenshot(path=PICTURES / f"{name}.png", full_page=True)
    found = Axe().run(page, options=RULES)
    assert found.violations_count == 0, (name, found.generate_report())


def nothing_yet_and_where_the_token_goes(browser, shop):
    ada = shop.person("ada")
    seen = []
    with opened(browser, shop, ada) as page:
        sees(page, "Your plan", "You have no subscription.")
        sees(page, "Next charge", "No charge is planned.")
        sees(page, "Open payment", "No payment is open.")
        sees(page, "Payments", "There are no payments yet.")
        assert page.url == f"{shop.origin}/portal", page.url
        assert page.evaluate("history.length") == 2, "a new tab, and the page"
        assert page.evaluate("Object.keys(sessionStorage) + document.cookie + Object.keys(localStorage)") == "portal"
        assert page.evaluate("sessionStorage.portal").startswith("spt_")
        page.on("request", lambda request: seen.append((request.url, request.all_headers())))
        page.reload()
        sees(page, "Your plan", "You have no subscription.")
        calls = [headers for url, headers in seen if url.startswith(shop.base)]
        assert len(calls) == 2 and all("referer" not in headers and "cookie" not in headers for _, headers in seen), seen
        assert not any("spt_" in url for url, _ in seen), seen
        sound(page, "nothing")
        assert page.get_by_role("link", name="Back").get_attribute("href") == f"{shop.origin}/account"


def what_the_plan_says(browser, shop):
    ben = shop.person("ben")
    first = shop.subscribe(ben, shop.pro, quantity=3)
    shop.report("succeeded")
    shop.post(f"/subscriptions/{first}/discount", {"percent": "20", "periods": 2})
    api(shop.base, "PUT", f"/subscriptions/{first}", {"credit": "4.50"})
    with opened(browser, shop, ben) as page:
        page.on("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("heading", name=MARKUP).wait_for()
        sees(page, "Your plan", "Active", "€19.90 × 3 a month", "Discount: 20 % off the next 2 periods.", "You have a credit of €4.50.",
             "It renews on 1 March 2030.")
        # 59.70 less 20 % (11.94), less 4.50.
        sees(page, "Next charge", "€43.26", "on 1 March 2030")
        sees(page, "Payments", MARKUP, "€59.70", "Paid", "1 Feb 2030")
        assert page.locator("main img, main b").count() == 0
        shop.post(f"/subscriptions/{first}/change-plan", {"subscription_plan_id": shop.team, "effective": "period_end", "quantity": 2})
        page.reload()
        sees(page, "Your plan", "On 1 March 2030 it changes to Team: €30.00 × 2 a month.")
        api(shop.base, "DELETE", f"/subscriptions/{first}/scheduled-change")
        shop.post(f"/subscriptions/{first}/pause", {"resumes_at": "2030-06-01T12:00:00Z"})
        page.reload()
        sees(page, "Your plan", "On 1 March 2030 it is paused until 1 June 2030.")
        sees(page, "Next charge", "on 1 June 2030")
        shop.post(f"/subscriptions/{first}/resume")
        # Another plan, in a currency without decimals, on trial.
        shop.subscribe(ben, shop.yen, trial_ends_at="2030-02-15T12:00:00Z")
        page.reload()
        sees(page, "Your plan", "Free trial", "JP¥1,500 every 18 months", "The free trial lasts until 15 February 2030.")
        sees(page, "Next charge", "Tokyo: on 15 February 2030")
        page.locator("article").nth(2).wait_for()
        sound(page, "two-plans")

        # A provider's page, which only a subscription of a provider has.
        def managed(route):
            answer = route.fetch()
            body = answer.json()
            body["data"][0]["manage_url"] = "https://pay.example/manage?a=1"
            route.fulfill(response=answer, json=body)

        page.route("**/me/subscriptions*", managed)
        page.reload()
        link = page.get_by_role("link", name="Manage it at our payment provider")
        assert (link.get_attribute("href"), link.get_attribute("rel")) == ("https://pay.example/manage?a=1", "noreferrer")


def cancel_and_resume_by_keyboard(browser, shop):
    cleo = shop.person("cleo")
    shop.subscribe(cleo, shop.team)
    shop.report("succeeded")
    with opened(browser, shop, cleo) as page:
        sees(page, "Your plan", "Active")
        assert page.get_by_role("button", name="Resume").count() == 0
        for expected in ("Back", "Cancel Team"):
            page.keyboard.press("Tab")
            assert focus(page) == expected, focus(page)
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid", outline
        dialog = page.get_by_role("dialog", name="Cancel Team?")
        for leave in ("Escape", "Enter"):
            page.keyboard.press("Enter")
            dialog.get_by_text("Your last day is 1 March 2030.").wait_for()
            assert focus(page) == "Keep the plan"
            if leave == "Escape":
                sound(page, "cancel")
            page.keyboard.press(leave)
            dialog.wait_for(state="hidden")
            assert focus(page) == "Cancel Team", (leave, focus(page))
        sees(page, "Your plan", "Active")
        page.keyboard.press("Enter")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        page.locator("#notice[aria-live=polite]").get_by_text("Team is cancelled. The last day is 1 March 2030.").wait_for()
        sees(page, "Your plan", "Cancelled", "It is cancelled. The last day is 1 March 2030.")
        sees(page, "Next charge", "No charge is planned.")
        assert page.get_by_role("button", name="Cancel").count() == 0
        page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Resume Team'")
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Resume Team?")
        dialog.get_by_text("The next period begins on 1 March 2030.").wait_for()
        sound(page, "resume")
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Enter")
        page.get_by_text("Team continues.").wait_for()
        page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Cancel Team'")
        sees(page, "Next charge", "€30.00")
        assert page.locator("dialog[open]").count() == 0


def a_payment_that_fails(browser, shop):
    dan = shop.person("dan")
    shop.subscribe(dan, shop.team)
    with opened(browser, shop, dan) as page:
        sees(page, "Open payment", "€30.00", "For Team. It is due since 1 February 2030, and not paid yet.")
        shop.report("failed")
        page.reload()
        sees(page, "Your plan", "Payment failed", "You have access while it is tried again.")
        sees(page, "Open payment", "€30.00", "For Team. It failed. The next attempt is on 2 February 2030.")
        sees(page, "Payments", "Failed")
        page.get_by_role("button", name="Cancel Team").click()
        page.get_by_role("dialog").get_by_text("The open payment stays due.").wait_for()
        page.keyboard.press("Escape")
    shop.turn("P14D", "fail")
    with opened(browser, shop, dan) as page:
        sees(page, "Your plan", "Unpaid", "You have no access until it is paid.")
        sees(page, "Open payment", "For Team. It failed, and is not tried again by itself.")
        sound(page, "unpaid")
        page.get_by_role("button", name="Cancel Team").click()
        page.get_by_role("dialog").get_by_text("It ends at once. The open payment stays due.").wait_for()
        page.get_by_role("button", name="Cancel the plan").click()
        page.get_by_text("Team has ended.").wait_for()
        sees(page, "Your plan", "It has ended: the last day was 15 February 2030.")
        assert "Your plan" in focus(page), focus(page)
    ida = shop.person("ida")
    later = shop.subscribe(ida, shop.team, starts_at="2031-01-01T12:00:00Z")
    with opened(browser, shop, ida) as page:
        sees(page, "Your plan", "Not begun", "It begins on 1 January 2031.")
        page.get_by_role("button", name="Cancel Team").click()
        page.get_by_role("dialog").get_by_text("It ends at once.", exact=True).wait_for()
        page.get_by_role("button", name="Cancel the plan").click()
        sees(page, "Your plan", "It has ended.")
    assert api(shop.base, "GET", f"/subscriptions/{later}")["status"] == "expired"


def payments_page_by_page(browser, shop):
    eve = shop.person("eve")
    shop.subscribe(eve, shop.team)
    shop.report("succeeded")
    shop.turn("P2Y")
    for scheme, width in (("light", 390), ("dark", 1000), ("dark", 390)):
        with opened(browser, shop, eve, color_scheme=scheme, viewport={"width": width, "height": 800}) as page:
            sees(page, "Payments", "renewal")
            rows = page.locator("tbody tr")
            assert rows.count() == 12, rows.count()
            page.get_by_role("button", name="Show more").press("Enter")
            page.get_by_text("24 payments are shown.").wait_for()
            assert focus(page) == "Show more"
            page.keyboard.press("Enter")
            page.get_by_text("25 payments are shown.").wait_for()
            assert rows.count() == 25 and focus(page) == "Payments", (rows.count(), focus(page))
            sees(page, "Payments", "Team, first period")
            sound(page, f"{scheme}-{width}")
            color = "rgb(15, 19, 23)" if scheme == "dark" else "rgb(245, 246, 248)"
            assert page.evaluate("getComputedStyle(document.body).backgroundColor") == color


def what_cannot_be_read_is_said(browser, shop):
    eve = shop.person("eva")
    shop.subscribe(eve, shop.team)
    with opened(browser, shop, eve, ["net::ERR_FAILED", "status of 429"]) as page:
        sees(page, "Your plan", "Active")
        held = []
        page.route("**/me/subscriptions*", lambda route: held.append(route))
        page.route("**/me/payments*", lambda route: route.abort())
        with page.expect_request("**/me/subscriptions*"):
            page.reload()
        sees(page, "Your plan", "Loading")
        page.wait_for_function("document.body.ariaBusy === 'true'")
        headers = {"access-control-allow-origin": "*", "access-control-expose-headers": "retry-after", "retry-after": "7"}
        held[0].fulfill(status=429, json={"code": "rate_limited", "detail": "no"}, headers=headers)
        sees(page, "Your plan", "There were too many requests. Try again in 7 seconds.")
        sees(page, "Payments", "The server cannot be reached.")
        sound(page, "failed")
        page.unroute_all()
        section(page, "Payments").get_by_role("button", name="Try again").press("Enter")
        sees(page, "Your plan", "Active")
        sees(page, "Payments", "€30.00")
        assert focus(page) == "Payments", focus(page)


def a_link_that_is_not_valid_shows_nothing(browser, shop):
    fay, gus = shop.person("fay"), shop.person("gus")
    shop.subscribe(fay, shop.team)
    # A page that was opened before its link expired, and one that is opened later.
    with opened(browser, shop, fay, ["status of 401"] * 3) as page:
        sees(page, "Your plan", "Active")
        shop.turn("PT31M", "leave")
        page.get_by_role("button", name="Cancel Team").click()
        page.get_by_role("button", name="Cancel the plan").click()
        for _ in range(2):
            page.get_by_role("heading", name="This link has expired").wait_for()
            assert page.title() == "This link has expired"
            assert "Team" not in page.content().split("<script")[0], page.content()
            assert page.evaluate("sessionStorage.length") == 0
            assert page.get_by_role("link", name="Back").get_attribute("href") == f"{shop.origin}/account"
            page.reload()
        sound(page, "expired")
        # Another person's link in the same tab, and one that was altered.
        page.goto(shop.link(gus))
        sees(page, "Your plan", "You have no subscription.")
        link = shop.link(fay)
        page.goto(f"{link[:-4]}AAAA")
        page.get_by_role("heading", name="This link has expired").wait_for()
        page.goto(link)
        sees(page, "Your plan", "Active")
    assert api(shop.base, "GET", f"/subscriptions?user_id={fay}")["data"][0]["status"] == "active"


def other_sites_cannot_frame_it_and_markup_is_refused(browser, shop):
    hal = shop.person("hal")
    shop.subscribe(hal, shop.team)
    frame = lambda link: f'<!doctype html><title>frame</title><iframe src="{link}"></iframe>'
    link = shop.link(hal)
    Page.FILES["/frame"] = ("text/html", frame(link))
    Page.FILES["/frame-without-header"] = ("text/html", frame(link.replace("/portal", "/without-header")))
    with quiet_page(browser, [shop.origin, shop.base, "chrome-error:"], ["frame-ancestors"]) as page:
        page.goto(f"{shop.origin}/frame-without-header")
        page.frame_locator("iframe").get_by_text("This page is not shown inside of another page.").wait_for()
        page.goto(f"{shop.origin}/frame")
        page.wait_for_function("document.readyState === 'complete'")
        assert "Team" not in "".join(frame.content() for frame in page.frames)
    # The policy: neither another script, nor a handler, nor markup, nor another server.
    tries = """async () => {
        const refused = [];
        const script = document.createElement("script");
        try { script.text = "window.ran = 1"; } catch { refused.push("text of a script"); }
        try { document.body.innerHTML = "<b>x</b>"; } catch { refused.push("markup"); }
        try { trustedTypes.createPolicy("mine", {}); } catch { refused.push("a policy of types"); }
        const link = document.createElement("a");
        link.href = "javascript:window.ran = 1";
        document.body.append(link);
        link.click();
        await fetch(location.origin + "/elsewhere").catch(() => refused.push("another server"));
        return [refused, window.ran ?? null];
    }"""
    with opened(browser, shop, hal, [""] * 6) as page:
        sees(page, "Your plan", "Active")
        refused, ran = page.evaluate(tries)
        assert (refused, ran) == (["text of a script", "markup", "a policy of types", "another server"], None), (refused, ran)


def in_production(browser, folder, origin, elsewhere):
    """The page's origin needs no client. Another origin reads nothing, also with the token."""
    settings = f"""
mode = "production"
database = "sqlite://records.db"
keys = "server.keys"
users = "any"
identity_issuer = "https://shop.example"
identity_audience = "shop"
identity_secret_file = "provider.secret"
portal_url = "{origin}/portal"
"""
    (folder / "provider.secret").write_text("0123456789abcdef0123456789abcdef")
    (folder / "settings.toml").write_text(settings)
    config = ["--config", "settings.toml"]
    run(folder, *config, "key", "rotate")
    added = run(folder, *config, "client", "add", "--name", "backend", "--scope", "portal:write")
    backend = added.splitlines()[-1]
    with serving(folder, *config) as base:
        text = FILE.read_text().replace("http://127.0.0.1:8080", base)
        Page.FILES["/portal"] = ("text/html; charset=utf-8", text)
        link = api(base, "POST", f"/users/{NOBODY}/portal-links", None, backend)["url"]
        with quiet_page(browser, [origin, base]) as page:
            page.goto(link)
            sees(page, "Your plan", "You have no subscription.")
        with quiet_page(browser, [elsewhere, base], ["CORS policy", "net::ERR_FAILED"] * 2) as page:
            page.goto(link.replace(origin, elsewhere))
            sees(page, "Your plan", "The server cannot be reached.")
        try:
            api(base, "GET", "/subscriptions", None, backend)
        except HTTPError as error:
            assert error.code == 403, error
        else:
            raise AssertionError("portal:write reads subscriptions")
    log = (folder / "log").read_text()
    assert NOBODY in log and "spt_" not in log, log


def main():
    the_policy_fits_the_file()
    origin, elsewhere = page_server(), page_server()
    settings = ["--database", "memory:", "--clock", "manual", "--clock-at", "2030-02-01T12:00:00Z", "--self-service", "cancel",
                "--self-service", "resume", "--portal-url", f"{origin}/portal"]
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        # Root, as CI is, has no sandbox.
        arguments = ["--no-sandbox"] if geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        with serving(Path(folder), *settings) as base:
            shop = Shop(base, origin)
            # The clock is turned from here on, so each of these begins where the one above ends.
            for flow in (nothing_yet_and_where_the_token_goes, what_the_plan_says, cancel_and_resume_by_keyboard,
                         what_cannot_be_read_is_said, other_sites_cannot_frame_it_and_markup_is_refused, a_payment_that_fails,
                         payments_page_by_page, a_link_that_is_not_valid_shows_nothing):
                flow(browser, shop)
        assert "spt_" not in (Path(folder) / "log").read_text()
        production = Path(folder) / "production"
        production.mkdir()
        in_production(browser, production, origin, elsewhere)
        browser.close()
    print("the portal's page holds")


main()
