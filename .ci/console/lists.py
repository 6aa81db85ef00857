"""Search, filters, pages and files of lists."""

import csv
import io

from business import running
from harness import opened


def search_by_each_form(browser, server):
    """An id of a subscription, a user or a payment, the beginning of an address, an id of another system, a slug."""
    one = running(server, 1)[0]
    user = server.get(f"/users/{one['user_id']}")
    payment = server.get(f"/subscriptions/{one['id']}/payments")["data"][0]
    server.call("PUT", f"/subscriptions/{one['id']}", {"external_subscription_id": "order 17/ä&b"})
    path = f"#/subscriptions/{one['id']}"
    forms = {one["id"]: path, one["id"].upper(): path, user["id"]: f"#/users/{user['id']}", payment["id"]: path, user["email"]: f"#/users/{user['id']}",
             f"  {user['email'][:-3]} ": f"#/users/{user['id']}", "order 17/ä&b": path, "starter": "#/plans"}
    with opened(browser, server) as view:
        page = view.open()
        for text, wanted in forms.items():
            page.keyboard.press("/")
            box = page.get_by_role("searchbox", name="Search")
            box.fill(text)
            page.keyboard.press("Enter")
            view.until("hash => location.hash.startsWith(hash) || document.querySelector(`main a[href^='${hash}']`)", wanted)
            view.ready()
            page.evaluate("document.activeElement.blur()")
        for nothing in ("nothing-like-this", "00000000-0000-7000-8000-000000000000", "nobody@nowhere.example"):
            view.step(f"#/search?q={nothing}")
            assert nothing in view.text() and "Nothing" in view.text(), view.text()
        view.quiet(404)


def filters_stay(browser, server):
    """Filter, reload, and a link that is shared: the same rows. The focus stays on the filter."""
    with opened(browser, server) as view:
        page = view.open("#/subscriptions")
        for status in ("past due", "paused"):
            page.get_by_label(status, exact=True).check()
            view.until("name => location.hash.includes(name)", status.replace(" ", "_"))
            view.ready()
            assert page.evaluate("document.activeElement.id") == f"filter-status-{status.replace(' ', '_')}"
        wanted = server.all("/subscriptions", status=["past_due", "paused"])
        before = view.rows()
        assert len(before) == len(wanted) > 3, (len(before), len(wanted))
        page.reload()
        view.ready()
        assert view.rows() == before
        page.go_back()
        view.until("!location.hash.includes('paused')")
        view.ready()
        assert set(view.rows()) < set(before) and page.get_by_label("past due", exact=True).is_checked()
        page.go_forward()
        view.until("location.hash.includes('paused')")
        view.ready()
        assert view.rows() == before
        page.get_by_label("Renews before").fill("2025-07-08")
        page.get_by_label("Renews from").fill("2025-07-01")
        page.get_by_role("button", name="Apply").click()
        view.until("location.hash.includes('renews_before=2025-07-08')")
        view.ready()
        query = {name: value for name, value in [pair.split("=") for pair in page.url.split("?")[1].split("&")]}
        dates = {name: f"{query.pop(name)}T00:00:00Z" for name in ("renews_before", "renews_after")}
        wanted = server.all("/subscriptions", **query, **dates)
        assert len(view.rows()) == min(50, len(wanted)), (len(view.rows()), len(wanted))
        view.quiet()


def to_the_end_of_a_list(browser, server):
    """*Older* to the end meets each record once, and *Newer* leads back over the same pages."""
    with opened(browser, server) as view:
        page = view.open("#/subscriptions?status=active")
        ids = lambda: page.locator("main tbody tr a:first-child").evaluate_all("all => [...new Set(all.map((one) => one.getAttribute('href')).filter((href) => /^#.subscriptions/.test(href)))]")
        met = [ids()]
        while view.link("Older").count():
            before = page.url
            view.link("Older").click()
            view.until("before => location.href !== before", before)
            view.ready()
            met.append(ids())
        wanted = [f"#/subscriptions/{one['id']}" for one in server.all("/subscriptions", status="active")]
        assert sum(met, []) == wanted and len(met) > 3, (len(sum(met, [])), len(wanted))
        for expected in reversed(met[:-1]):
            before = page.url
            view.link("Newer").click()
            view.until("before => location.href !== before", before)
            view.ready()
            assert ids() == expected
        view.quiet()


def files_equal_the_api(browser, server):
    """The CSV of a list that is filtered has what the API has, in its order."""
    with opened(browser, server, accept_downloads=True) as view:
        page = view.open("#/subscriptions?status=cancelled&status=active")
        with page.expect_download() as saved:
            view.button("CSV").click()
        text = saved.value.path().read_bytes().decode("utf-8-sig")
        assert text.count("\r\n") == text.count("\n"), "RFC 4180"
        head, *rows = csv.reader(io.StringIO(text, newline=""))
        users = {one["id"]: one["email"] for one in server.all("/users")}
        plans = {one["id"]: one["name"] for one in server.all("/subscription-plans")}
        wanted = server.all("/subscriptions", status=["cancelled", "active"])
        assert len(rows) == len(wanted) > 200, (len(rows), len(wanted))
        column = {name: index for index, name in enumerate(head)}
        for row, one in zip(rows, wanted):
            told = [row[column[name]] for name in ("User", "Status", "Plan", "Cycle", "Renews or ends", "Since")]
            assert told == [users[one["user_id"]], one["status"], plans[one["subscription_plan_id"]], one["billing_cycle"], one["ends_at"] or one["renews_at"] or "", one["starts_at"]], (told, one)
        view.quiet()


def the_feed_follows(browser, server):
    """New events appear by themselves; paused, they do not; a page that is left asks no more."""
    with opened(browser, server) as view:
        page = view.open("#/events")
        plan = lambda slug: server.make("/subscription-plans", {"name": slug, "slug": slug, "price": "1", "billing_cycle": "monthly"})["id"]
        seen = plan("seen-at-once")
        view.until("id => document.querySelector('main tbody').innerHTML.includes(id)", seen)
        view.button("Pause following").click()
        unseen = plan("seen-later")
        page.wait_for_timeout(300)
        assert unseen not in page.content()
        view.button("Follow again").click()
        view.until("id => document.querySelector('main tbody').innerHTML.includes(id)", unseen)
        view.step("#/plans")
        view.requests.clear()
        page.wait_for_timeout(300)
        assert [request.url for request in view.requests] == []
        for slug in ("seen-at-once", "seen-later"):
            server.call("DELETE", f"/subscription-plans/{slug}")
        view.quiet()


FLOWS = [search_by_each_form, filters_stay, to_the_end_of_a_list, files_equal_the_api, the_feed_follows]
