"""The business that the flows are about: two years of it, and none."""

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
        for address in ("#/subscriptions", "#/users", "#/events", "#/webhooks", "#/providers", "#/search?q=x", "#/plans"):
            view.step(address)
            assert len(view.text()) > len(view.heading()) + 10, (address, view.text())
            assert view.button("Try again").count() == 0, (address, view.text())
        dialog = view.choose("New plan")
        for label, text in {"Name": "Pro", "Slug": "No Slug", "Price": "19.90", "Currency": "EUR", "Billing cycle": "monthly"}.items():
            dialog.get_by_label(label, exact=True).fill(text)
        dialog.get_by_role("button", name="Create the plan").click()
        dialog.get_by_role("alert").first.wait_for()
        dialog.get_by_label("Slug", exact=True).fill("pro")
        view.confirm("Create the plan")
        plan = server.get("/subscription-plans/pro")
        assert (plan["name"], plan["price"], plan["currency"]) == ("Pro", "19.90", "EUR"), plan
        ada = server.make("/authentication/sign-up", {"access_token": "any", "email": "ada@example.com"})["user"]
        subscription = server.make("/subscriptions", {"user_id": ada["id"], "subscription_plan_id": plan["id"]})
        (payment,) = server.get(f"/subscriptions/{subscription['id']}/payments")["data"]
        report = lambda status: server.call("PUT", f"/subscription-payments/{payment['id']}", {"status": status})
        assert report("processing")[0] == 200
        # Figures are kept for ten minutes at most.
        server.make("/clock/advance", {"by": "PT11M"})
        view.step("#/overview")
        reported = page.locator("section", has_text="Payments to be reported")
        assert "1, the oldest since" in reported.inner_text(), reported.inner_text()
        assert report("failed")[0] == 200
        view.step(f"#/subscriptions/{subscription['id']}")
        page.locator(".coming", has_text="The payment is due again").first.wait_for()
        server.make("/clock/advance", {"by": "P1D"})
        assert report("succeeded")[0] == 200
        view.step("#/plans")
        assert "No currency" not in view.text(), view.text()
        view.step(f"#/subscriptions/{subscription['id']}")
        for text in ("failed → pending", "pending → succeeded"):
            page.get_by_text(f"payment of €19.90: {text}").wait_for()
        assert page.locator(".coming", has_text="The payment is due again").count() == 0
        server.make("/subscription-plans", {"name": "Free of a clock", "slug": "unbilled", "price": "5.00", "billing_cycle": "monthly"})
        view.step("#/overview")
        view.step("#/plans")
        assert view.text().count("No currency: nothing ends or renews its subscriptions.") == 1, view.text()
        view.step("#/overview")
        assert "None." in reported.inner_text(), reported.inner_text()
        assert page.locator(".tile strong").first.inner_text() == "€19.90", view.text()
        view.quiet(422)
