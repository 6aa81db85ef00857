"""The page of examples/portal in Chromium, with links of a server whose clock is turned: each section, each dialog, what
the keyboard reaches, what a change of plan says of money, what a link that is no longer valid shows, and what its policy
forbids.

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
from urllib.parse import quote

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
    for tag in ("script", "style"):
        (body,) = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", text, re.S)
        expected = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{expected}'" in text, f"the hash of the {tag} is {expected}"
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in text, word


def page_of(base, plans="", client="web", back="/"):
    """The page with the settings of a business."""
    page = FILE.read_text()
    for there, here in (("http://127.0.0.1:8080", base), ('name="back" content="/"', f'name="back" content="{back}"'),
                        ('name="plans" content=""', f'name="plans" content="{plans}"'),
                        ('name="client" content=""', f'name="client" content="{client}"')):
        assert page.count(there) == 1, there
        page = page.replace(there, here)
    return page


class Shop:
    """A business on a server with a clock of its own, and the page under its addresses: as the guide says, without the header
    against frames, and with other plans than those that people may change to."""

    def __init__(self, base, origin, offered=""):
        self.base, self.origin, self.link_of = base, origin, None
        kind = "text/html; charset=utf-8"
        page = page_of(base, offered, back=f"{origin}/account")
        Page.FILES["/portal"] = (kind, page, ("content-security-policy", "frame-ancestors 'none'"))
        Page.FILES["/without-header"] = (kind, page)
        for path, plans in (("/no-plans", ""), ("/own-plan", "team"), ("/wrong-plans", "pro gone closed tokyo"), ("/closed-plans", "closed")):
            Page.FILES[path] = (kind, page_of(base, plans))
        plan = {"name": MARKUP, "slug": "pro", "price": "19.90", "currency": "EUR", "billing_cycle": "monthly", "trial_period": None}
        self.pro = self.post("/subscription-plans", plan)["id"]
        self.team = self.post("/subscription-plans", plan | {"name": "Team", "slug": "team", "price": "30"})["id"]
        yen = {"name": "Tokyo", "slug": "tokyo", "price": "1500", "currency": "JPY", "billing_cycle": "P18M", "trial_period": "P14D"}
        self.yen = self.post("/subscription-plans", yen)["id"]
        self.basic = self.post("/subscription-plans", plan | {"name": "Basic", "slug": "basic", "price": "10"})["id"]
        self.year = self.post("/subscription-plans", plan | {"name": "Year", "slug": "year", "price": "290", "billing_cycle": "yearly"})["id"]
        self.post("/subscription-plans", plan | {"name": "Closed", "slug": "closed"})
        api(base, "PUT", "/subscription-plans/closed", {"is_active": False})

    def post(self, path, body=None):
        return api(self.base, "POST", path, body)

    def person(self, name):
        return self.post("/authentication/sign-up", {"access_token": "any", "email": f"{name}@example.com"})["auth_id"]

    def subscribe(self, user, plan, **more):
        return self.post("/subscriptions", {"user_id": user, "subscription_plan_id": plan, **more})["id"]

    def payment(self, subscription):
        """The newest payment."""
        return api(self.base, "GET", f"/subscriptions/{subscription}/payments?limit=1")["data"][0]

    def plan_of(self, subscription):
        return api(self.base, "GET", f"/subscriptions/{subscription}")["subscription_plan_id"]

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
        assert page.evaluate("Object.keys(sessionStorage).sort() + document.cookie + Object.keys(localStorage)") == "person,portal"
        assert page.evaluate("sessionStorage.portal").startswith("spt_")
        page.on("request", lambda request: seen.append(request))
        page.reload()
        sees(page, "Your plan", "You have no subscription.")
        seen = [(request.url, request.all_headers()) for request in seen]
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


# The server names the price of a change in a refusal, which a browser reports on its console.
QUOTE = "status of 409"
# Half of February is left: 15.00 of Team's 30, 9.95 of Pro's 19.90, 5.00 of Basic's 10.
UPGRADE = ["Team until 1 March 2030", "€15.00", f"Unused part of {MARKUP}", "-€9.95", "To pay now", "€5.05"]
BEING_PAID = f"Your change to Team is being paid: €5.05. If that fails, you stay on {MARKUP}."


def notice(page):
    return page.locator("#notice[aria-live=polite]")


def asks(page, to):
    """Chooses another plan, and returns the question that names its price."""
    page.get_by_role("button", name="Change plan").click()
    page.get_by_role("radio", name=to).check()
    page.get_by_role("button", name="Continue").click()
    question = page.get_by_role("dialog", name=f"Change to {to}?")
    question.wait_for()
    return question


def amounts(question):
    return question.locator("dt, dd").all_inner_texts()


def an_upgrade_that_is_paid(browser, shop, user, subscription):
    with opened(browser, shop, user, [QUOTE]) as page:
        sees(page, "Your plan", "Active", "€19.90 a month")
        page.get_by_role("button", name="Change plan").click()
        dialog = page.get_by_role("dialog", name=f"Change {MARKUP} to which plan?")
        dialog.wait_for()
        assert dialog.locator("label").all_inner_texts() == ["Team\n€30.00 a month", "Basic\n€10.00 a month", "Year\n€290.00 a year"]
        sound(page, "choice")
        page.get_by_role("button", name="Continue").click()
        question = page.get_by_role("dialog", name="Change to Team?")
        question.get_by_text("Team: €30.00 a month.").wait_for()
        assert amounts(question) == UPGRADE, amounts(question)
        question.get_by_text(f"The plan changes when this is paid. If that fails, you stay on {MARKUP}.").wait_for()
        question.get_by_text("The next charge is €30.00 on 1 March 2030.").wait_for()
        assert question.get_by_text("discount").count() == 0
        sound(page, "price")
        keys = []
        page.on("request", lambda request: keys.append(request.headers.get("idempotency-key")) if request.method == "POST" else None)
        page.get_by_role("button", name="Change and pay €5.05").click()
        notice(page).get_by_text(BEING_PAID).wait_for()
        sees(page, "Your plan", MARKUP, "Active", BEING_PAID)
        sees(page, "Open payment", "€5.05", BEING_PAID)
        assert page.get_by_role("button", name="Change plan").count() == 0
        assert page.locator("main img, main b, dialog img, dialog b").count() == 0
        sound(page, "being-paid")
        payment = shop.payment(subscription)
        assert (payment["kind"], payment["status"], payment["amount"]) == ("proration", "pending", "5.05"), payment
        assert len(keys) == 1 and len(keys[0]) == 36, keys
        assert shop.plan_of(subscription) == shop.pro
        shop.report("succeeded")
        page.reload()
        page.get_by_role("heading", name="Team").wait_for()
        sees(page, "Next charge", "€30.00", "Team: on 1 March 2030")
        sees(page, "Open payment", "No payment is open.")
        sees(page, "Payments", "Team, change of plan", "€5.05")
        assert page.get_by_text("is being paid").count() == 0
    assert shop.plan_of(subscription) == shop.team


def an_upgrade_that_fails(browser, shop, user, subscription):
    with opened(browser, shop, user, [QUOTE]) as page:
        assert amounts(asks(page, "Team")) == UPGRADE
        page.get_by_role("button", name="Change and pay €5.05").click()
        sees(page, "Open payment", BEING_PAID)
        # A cancellation leaves the payment open, and does not say that nothing changes until the last day.
        page.get_by_role("button", name="Cancel Pro").click()
        page.get_by_role("dialog").get_by_text("Your last day is 1 March 2030. Your change of plan still happens if it is paid").wait_for()
        page.get_by_role("button", name="Cancel the plan").click()
        still = "Your change of plan is still being paid: €5.05. It happens if that is paid, and can move the last day."
        notice(page).get_by_text(still).wait_for()
        sees(page, "Your plan", "Cancelled", still)
        sees(page, "Open payment", "€5.05", f"For {MARKUP}, change of plan. It is due")
        page.get_by_role("button", name="Resume Pro").click()
        page.get_by_role("button", name="Resume the plan").click()
        sees(page, "Your plan", "Active", BEING_PAID)
        shop.report("failed")
        page.reload()
        sees(page, "Your plan", "Active", "€19.90 a month", "It renews on 1 March 2030.")
        sees(page, "Next charge", "€19.90")
        sees(page, "Open payment", "No payment is open.")
        row = page.get_by_role("row", name=f"{MARKUP}, change of plan")
        row.get_by_text("Cancelled").wait_for()
        assert page.get_by_role("button", name="Change plan").count() == 1
        sound(page, "change-failed")
    assert shop.plan_of(subscription) == shop.pro and shop.payment(subscription)["status"] == "canceled"


def a_downgrade_that_is_dropped_by_keyboard(browser, shop, user, subscription):
    with opened(browser, shop, user, [QUOTE] * 2) as page:
        press = page.keyboard.press
        sees(page, "Your plan", "Active")
        for expected in ("Back", "Change plan Team"):
            press("Tab")
            assert focus(page) == expected, focus(page)
        choice = page.get_by_role("dialog", name="Change Team to which plan?")
        question = page.get_by_role("dialog", name="Change to Basic?")
        press("Enter")
        choice.wait_for()
        press("Escape")
        choice.wait_for(state="hidden")
        assert focus(page) == "Change plan Team", focus(page)
        for leaves in (True, False):
            press("Enter")
            choice.wait_for()
            assert page.evaluate("document.activeElement === document.querySelector('dialog input:checked')")
            for key, chosen in (("ArrowDown", "Year"), ("ArrowUp", "Basic")):
                press(key)
                assert page.get_by_role("radio", name=chosen).is_checked(), chosen
            press("Tab")
            assert focus(page) == "Continue"
            press("Enter")
            question.get_by_text("On 1 March 2030 it changes to Basic: €10.00 a month. Until then nothing changes, and nothing").wait_for()
            question.get_by_text("The next charge is €10.00 on 1 March 2030.").wait_for()
            assert question.locator("dl").count() == 0 and focus(page) == "Keep the plan", focus(page)
            if leaves:
                sound(page, "downgrade")
                press("Enter")
                question.wait_for(state="hidden")
                assert focus(page) == "Change plan Team", focus(page)
                sees(page, "Next charge", "€30.00", "Team: on 1 March 2030")
        press("Shift+Tab")
        assert focus(page) == "Change the plan"
        press("Enter")
        notice(page).get_by_text("On 1 March 2030 it changes to Basic: €10.00 a month.").wait_for()
        sees(page, "Your plan", "It renews on 1 March 2030.", "On 1 March 2030 it changes to Basic: €10.00 a month.")
        sees(page, "Next charge", "€10.00", "Basic: on 1 March 2030")
        sees(page, "Open payment", "No payment is open.")
        page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Keep my plan Team'")
        sound(page, "downgrade-planned")
        press("Enter")
        dialog = page.get_by_role("dialog", name="Keep Team?")
        dialog.get_by_text("Your change to Basic is dropped.", exact=True).wait_for()
        assert focus(page) == "Leave the change"
        sound(page, "keep")
        press("Shift+Tab")
        assert focus(page) == "Keep my plan"
        press("Enter")
        notice(page).get_by_text("You stay on Team.").wait_for()
        page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Change plan Team'")
        sees(page, "Next charge", "€30.00", "Team: on 1 March 2030")
        assert section(page, "Your plan").get_by_text("it changes to").count() == 0
    assert api(shop.base, "GET", f"/subscriptions/{subscription}")["scheduled_change"] is None


def another_cycle_and_a_change_that_is_dropped(browser, shop, user, subscription):
    with opened(browser, shop, user, [QUOTE] * 3) as page:
        question = asks(page, "Year")
        assert amounts(question) == ["Year until 15 February 2031", "€290.00", "Unused part of Team", "-€15.00", "To pay now", "€275.00"]
        question.get_by_text("The next charge is €290.00 on 15 February 2031.").wait_for()
        page.get_by_role("button", name="Change and pay €275.00").click()
        sees(page, "Your plan", "Your change to Year is being paid: €275.00.")
        page.get_by_role("button", name="Keep my plan").click()
        page.get_by_role("dialog", name="Keep Team?").get_by_text("Your change to Year is dropped, and its payment is cancelled.").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Keep my plan").click()
        notice(page).get_by_text("You stay on Team.").wait_for()
        sees(page, "Open payment", "No payment is open.")
        assert shop.payment(subscription)["status"] == "canceled"
        # The money is on its way before the person drops the next change.
        asks(page, "Year")
        page.get_by_role("button", name="Change and pay €275.00").click()
        page.get_by_role("button", name="Keep my plan").click()
        shop.report("processing")
        page.get_by_role("dialog").get_by_role("button", name="Keep my plan").click()
        notice(page).get_by_text("A payment of this plan is not finished. (payment_open)").wait_for()
        sees(page, "Your plan", "Your change to Year is being paid: €275.00.")
        assert page.get_by_role("button", name="Keep my plan").count() == 0
    payment = shop.payment(subscription)
    api(shop.base, "PUT", f"/subscription-payments/{payment['id']}", {"status": "succeeded"})
    assert shop.plan_of(subscription) == shop.year


def credit_pays_and_a_discount_ends(browser, shop, user, subscription):
    shop.post(f"/subscriptions/{subscription}/discount", {"percent": "20", "periods": 2})
    api(shop.base, "PUT", f"/subscriptions/{subscription}", {"credit": "20"})
    with opened(browser, shop, user, [QUOTE]) as page:
        question = asks(page, "Team")
        assert amounts(question) == [*UPGRADE[:4], "Your credit", "-€5.05", "To pay now", "€0.00"], amounts(question)
        question.get_by_text("Your credit pays for it, and is then €14.95. The plan changes at once.").wait_for()
        question.get_by_text("The next charge is €15.05 on 1 March 2030.").wait_for()
        question.get_by_text("Your discount ends with the change.").wait_for()
        sound(page, "credit")
        page.get_by_role("button", name="Change the plan").click()
        notice(page).get_by_text("Your plan is Team.").wait_for()
        sees(page, "Your plan", "Team", "You have a credit of €14.95.")
        sees(page, "Next charge", "€15.05")
        assert section(page, "Your plan").get_by_text("Discount").count() == 0
        assert focus(page) == "Change plan Team", focus(page)


def a_price_that_changes_before_the_answer(browser, shop, user, subscription):
    with opened(browser, shop, user, [QUOTE] * 4) as page:
        assert amounts(asks(page, "Team")) == UPGRADE
        api(shop.base, "PUT", "/subscription-plans/team", {"price": "36"})
        page.get_by_role("button", name="Change and pay €5.05").click()
        question = page.get_by_role("dialog", name="Change to Team?")
        question.get_by_text("The price has changed.").wait_for()
        question.get_by_text("The next charge is €36.00 on 1 March 2030.").wait_for()
        assert amounts(question) == ["Team until 1 March 2030", "€18.00", *UPGRADE[2:5], "€8.05"], amounts(question)
        assert focus(page) == "Keep the plan", focus(page)
        assert shop.payment(subscription)["kind"] == "initial"
        sound(page, "price-changed")
        page.get_by_role("button", name="Change and pay €8.05").click()
        notice(page).get_by_text("Your change to Team is being paid: €8.05.").wait_for()
        assert shop.payment(subscription)["amount"] == "8.05"
        page.get_by_role("button", name="Keep my plan").click()
        page.get_by_role("dialog").get_by_role("button", name="Keep my plan").click()
        notice(page).get_by_text("You stay on").wait_for()
        api(shop.base, "PUT", "/subscription-plans/team", {"price": "30"})
        # An answer that comes after the 15 minutes of a quote, whose numbers are the same.
        asks(page, "Basic")
        shop.turn("PT20M", "leave")
        page.get_by_role("button", name="Change the plan").click()
        question = page.get_by_role("dialog", name="Change to Basic?")
        question.get_by_text("Please confirm it again.").wait_for()
        assert question.get_by_text("The price has changed.").count() == 0
        page.get_by_role("button", name="Change the plan").click()
        sees(page, "Your plan", "On 1 March 2030 it changes to Basic: €10.00 a month.")


def a_change_that_is_refused(browser, shop, user, subscription):
    # A period that is not paid yet.
    shop.turn("P14D", "leave")
    with opened(browser, shop, user, ["status of 409"]) as page:
        page.get_by_role("button", name="Change plan").click()
        page.get_by_role("button", name="Continue").click()
        notice(page).get_by_text("A payment of this plan is not finished. (payment_open)").wait_for()
        assert focus(page) == "Change plan Team", focus(page)
        assert page.locator("dialog[open]").count() == 0
        sound(page, "refused")
    shop.report("succeeded")
    # A plan that the server does not offer, one in another currency, one that was closed, and one that was deleted.
    with opened(browser, shop, user, ["status of 404", "status of 422"], path="/wrong-plans") as page:
        page.get_by_role("button", name="Change plan").click()
        page.get_by_role("radio").first.wait_for()
        assert page.locator("dialog label").all_inner_texts() == [f"{MARKUP}\n€19.90 a month"]
        page.get_by_role("button", name="Continue").click()
        notice(page).get_by_text("You cannot change to this plan now. (validation_failed)").wait_for()
    with opened(browser, shop, user, path="/closed-plans") as page:
        page.get_by_role("button", name="Change plan").click()
        notice(page).get_by_text("No other plan is offered at present.").wait_for()
        assert focus(page) == "Change plan Team", focus(page)
    for path in ("/no-plans", "/own-plan"):
        with opened(browser, shop, user, path=path) as page:
            sees(page, "Your plan", "Active")
            assert page.get_by_role("button", name="Cancel Team").count() == 1
            assert page.get_by_role("button", name="Change plan").count() == 0
    # While the plans are read, the other buttons wait.
    with opened(browser, shop, user, ["net::ERR_FAILED"]) as page:
        held = []
        page.route("**/subscription-plans/basic", lambda route: held.append(route))
        with page.expect_request("**/subscription-plans/basic"):
            page.get_by_role("button", name="Change plan").click()
        page.get_by_role("button", name="Cancel Team").click()
        assert page.locator("dialog[open]").count() == 0
        held[0].abort()
        notice(page).get_by_text("The server cannot be reached.").wait_for()


def a_change_that_nobody_pays(browser, shop, user, subscription):
    for scheme, width in (("light", 390), ("dark", 1000), ("dark", 390)):
        with opened(browser, shop, user, [QUOTE], color_scheme=scheme, viewport={"width": width, "height": 800}) as page:
            page.get_by_role("button", name="Change plan").click()
            page.get_by_role("radio", name="Year").check()
            sound(page, f"choice-{scheme}-{width}")
            page.keyboard.press("Escape")
            question = asks(page, "Year")
            sound(page, f"price-{scheme}-{width}")
            if (scheme, width) == ("dark", 390):
                question.get_by_role("button", name="Change and pay").click()
                sees(page, "Open payment", "Your change to Year is being paid: €280.06.")
                sound(page, f"being-paid-{scheme}-{width}")
    shop.turn("P1D", "leave")
    with opened(browser, shop, user) as page:
        sees(page, "Your plan", MARKUP, "Active")
        sees(page, "Open payment", "No payment is open.")
        sees(page, "Payments", "Cancelled")
        assert page.get_by_text("is being paid").count() == 0
    assert shop.plan_of(subscription) == shop.pro


def changes_of_plan(browser, shop):
    """Each of these has a person of its own, who has the plan since 1 February. Those that turn the clock are the last."""
    flows = {an_upgrade_that_is_paid: shop.pro, an_upgrade_that_fails: shop.pro, a_downgrade_that_is_dropped_by_keyboard: shop.team,
             another_cycle_and_a_change_that_is_dropped: shop.team, credit_pays_and_a_discount_ends: shop.pro,
             a_price_that_changes_before_the_answer: shop.pro, a_change_that_nobody_pays: shop.pro, a_change_that_is_refused: shop.team}
    people = [shop.person(flow.__name__) for flow in flows]
    subscriptions = [shop.subscribe(user, plan) for user, plan in zip(people, flows.values())]
    shop.report("succeeded")
    # Fourteen days less five minutes, so that the amounts stay the same for ten minutes of these flows.
    shop.turn("PT20155M")
    for flow, user, subscription in zip(flows, people, subscriptions):
        flow(browser, shop, user, subscription)


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


def a_link_is_taken_in_the_browser_that_it_was_made_for(browser, shop):
    """On an address that is not this machine, a token needs the cookie of its redirect. Any page can send people to a link."""
    site = "https://shop.example"
    ann, mallory = (shop.link(shop.person(name)).replace(shop.origin, site) for name in ("ann", "mallory"))
    asked = []

    def answered(route):
        asked.append(route.request.headers.get("authorization"))
        route.fulfill(json={"data": [], "has_more": False}, headers={"access-control-allow-origin": site, "access-control-allow-headers": "*"})

    def redirected(page, link, person):
        digest = hashlib.sha256(link.split("#token=")[1].encode()).hexdigest()
        page.context.add_cookies([{"name": "portal", "value": f"{digest}.{quote(person)}", "url": f"{site}/portal"}])

    with quiet_page(browser, [site, shop.base]) as page:
        page.route(f"{shop.base}/**", answered)
        page.route(f"{site}/**", lambda route: route.fulfill(body=page_of(shop.base), content_type="text/html; charset=utf-8"))
        # A link of a stranger, without a cookie and with that of another link.
        for _ in range(2):
            page.goto("about:blank")
            page.goto(mallory)
            page.get_by_role("heading", name="This link was not made for this browser").wait_for()
            assert page.evaluate("sessionStorage.length") == 0 and "#" not in page.url, page.url
            redirected(page, ann, "Ann é <ann@example.com>; 1")
        assert asked == []
        page.goto("about:blank")
        page.goto(ann)
        sees(page, "Your plan", "You have no subscription.")
        page.get_by_text("Ann é <ann@example.com>; 1", exact=True).wait_for()
        # The same link in the tab where the own one is open, from this page and from another.
        page.context.clear_cookies()
        for leave in (lambda: None, lambda: page.goto("about:blank")):
            leave()
            page.goto(mallory)
            page.wait_for_url(f"{site}/portal")
            sees(page, "Your plan", "You have no subscription.")
            page.get_by_text("Ann é <ann@example.com>; 1", exact=True).wait_for()
        tokens = {token for token in asked if token}
        assert tokens == {"Bearer " + ann.split("#token=")[1]}, tokens


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
self_service = ["change_plan"]
self_service_plans = ["team"]
"""
    (folder / "provider.secret").write_text("0123456789abcdef0123456789abcdef")
    (folder / "settings.toml").write_text(settings)
    config = ["--config", "settings.toml"]
    run(folder, *config, "key", "rotate")
    added = run(folder, *config, "client", "add", "--name", "backend", "--scope", "portal:write")
    backend = added.splitlines()[-1]
    added = run(folder, *config, "client", "add", "--name", "shop", "--scope", "plans:write", "--scope", "subscriptions:write")
    seller = added.splitlines()[-1]
    added = run(folder, *config, "client", "add", "--public", "--name", "web", "--scope", "plans:read", "--origin", origin)
    web = added.splitlines()[-1]
    with serving(folder, *config) as base:
        Page.FILES["/portal"] = ("text/html; charset=utf-8", page_of(base, "team", web))
        Page.FILES["/unknown-client"] = ("text/html; charset=utf-8", page_of(base, "team", "nobody"))
        link = api(base, "POST", f"/users/{NOBODY}/portal-links", None, backend)["url"]
        with quiet_page(browser, [origin, base]) as page:
            page.goto(link)
            sees(page, "Your plan", "You have no subscription.")
        # The plans are read with a public client. If it is refused, the link is still valid.
        plan = {"name": "Solo", "slug": "solo", "price": "0", "currency": "EUR", "billing_cycle": "monthly"}
        solo = api(base, "POST", "/subscription-plans", plan, seller)["id"]
        api(base, "POST", "/subscription-plans", plan | {"name": "Team", "slug": "team", "price": "30"}, seller)
        api(base, "POST", "/subscriptions", {"user_id": NOBODY, "subscription_plan_id": solo}, seller)
        with quiet_page(browser, [origin, base], [QUOTE]) as page:
            page.goto(link)
            assert amounts(asks(page, "Team"))[1:] == ["€30.00", "To pay now", "€30.00"]
        with quiet_page(browser, [origin, base], ["status of 401"]) as page:
            page.goto(link.replace("/portal", "/unknown-client"))
            page.get_by_role("button", name="Change plan").click()
            notice(page).get_by_text("(client_unknown)").wait_for()
            sees(page, "Your plan", "Solo", "Free")
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
                         payments_page_by_page, a_link_that_is_not_valid_shows_nothing,
                         a_link_is_taken_in_the_browser_that_it_was_made_for):
                flow(browser, shop)
        assert "spt_" not in (Path(folder) / "log").read_text()
        with serving(Path(folder), *settings, "--self-service", "change_plan", "--self-service-plans", "team,basic,year") as base:
            changes_of_plan(browser, Shop(base, origin, "team basic year"))
        assert "spt_" not in (Path(folder) / "log").read_text()
        production = Path(folder) / "production"
        production.mkdir()
        in_production(browser, production, origin, elsewhere)
        browser.close()
    print("the portal's page holds")


main()
