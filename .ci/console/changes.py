"""What an operator changes: each change by a dialog, with what has happened meanwhile."""

from business import running
from harness import opened


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
        dialog.get_by_role("alert").filter(has_text="The costs have changed").wait_for()
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


FLOWS = [cancel_and_resume, by_keyboard_alone, change_plan, a_conflict]
