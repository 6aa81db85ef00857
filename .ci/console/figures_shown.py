"""The numbers: recomputed from the export, and as the pages show them."""

import subprocess
import sys
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from harness import opened


def by_another_arithmetic(browser, server):
    """Both answers equal those that .ci/figures.py computes from the exported records."""
    files = []
    for name in ("now", "months"):
        files.append(server.folder / f"{name}.json")
        files[-1].write_text(server.text(f"/stats/{name}"))
    script = Path(__file__).parent.parent / "figures.py"
    done = subprocess.run([sys.executable, "-B", script, server.folder / "export.jsonl", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# The tiles by name; the tables behind the plots by title, as rows of cells.
TILES = """() => Object.fromEntries([...document.querySelectorAll(".tile")].map((tile) =>
    [tile.querySelector("dt").firstChild.textContent.trim(), tile.querySelector("strong").textContent]))"""
TABLES = """() => Object.fromEntries([...document.querySelectorAll("figure")].map((figure) =>
    [figure.querySelector("h2").textContent.trim(), [...figure.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.innerText || cell.textContent))]))"""


def shown(text):
    """The number in `US$9,697.73`, `13` or `2.5%`."""
    return Decimal("".join(char for char in text.split("(")[0] if char.isdigit() or char in ".-"))


def cents(amount):
    return Decimal(str(amount)).quantize(Decimal("0.01"), ROUND_HALF_UP)


def on_the_page(browser, server):
    now, months = server.get("/stats/now"), server.get("/stats/months", months=24)
    (money,) = now["money"]
    with opened(browser, server) as view:
        view.open()
        tiles = view.page.evaluate(TILES)
        assert shown(tiles["MRR"]) == cents(money["mrr"]) > 0, (tiles, money)
        assert shown(tiles["At risk"]) == cents(money["at_risk"]), (tiles, money)
        assert shown(tiles["Not committed"]) == cents(Decimal(str(money["mrr"])) - Decimal(str(money["committed"]))), (tiles, money)
        assert shown(tiles["Paying users"]) == now["paying_users"], (tiles, now)
        assert shown(tiles["On trial"]) == now["subscriptions"]["on_trial"], (tiles, now)
        over = [month for month in months["data"] if month["complete"]][-1]
        (churn,) = (text for name, text in tiles.items() if name.startswith("Churn"))
        assert shown(churn) == cents(Decimal(str(over["churn_rate"])) * 100), (churn, over)

        tables = view.page.evaluate(TABLES)
        for title, check in {
            "MRR by month": lambda cells, month: [cents(month["money"][0][name]) for name in ("mrr", "at_risk")] == [shown(cell) for cell in cells],
            "Users who came": lambda cells, month: [month[name] for name in ("new_users", "returned_users", "churned_users", "paying_users")] == [shown(cell) for cell in cells[:4]],
        }.items():
            (table,) = (cells for name, cells in tables.items() if name.startswith(title))
            assert len(table) > 20, (title, table)
            for (name, *cells), month in zip(reversed(table), reversed(months["data"])):
                assert month["money"] == [] or check(cells, month), (title, name, cells, month)
        assert [shown(cells[1]) for cells in tables["Subscriptions by status"]] == [now["subscriptions"][name.replace(" ", "_")] for name, *_ in tables["Subscriptions by status"]]
        view.step("#/plans")
        (table,) = (cells for name, cells in view.page.evaluate(TABLES).items() if name.startswith("MRR by plan"))
        plans = {f"{plan['name']} ({plan['slug']})": plan for plan in now["plans"] if plan["money"]}
        assert {name: (shown(mrr), int(count)) for name, mrr, count in table} == {name: (cents(plan["money"][0]["mrr"]), plan["subscriptions"]) for name, plan in plans.items()}, (table, plans)
        view.quiet()


FLOWS = [by_another_arithmetic, on_the_page]
