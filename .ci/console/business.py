"""The flows of an operator, on two years of an invented business."""

import csv
import io

from harness import opened, provider_event


def furnish(server):
    """What the demo has not: an endpoint for webhooks, and events of a payment provider."""
    server.make("/webhook-endpoints", {"url": "https://hooks.invalid/orders", "description": "orders", "types": ["payment.*"]})
    for number in range(3):
        provider_event(server, id=f"evt_{number}", type="customer.subscription.updated", data={"object": {"id": f"sub_{number}", "object": "subscription"}})


def running(server, count, **wanted):
    """Subscriptions that renew, of different plans with a price."""
    found = [one for one in server.all("/subscriptions", status="active")
             if one["renews_at"] and not one["ends_at"] and not one["scheduled_change"] and one["price"] not in (0, "0") and one["billing_cycle"] == "monthly"]
    return found[:count]


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


def cancel_and_resume(browser, server):
    one = running(server, 1)[0]
    with opened(browser, server) as view:
        page = view.open(f"#/subscriptions/{one['id']}")
        dialog = view.choose("Cancel at the period's end")
        assert "ends on" in dialog.inner_text(), dialog.inner_text()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        assert server.get(f"/subscriptions/{one['id']}")["status"] == "active"
        view.choose("Cancel at the period's end")
        view.confirm("Cancel at the period's end")
        page.get_by_text("cancelled, access until").first.wait_for()
        assert server.get(f"/subscriptions/{one['id']}")["status"] == "cancelled"
        events = page.get_by_text("active → cancelled")
        events.first.wait_for()
        assert page.locator(".coming").filter(has_text="It ends").count() == 1, view.text()
        view.choose("Resume")
        view.confirm("Resume")
        page.get_by_text("cancelled → active").first.wait_for()
        assert server.get(f"/subscriptions/{one['id']}")["status"] == "active"
        assert view.button("Cancel at the period's end").count() == 1
        view.quiet()


def reach(page, name):
    """Goes to a control by Tab alone."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate("(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()") == name:
            return
    raise AssertionError(f"Tab does not lead to {name}")


def by_keyboard_alone(browser, server):
    """Search, a subscription, its dialog and the way back, without a mouse."""
    one = running(server, 3)[2]
    path = f"/subscriptions/{one['id']}"
    with opened(browser, server) as view:
        page = view.open("#/subscriptions")
        page.keyboard.press("/")
        page.keyboard.type(one["id"])
        page.keyboard.press("Enter")
        view.until("hash => location.hash === hash || document.querySelector(`main a[href='${hash}']`)", f"#{path}")
        view.ready()
        if not page.url.endswith(path):
            page.locator(f"main a[href='#{path}']").first.focus()
            page.keyboard.press("Enter")
            view.until("hash => location.hash === hash", f"#{path}")
            view.ready()
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip" or page.evaluate("document.querySelector('main').contains(document.activeElement)")
        reach(page, "Pause")
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog")
        dialog.wait_for()
        # The focus stays in the dialog.
        for _ in range(12):
            page.keyboard.press("Tab")
            inside = page.evaluate("document.activeElement === document.body || Boolean(document.activeElement.closest('dialog'))")
            assert inside, page.evaluate("document.activeElement.outerHTML")
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        assert page.evaluate("document.activeElement.textContent") == "Pause", "the focus is back at the button"
        page.keyboard.press("Enter")
        dialog.wait_for()
        reach(page, "Pause")
        page.keyboard.press("Enter")
        dialog.wait_for(state="detached")
        view.ready()
        assert server.get(path)["scheduled_change"], server.get(path)
        reach(page, "Drop the scheduled change")
        page.keyboard.press("Enter")
        dialog.wait_for()
        reach(page, "Drop the scheduled change")
        page.keyboard.press("Enter")
        dialog.wait_for(state="detached")
        view.ready()
        assert server.get(path)["scheduled_change"] is None
        view.quiet()


def change_plan(browser, server):
    """With a quote that is shown, and with a price that changes behind the page's back."""
    one, other = running(server, 2)
    plans = {plan["slug"]: plan for plan in server.all("/subscription-plans")}
    target = max((plan for plan in plans.values() if plan["is_active"] and plan["billing_cycle"] == "monthly" and plan["currency"] == one["currency"]), key=lambda plan: float(plan["price"]))
    with opened(browser, server) as view:
        def quoted(subscription):
            dialog = view.choose("Change plan")
            dialog.get_by_label("Plan", exact=True).select_option(target["id"])
            dialog.get_by_text("To pay now").wait_for()
            view.ready()
            return dialog

        page = view.open(f"#/subscriptions/{one['id']}")
        quoted(one)
        view.confirm("Change plan")
        page.get_by_role("status").filter(has_text="Done:").wait_for()
        assert server.get(f"/subscriptions/{one['id']}")["subscription_plan_id"] == target["id"]
        view.quiet()

        view.open(f"#/subscriptions/{other['id']}")
        dialog = quoted(other)
        server.call("PUT", f"/subscription-plans/{target['slug']}", {"price": "777.70"})
        dialog.get_by_role("button", name="Change plan").click()
        dialog.get_by_role("alert").filter(has_text="It costs something else by now").wait_for()
        assert "777.70" in dialog.inner_text(), dialog.inner_text()
        assert server.get(f"/subscriptions/{other['id']}")["subscription_plan_id"] == other["subscription_plan_id"]
        view.confirm("Change plan")
        after = server.get(f"/subscriptions/{other['id']}")
        assert (after["subscription_plan_id"], after["price"]) == (target["id"], "777.70"), after
        view.quiet(409)
    server.call("PUT", f"/subscription-plans/{target['slug']}", {"price": str(target["price"])})


def a_conflict(browser, server):
    """Somebody else was faster: nothing is done, and both versions are shown."""
    one = running(server, 1)[0]
    path = f"/subscriptions/{one['id']}"
    with opened(browser, server) as view:
        page = view.open(f"#{path}")
        server.call("PUT", path, {"metadata": {"note": "changed meanwhile"}})
        dialog = view.choose("Cancel now")
        dialog.get_by_role("button", name="Cancel now").click()
        dialog.get_by_text("precondition_failed").wait_for()
        assert "changed meanwhile" in dialog.inner_text(), dialog.inner_text()
        assert server.get(path)["status"] == "active"
        dialog.get_by_role("button", name="Reload the page").click()
        dialog.wait_for(state="detached")
        view.ready()
        page.get_by_text("changed meanwhile").wait_for()
        view.quiet(412)


def the_server_stops(browser, server):
    """An error and a way to try again, on pages that were seen and on pages that were not; all is well after a restart."""
    gone = ["ERR_CONNECTION_REFUSED", "failed: "]
    with opened(browser, server) as view:
        page = view.open("#/subscriptions")
        rows = view.rows()
        server.stop()
        try:
            view.link("Users").click()
            page.get_by_role("alert").filter(has_text="The server cannot be reached.").wait_for()
            assert view.page.locator("h1").count() == 1 and page.locator("#pages a").count() > 4
            view.button("Try again").click()
            page.get_by_role("alert").filter(has_text="The server cannot be reached.").wait_for()
            page.go_back()
            view.until("location.hash === '#/subscriptions'")
            page.get_by_role("alert").filter(has_text="The server cannot be reached.").first.wait_for()
        finally:
            server.start()
        view.until("!document.querySelector('main[aria-busy]')")
        while view.button("Try again").count():
            view.button("Try again").first.click()
            view.ready()
        assert view.rows() == rows
        view.quiet(*gone)
        view.link("Users").click()
        page.get_by_role("heading", name="Users", exact=True).wait_for()
        view.ready()
        assert len(view.rows()) == 50 or view.button("Try again").count() == 0, view.text()
        view.quiet(*gone)


def an_empty_store(browser, server):
    """The first page says how to begin, and shows the first figures once there is something."""
    with opened(browser, server) as view:
        page = view.open()
        assert "curl" in view.text() and "demo" in view.text(), view.text()
        for address in ("#/subscriptions", "#/users", "#/plans", "#/events", "#/webhooks", "#/providers", "#/search?q=x"):
            view.step(address)
            assert len(view.text()) > len(view.heading()) + 10, (address, view.text())
        plan = server.make("/subscription-plans", {"name": "Pro", "slug": "pro", "price": "19.90", "billing_cycle": "monthly", "currency": "EUR"})
        ada = server.make("/authentication/sign-up", {"access_token": "any", "email": "ada@example.com"})["user"]
        subscription = server.make("/subscriptions", {"user_id": ada["id"], "subscription_plan_id": plan["id"]})
        server.make("/clock/advance", {"by": "PT11M"})
        payment = server.get(f"/subscriptions/{subscription['id']}/payments")["data"][0]
        status, _ = server.call("PUT", f"/subscription-payments/{payment['id']}", {"status": "succeeded"})
        assert status == 200
        view.open()
        page.get_by_text("€19.90").first.wait_for()
        view.quiet()


FLOWS = [search_by_each_form, filters_stay, to_the_end_of_a_list, files_equal_the_api, cancel_and_resume, by_keyboard_alone, change_plan, a_conflict, the_server_stops]
