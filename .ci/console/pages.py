"""Every page, and every address that is none."""

import time

from harness import RULES, axe, opened, sound

HUGE = 100_000


def addresses(server):
    """The address of each page, and what its heading says."""
    subscriptions = server.all("/subscriptions")
    shown = {}
    for subscription in subscriptions:
        shown.setdefault(subscription["status"], subscription)
    busy = next(one for one in subscriptions if one["status"] == "active" and one["renews_at"])
    found = {
        "overview": "#/overview", "subscriptions": "#/subscriptions", "nothing fits": "#/subscriptions?status=pending&is_active=true",
        "users": "#/users", "user": f"#/users/{busy['user_id']}", "plans": "#/plans", "events": "#/events",
        "webhooks": "#/webhooks", "providers": "#/providers", "search": "#/search?q=ear", "search that is empty": "#/search", "search without a hit": "#/search?q=nothing-like-this",
        "nowhere": "#/nowhere", "no such subscription": "#/subscriptions/00000000-0000-7000-8000-000000000000",
    }
    found |= {f"subscription {status}": f"#/subscriptions/{one['id']}" for status, one in (shown | {"active": busy}).items()}
    found |= {f"webhook {index}": f"#/webhooks/{one['id']}" for index, one in enumerate(server.get("/webhook-endpoints")["data"])}
    return found


# Pages that differ from others by a few words.
ALIKE = {f"subscription {status}" for status in ("on_trial", "cancelled", "expired", "paused")} | {"search that is empty", "search without a hit"}


def every_page(browser, server, scheme, width, all_of_them):
    with opened(browser, server, scheme, width) as view:
        view.open()
        for name, address in addresses(server).items():
            if name in ALIKE and not all_of_them:
                continue
            view.step(address)
            try:
                sound(view, 200 if all_of_them else 25)
            except AssertionError as error:
                raise AssertionError(name, scheme, width, *error.args) from error
            view.quiet(*([404] if name.startswith("no such") else []))
        # The navigation leads to pages that are checked above.
        view.open()
        links = view.page.locator("#pages a").evaluate_all("all => all.map((one) => one.getAttribute('href'))")
        assert {link.removeprefix("#/") for link in links} >= {"overview", "subscriptions", "users", "plans", "events", "webhooks"}, links
        for link in links:
            view.link(view.page.locator(f"#pages a[href='{link}']").inner_text()).click()
            view.until("link => location.hash === link", link)
            view.ready()
            assert view.page.locator("#pages [aria-current=page]").get_attribute("href") == link
        view.quiet()
    return f"{scheme}, {width} wide"


# Buttons that open no dialog, by the first word of their name.
AT_ONCE = ("CSV", "Apply", "Open", "Pause following", "Refresh", "Show")


def every_dialog(browser, server, scheme, width, all_of_them):
    """Each dialog fits, has no violation of axe, closes by Escape, changes nothing, and gives the focus back."""
    found = addresses(server)
    count = 0
    with opened(browser, server, scheme, width) as view:
        page = view.open()
        names = ["subscription active", "plans", "webhooks"]
        for name in names + ["subscription past_due", "subscription paused", "user", "webhook 0", "providers"] * all_of_them:
            view.step(found[name])
            texts = page.locator("main button").all_inner_texts()
            for index, text in enumerate(texts):
                # The cards of plans are alike.
                if text.startswith(AT_ONCE) or text in texts[:index]:
                    continue
                button = page.locator("main button").nth(index)
                button.click()
                dialog = page.get_by_role("dialog")
                dialog.wait_for()
                view.until("!document.querySelector('dialog [aria-busy=true]')")
                told = (name, text, scheme, width)
                assert dialog.locator("h2").inner_text(), told
                wide = dialog.evaluate("box => [box.scrollWidth, box.clientWidth, document.documentElement.scrollWidth, innerWidth]")
                assert wide[0] <= wide[1] and wide[2] <= wide[3], (told, wide)
                violations = axe.run(page, context="dialog", options=RULES)
                assert violations.violations_count == 0, (told, violations.generate_report())
                page.keyboard.press("Escape")
                dialog.wait_for(state="detached")
                assert button.evaluate("button => button === document.activeElement"), told
                count += 1
        methods = {request.method for request in view.requests if "/preview" not in request.url}
        assert methods == {"GET"}, methods
        view.quiet()
    return f"{count} dialogs, {scheme}, {width} wide"


def the_first_page_has_few_files(browser, server):
    with opened(browser, server) as view:
        view.open()
        begun = time.monotonic()
        view.requests.clear()
        view.open()
        taken = time.monotonic() - begun
        files = [request.url for request in view.requests if "/console/" in request.url]
        assert len(files) <= 12, files
        return f"{taken * 1000:.0f} ms, {len(files)} files"


def a_slow_page(browser, server):
    """A page that comes late neither shows nor names itself over the one that was opened meanwhile, nor takes the focus."""
    with opened(browser, server) as view:
        page = view.open("#/subscriptions")
        held = []
        for pattern in ("**/page-users.js", "**/users?*"):
            page.route(pattern, lambda route: held.append(route))
        let = lambda: [held.pop().continue_() for _ in range(len(held))]
        view.link("Users").click()
        page.get_by_role("status").get_by_text("Loading").wait_for()
        assert page.locator("main[aria-busy=true] table").count() == 0, "the last page is gone"
        view.link("Plans").click()
        page.get_by_role("heading", name="Plans", exact=True).wait_for()
        let()
        view.ready()
        page.wait_for_timeout(200)
        assert (view.heading(), page.title()) == ("Plans", "Plans · Console")
        view.link("Users").click()
        page.get_by_role("heading", name="Users", exact=True).wait_for()
        assert page.evaluate("document.activeElement.id") == "main", "the focus is at the page"
        page.keyboard.press("/")
        page.keyboard.type("some")
        let()
        view.ready()
        assert len(view.rows()) == 50 and page.evaluate("document.activeElement.value") == "some"
        view.quiet()


def under_a_path(browser, server):
    """Behind a proxy that serves it under /billing/, the console asks for nothing else."""
    with opened(browser, server) as view:
        prefix, others = f"{server.base}/billing", []

        def proxy(route):
            url = route.request.url
            if not url.startswith(f"{prefix}/"):
                others.append(url)
            route.continue_(url=url.replace(prefix, server.base))

        view.context.route("**/*", proxy)
        view.page.goto(f"{prefix}/console/#/subscriptions")
        view.ready()
        assert len(view.rows()) == 50
        view.step("#/plans")
        assert others == [], others
        view.quiet()


NONSENSE = [
    "#", "#/", "#//", "#/?", "#nowhere", "#/__proto__", "#/constructor/prototype", "#/overview/more", "#/subscriptions/a/b/c", "#/%", "#/%E0%A4%A", "#/%00",
    "#/subscriptions/%E0%A4%A", "#/subscriptions/..", "#/subscriptions/%2e%2e%2fusers", "#/subscriptions/__proto__", "#/subscriptions/%00", "#/subscriptions/%F0%9F%92%A9",
    "#/users/..%2F..%2Fclock", "#/users/__proto__", "#/plans/x", "#/webhooks/x", "#/webhooks/..", "#/users/%3Cimg%20src=x%20onerror=alert(1)%3E",
    "#/subscriptions?status=nonsense", "#/subscriptions?status=%E0%A4", "#/subscriptions?cursor=nonsense", "#/subscriptions?limit=nonsense&sort=%22", "#/subscriptions?__proto__=1&constructor=2",
    "#/subscriptions?renews_after=nonsense&renews_before=2025-02-30", "#/subscriptions?renews_after=9999999-01-01", "#/users?cursor=x", "#/users?email_starts_with=%00", "#/users?limit=-1",
    "#/events?type=nonsense", "#/events?after=-1", "#/events?cursor=x&subject_id=x", "#/plans?cursor=x&sort=x", "#/webhooks?cursor=x", "#/providers?state=x&cursor=x", "#/overview?months=-1",
    "#/search", "#/search?q=", "#/search?q=%00", "#/search?q=%E0%A4", "#/search?q=@", "#/search?q=__proto__", "#/search?q=..", "#/search?q=%2F", "#/search?q=%3Cscript%3E",
    f"#/{'x' * HUGE}", f"#/subscriptions/{'x' * HUGE}", f"#/subscriptions?status={'x' * HUGE}", f"#/search?q={'x' * HUGE}", f"#/users?email_starts_with={'%25' * 30_000}",
]


def nonsense_after_the_hash(browser, server):
    """Never a blank page, never a fault of the page itself: the server's refusals at most."""
    with opened(browser, server) as view:
        view.open()
        for address in NONSENSE:
            view.step(address)
            where = address[:60]
            assert view.heading().strip(), where
            assert len(view.text().strip()) > len(view.heading()), (where, view.text())
            assert view.page.locator("#pages a").count() > 4, where
            wide = view.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            assert wide[0] <= wide[1], (where, wide)
            view.quiet(400, 404, 414, 422, 431)
        for address in ("#/%E0%A4%A", "#/subscriptions/..", "#/search?q=%00"):
            view.open(address)
            assert view.heading().strip(), address
        # Faster than any of them can be read.
        page = view.page
        for address in NONSENSE[:30]:
            page.evaluate("address => { location.hash = address; }", address)
        page.evaluate("history.go(-15)")
        view.ready()
        page.evaluate("location.hash = '#/subscriptions'")
        page.get_by_role("heading", name="Subscriptions", exact=True).wait_for()
        view.ready()
        assert len(view.rows()) == 50
        view.quiet(400, 404, 414, 422, 431)
