#!/usr/bin/env python3
"""Computes the amounts of the clock once more from an export, by arithmetic of its own, and compares them.

    amounts.py EXPORT                       checks the lines of every payment in an export
    amounts.py EXPORT TIMELINES             also compares saved timelines: {subscription: answer of .../timeline}
    amounts.py --drive PROGRAM [SEED]       lets a server live a year with discounts and changes of plan, and checks that

Amounts are decimals and months are those of python-dateutil: nothing is a float. It knows neither pauses nor periods that
a change of plan or a late payment starts: subscriptions that had one are checked only line by line.
"""
import datetime
import json
import random
import re
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Decimal, getcontext
from itertools import zip_longest
from pathlib import Path

from dateutil.relativedelta import relativedelta

getcontext().prec = 60
DIGITS = {"JPY": 0, "BHD": 3, "USD": 2, "EUR": 2}
SIGNS = {"period": 1, "change": 1, "discount": -1, "unused": -1, "balance": -1}
NAMED = {
    "daily": {"days": 1}, "weekly": {"weeks": 1}, "biweekly": {"weeks": 2}, "monthly": {"months": 1},
    "bimonthly": {"months": 2}, "quarterly": {"months": 3}, "semiannual": {"months": 6}, "yearly": {"years": 1},
    "biennial": {"years": 2},
}
UNITS = {"D": "days", "W": "weeks", "M": "months", "Y": "years"}


def loads(text):
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def rounded(exact, currency):
    return exact.quantize(Decimal(1).scaleb(-DIGITS[currency]), ROUND_HALF_EVEN)


def cycle_of(cycle):
    """The unit and the count of a billing cycle."""
    if cycle in NAMED:
        return NAMED[cycle]
    count, unit = re.fullmatch(r"P(\d+)([DWMY])", cycle).groups()
    return {UNITS[unit]: int(count)}


def start_of(anchor, cycle, number):
    """The start of a period, counted from the anchor: the 31st stays the 31st where a month has one."""
    return anchor + relativedelta(**{unit: count * number for unit, count in cycle_of(cycle).items()})


def reduction(off, gross, currency):
    if off is None:
        return Decimal(0)
    if "percent" in off:
        return rounded(gross * off["percent"] / 100, currency)
    return min(off["amount"], gross)


def read(path):
    records = defaultdict(list)
    last = None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            entry = loads(line)
            last = entry.get("kind")
            if "record" in entry:
                records[last].append(entry["record"])
    if last != "end":
        sys.exit(f"{path} is not complete")
    return records


def embedded(record, field):
    """A field that is stored as the text of a JSON object."""
    value = record.get(field)
    return loads(value) if isinstance(value, str) else value


class Faults(list):
    def check(self, holds, message):
        if not holds:
            self.append(message)


def shown_lines(basis):
    """The lines of a payment. A single line, the period at the price of one unit, is not stored."""
    return basis.get("lines") or [{"kind": "period", "amount": basis["price"]}]


def check_payment(payment, asked, before, faults):
    """Checks the lines of one payment. `before` is the payment for the running period, if it is known."""
    basis = asked["basis"]
    currency = payment["currency"]
    lines = {line["kind"]: line["amount"] for line in shown_lines(basis)}
    gross = rounded(basis["price"] * basis.get("quantity", 1), currency)
    off = reduction(basis.get("discount"), gross, currency)
    value = gross - off
    where = f"payment {payment['id']} {lines}"
    faults.check(sum(SIGNS[kind] * amount for kind, amount in lines.items()) == Decimal(payment["amount"]), f"{where}: not {payment['amount']}")
    faults.check(all(amount >= 0 for amount in lines.values()), f"{where}: a line below 0")
    faults.check(asked["value"] == value, f"{where}: value {asked['value']}, not {value}")
    if "period" in lines:
        faults.check(lines["period"] == gross, f"{where}: period, not {gross}")
        faults.check(lines.get("discount", 0) == off, f"{where}: discount, not {off}")
        return
    if before is None:
        return
    end = moment(asked["period_end"])
    whole = Decimal((end - moment(before["period_start"])).total_seconds() // 1)
    # Whole seconds are left: a part of a second is not.
    left = Decimal((end - moment(asked["period_start"])) // datetime.timedelta(seconds=1))

    def part(amount):
        return rounded(amount * left / whole, currency)

    faults.check(lines["change"] == part(gross), f"{where}: change, not {part(gross)}")
    faults.check(lines.get("discount", 0) == part(gross) - part(value), f"{where}: discount, not {part(gross) - part(value)}")
    if before["known"]:
        faults.check(lines.get("unused", 0) == part(before["value"]), f"{where}: unused, not {part(before['value'])}")


def check_payments(records, faults):
    """Checks every payment with a basis; returns how many."""
    by_subscription = defaultdict(list)
    for payment in records["payment"]:
        asked = embedded(payment, "asked")
        if asked and asked.get("basis"):
            by_subscription[payment["subscription_id"]].append((moment(asked["period_start"]), payment, asked))
    changes = defaultdict(list)
    for event in records["event"]:
        if event["change"]["change"] == "plan_changed":
            changes[event["subject"]["id"]].append(moment(event["at"]))
    count = 0
    for subscription, payments in by_subscription.items():
        before = None
        for start, payment, asked in sorted(payments, key=lambda it: (it[0], it[1]["id"])):
            count += 1
            starts = any(line["kind"] == "period" for line in shown_lines(asked["basis"]))
            # A change without a payment, such as one to fewer seats, leaves no trace among the payments.
            if before and not starts:
                between = [at for at in changes[subscription] if before["at"] < at < start]
                before["known"] = before["known"] and not between and before["period_end"] == asked["period_end"]
                if before["period_end"] != asked["period_end"]:
                    before = None
            check_payment(payment, asked, None if starts else before, faults)
            period_start = asked["period_start"] if starts or before is None else before["period_start"]
            known = payment["status"] == "succeeded" and (starts or before is not None)
            before = {"at": start, "period_start": period_start, "period_end": asked["period_end"], "value": asked["value"], "known": known}
            if not starts and period_start == asked["period_start"]:
                before = None
    return count


def ahead(subscription, billing, until):
    """The payments that the clock will create, with their lines, if every payment is made."""
    cycle = subscription["billing_cycle"]
    currency = billing["currency"]
    anchor = moment(subscription.get("anchor_at") or subscription["starts_at"])
    ends_at = subscription["ends_at"] and moment(subscription["ends_at"])
    credit = billing["credit"]
    discount = billing.get("discount")
    used = discount["used"] if discount else 0
    start = moment(subscription["renews_at"])
    number = 0
    while start_of(anchor, cycle, number) < start:
        number += 1
    if start_of(anchor, cycle, number) != start:
        return
    while start <= until and (ends_at is None or start < ends_at):
        gross = rounded(billing["price"] * subscription["quantity"], currency)
        periods = discount and discount["periods"]
        off = discount["off"] if discount and (periods is None or used < periods) else None
        taken = reduction(off, gross, currency)
        used += taken > 0
        balance = min(credit, gross - taken)
        credit -= balance
        lines = {"period": gross, "discount": taken, "balance": balance}
        if gross - taken - balance > 0:
            yield start, gross - taken - balance, {kind: amount for kind, amount in lines.items() if amount or kind == "period"}
        number += 1
        start = start_of(anchor, cycle, number)


def check_timelines(records, timelines, faults):
    """Compares the payments ahead with saved timelines; returns how many were compared."""
    count = 0
    for subscription in records["subscription"]:
        timeline = timelines.get(subscription["id"])
        billing = embedded(subscription, "billing")
        is_plain = subscription["status"] == "active" and billing and not billing.get("scheduled_change") and subscription["renews_at"]
        if not timeline or not is_plain or subscription["billing_cycle"] == "one_time":
            continue
        asked = [(moment(step["ask"]["period_start"]), step["ask"]["amount"]) for step in timeline["data"] if step.get("ask")]
        if not asked:
            continue
        expected = [(start, amount) for start, amount, _ in ahead(subscription, billing, asked[-1][0])]
        count += len(expected)
        for found, right in zip_longest(asked, expected):
            if found != right:
                faults.append(f"subscription {subscription['id']}: {found}, not {right}")
                break
    return count


def check(export, timelines):
    records = read(export)
    faults = Faults()
    payments = check_payments(records, faults)
    compared = check_timelines(records, timelines, faults)
    for fault in faults[:20]:
        print(fault, file=sys.stderr)
    reduced = sum('"discount"' in json.dumps(embedded(payment, "asked"), default=str) for payment in records["payment"])
    print(f"{payments} payments ({reduced} with a discount), {compared} payments ahead, {len(faults)} faults")
    return not faults and payments > 0


class Server:
    """The program with a database in a folder and a clock that is turned."""

    def __init__(self, program, folder):
        self.program = program
        self.folder = folder
        self.database = f"sqlite://{folder / 'amounts.db'}"
        command = [program, "--listen", "127.0.0.1:0", "--database", self.database, "--clock", "manual", "--clock-at", "2026-01-31T00:00:00Z", "--log", "error"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.base = line.removeprefix("listening on ").strip()

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"client-id": "oracle", "content-type": "application/json"}
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as response:
                text = response.read()
                return response.status, loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, loads(error.read())

    def made(self, path, body):
        status, record = self.call("POST", path, body)
        assert status in (200, 201), (path, body, record)
        return record

    def advance(self, days):
        while not self.made("/clock/advance", {"by": f"P{days}D", "payments": "succeed"})["done"]:
            days = 0

    def export(self):
        self.process.terminate()
        assert self.process.wait(30) == 0
        path = self.folder / "export.jsonl"
        subprocess.run([self.program, "--database", self.database, "--clock", "manual", "export", path], check=True, capture_output=True)
        return path


PLANS = [("10.00", "monthly", "USD"), ("29.99", "monthly", "USD"), ("7", "weekly", "USD"), ("1000", "monthly", "JPY"), ("4.550", "P10D", "BHD")]


def random_discount(chance):
    periods = chance.choice([None, 1, 2, 3, 6])
    if chance.random() < 0.6:
        return {"percent": str(Decimal(chance.randrange(1, 10_001)) / 100), "periods": periods}
    return {"amount": str(chance.randrange(1, 30)), "periods": periods}


def drive(program, seed):
    chance = random.Random(seed)
    print(f"seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        server = Server(program, Path(folder))
        plans = []
        for number, (price, cycle, currency) in enumerate(PLANS):
            body = {"name": f"Plan {number}", "slug": f"plan-{number}", "price": price, "billing_cycle": cycle, "currency": currency}
            plans.append(server.made("/subscription-plans", body)["id"])
        held = []
        for number in range(40):
            user = server.made("/authentication/sign-up", {"access_token": f"t{number}", "email": f"u{number}@example.com"})["auth_id"]
            body = {"user_id": user, "subscription_plan_id": chance.choice(plans), "quantity": chance.randrange(1, 6)}
            if chance.random() < 0.6:
                body["discount"] = random_discount(chance)
            if chance.random() < 0.3:
                body["credit"] = str(chance.randrange(0, 60))
            held.append(server.made("/subscriptions", body)["id"])
        for _ in range(60):
            server.advance(chance.randrange(1, 9))
            for subscription in chance.sample(held, 8):
                path = f"/subscriptions/{subscription}"
                act = chance.randrange(8)
                if act < 2:
                    server.call("POST", f"{path}/discount", random_discount(chance))
                elif act == 2:
                    server.call("DELETE", f"{path}/discount")
                elif act < 6:
                    server.call("POST", f"{path}/change-plan", {"quantity": chance.randrange(1, 9)})
                elif act == 6:
                    server.call("POST", f"{path}/change-plan", {"subscription_plan_id": chance.choice(plans)})
                else:
                    server.call("PUT", path, {"price": str(chance.randrange(0, 40))})
        server.advance(1)
        timelines = {}
        for subscription in held:
            status, timeline = server.call("GET", f"/subscriptions/{subscription}/timeline?limit=60")
            if status == 200:
                timelines[subscription] = timeline
        return check(server.export(), timelines)


def main(arguments):
    if arguments[:1] == ["--drive"]:
        seed = int(arguments[2]) if len(arguments) > 2 else random.randrange(10**6)
        return drive(Path(arguments[1]).resolve(), seed)
    timelines = loads(Path(arguments[1]).read_text()) if len(arguments) > 1 else {}
    return check(arguments[0], timelines)


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:]))
