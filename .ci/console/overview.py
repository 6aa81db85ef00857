"""The figures of the overview, its plots, and the page of plans."""

import csv
import io
import json
import re
import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from harness import opened, sound

# Numbers and texts that the parts of a plot are made of, and what each has to be.
PARTS = """async () => {
    const { columns, cut, labelled, lines, path, ticks } = await import("./plot.js");
    const { minus } = await import("./page-overview.js");
    const chart = { labels: ["a"], series: [{ name: "x", tone: 1, values: ["0"], show: String }] };
    return {
        ticks: [ticks(0), ticks(9297), ticks(1, 0, true), ticks(28, 14, true), ticks(0, 3, true), ticks(0.04), ticks(1e15).at(-1)],
        labelled: [labelled(24, 500, 76), labelled(1, 10), labelled(3, 1000)],
        path: path([[0, 1.26], [2, 3]]),
        cut: [cut("short", 100), cut("x".repeat(4000), 70), cut("abc", 0)],
        minus: [minus("9697.733344", "9179.40001"), minus("1", "1"), minus("0.000001", "0"), minus("170141183460469231731687303715.884105", "0.5")],
        drawn: [lines(chart, 200, "n").height, columns(chart, 200, "n").height],
    };
}"""
WANTED = {
    "ticks": [[0, 1], [0, 5000, 10000], [0, 1], [-20, 0, 20, 40], [-3, -2, -1, 0], [0, 0.01, 0.02, 0.03, 0.04], 1e15],
    "labelled": [[3, 7, 11, 15, 19, 23], [0], [0, 1, 2]],
    "path": "M0 1.3L2 3",
    "cut": ["short", "x" * 9 + "…", "a…"],
    "minus": ["518.333334", "0.000000", "0.000001", "170141183460469231731687303715.384105"],
    "drawn": [220, 220],
}


def parts_of_plots(browser, server):
    with opened(browser, server) as view:
        page = view.open("#/figures")
        assert (found := page.evaluate(PARTS)) == WANTED, found
        view.quiet()


def figures_are_recomputed(browser, server):
    """A script with arithmetic of its own finds the same figures in the exported file, and the page shows them."""
    server.stop()
    exported = server.folder / "figures.jsonl"
    exported.unlink(missing_ok=True)
    server.run(*server.arguments, "export", exported)
    server.start()
    now, months = server.get("/stats/now"), server.get("/stats/months", months=24)
    for name, answer in (("now", now), ("months", months)):
        # Amounts were read as texts, and are numbers again.
        (server.folder / f"{name}.json").write_text(re.sub(r'"(-?\d+\.\d+)"', r"\1", json.dumps(answer)))
    script = Path(__file__).parent.parent / "figures.py"
    done = subprocess.run([sys.executable, script, exported, server.folder / "now.json", server.folder / "months.json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr

    [sums] = now["money"]
    with opened(browser, server, accept_downloads=True) as view:
        page = view.open("#/overview")
        shown = {name.split(",")[0].strip(): value for name, value in zip(page.locator("dt").all_inner_texts(), page.locator("dd strong").all_inner_texts())}
        shown = {re.sub(r"\s*i$", "", name): re.sub(r"[^\d.]", "", value) for name, value in shown.items()}
        wanted = {"MRR": sums["mrr"], "At risk": sums["at_risk"], "Not committed": Decimal(sums["mrr"]) - Decimal(sums["committed"])}
        assert {name: shown[name] for name in wanted} == {name: str(Decimal(amount).quantize(Decimal("0.01"), ROUND_HALF_UP)) for name, amount in wanted.items()}, shown
        assert (shown["Paying users"], shown["On trial"]) == (str(now["paying_users"]), str(now["subscriptions"]["on_trial"])), shown
        rate = [month for month in months["data"] if month["complete"]][-1]["churn_rate"]
        assert Decimal(shown["Churn"]) == Decimal(rate) * 100, (shown, rate)

        def saved(title):
            with page.expect_download() as saved:
                view.button(f"CSV of {title}").click()
            return list(csv.reader(io.StringIO(saved.value.path().read_bytes().decode("utf-8-sig"), newline="")))

        of_month = lambda month: [[month["month"], str(sum_["mrr"]), str(sum_["at_risk"])] for sum_ in month["money"]]
        assert saved("MRR by month, USD") == [["Month", "MRR", "At risk"], *sum(map(of_month, months["data"]), [])]
        users = ["paying_users", "churned_users", "returned_users", "new_users"]
        assert [[int(row[at]) for at in (4, 3, 2, 1)] for row in saved("Users who came and left")[1:]] == [[month[name] for name in users] for month in months["data"]]
        assert saved("Subscriptions by status")[1:] == [[status, str(count)] for status, count in now["subscriptions"].items()]
        head, *rows = saved("Payments by month, USD")
        for month, row in zip(months["data"], rows):
            amounts = {one["status"].replace("_", " "): Decimal(one["amount"]) for one in month["payments"]}
            assert dict(zip(head[1:], map(Decimal, row[1:]))) == {status: amounts.get(status, 0) for status in head[1:]}, row

        # The table of a plot has its months, and a plot says in a sentence what it shows.
        figure = page.locator("figure", has_text="MRR by month")
        figure.get_by_text("As a table").click()
        assert figure.locator("tbody tr").count() == len(months["data"])
        assert "MRR by month from Jul 2023 to Jun" in figure.get_by_role("img").get_attribute("aria-label")
        page.get_by_role("link", name="How churn is counted").click()
        page.get_by_role("heading", name="Churn", exact=True).wait_for()
        view.until("document.activeElement.textContent === 'Churn'")
        view.quiet()
    return done.stdout.strip()


def plans_are_made_and_withdrawn(browser, server):
    with opened(browser, server) as view:
        page = view.open("#/plans")
        dialog = view.choose("New plan")
        for label, text in (("Name", '"><script>'), ("Slug", "Bad Slug"), ("Price", "-1"), ("Billing cycle", "sometimes"), ("Currency", "XXQ")):
            dialog.get_by_label(label, exact=True).fill(text)
        dialog.get_by_role("button", name="Create the plan").click()
        dialog.get_by_text("4 fields are not right").wait_for()
        assert page.locator("[aria-invalid]").count() == 4 and page.evaluate("document.activeElement.name") == "slug"
        view.quiet(422)
        for label, text in (("Slug", "pro"), ("Price", "5.50"), ("Billing cycle", "P18M"), ("Currency", "eur")):
            dialog.get_by_label(label, exact=True).fill(text)
        dialog.get_by_role("button", name="Create the plan").click()
        dialog.get_by_text("has this slug").wait_for()
        assert dialog.get_by_role("link").count() == 0, "the holder of a slug is no subscription"
        dialog.get_by_label("Slug", exact=True).fill("for-18-months")
        view.confirm("Create the plan")
        view.quiet(409)
        plan = server.get("/subscription-plans/for-18-months")
        assert (plan["price"], plan["currency"], plan["billing_cycle"], plan["tier"]) == ("5.50", "EUR", "P18M", 0), plan
        card = page.locator("article", has_text="for-18-months")
        card.get_by_text("every 18 months").wait_for()

        # Somebody else changes the tier meanwhile: the second save writes the price alone.
        card.get_by_role("button", name="Edit").click()
        dialog.get_by_label("Price", exact=True).fill("6.50")
        server.call("PUT", "/subscription-plans/for-18-months", {"tier": 7})
        dialog.get_by_role("button", name="Save").click()
        dialog.get_by_text("Somebody else changed this plan").wait_for()
        assert [row.split() for row in dialog.locator("tbody tr").all_inner_texts()] == [["tier", "0", "7"], ["version", "1", "2"]], dialog.inner_text()
        view.confirm("Save")
        card.get_by_text("€6.50").wait_for()
        plan = server.get("/subscription-plans/for-18-months")
        assert (plan["price"], plan["tier"]) == ("6.50", 7), plan
        view.quiet(412)

        card.get_by_role("button", name="Withdraw").click()
        view.confirm("Withdraw")
        card.get_by_text("withdrawn").wait_for()
        assert not server.get("/subscription-plans/for-18-months")["is_active"]
        card.get_by_role("button", name="Delete").click()
        view.confirm("Delete")
        card.wait_for(state="detached")
        page.get_by_role("button", name="Delete Pro (pro)").click()
        dialog.get_by_role("button", name="Delete").click()
        dialog.get_by_text("Withdraw it instead").wait_for()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        sound(view)
        view.quiet(409)


FLOWS = [parts_of_plots, figures_are_recomputed, plans_are_made_and_withdrawn]
