"""Recomputes the figures of a database from its export, by arithmetic of its own, and compares them with the API's answers.

    figures.py EXPORT NOW MONTHS                     compares two saved answers; 1 if one differs
    figures.py EXPORT --print FOLDER --as-of TIME    writes both answers as it computes them (--months N, default 24)

Times are microseconds since 1970, amounts are whole millionths, factors are fractions: nothing is a float.
"""
import argparse
import datetime
import json
import re
import sys
from calendar import monthrange
from collections import Counter, defaultdict
from fractions import Fraction

STATUSES = ["pending", "on_trial", "active", "past_due", "unpaid", "paused", "cancelled", "expired"]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
DAY = 86_400_000_000
MONTHS_OF_CYCLE = {
    "daily": Fraction(12, 365), "weekly": Fraction(84, 365), "biweekly": Fraction(168, 365), "monthly": Fraction(1), "bimonthly": Fraction(2),
    "quarterly": Fraction(3), "semiannual": Fraction(6), "yearly": Fraction(12), "biennial": Fraction(24),
}
MONTHS_OF_UNIT = {"D": Fraction(12, 365), "W": Fraction(84, 365), "M": Fraction(1), "Y": Fraction(12)}


def number(text):
    return Fraction(text)


def loads(text):
    return json.loads(text, parse_float=number, parse_int=number)


def micros(text):
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment - EPOCH) // datetime.timedelta(microseconds=1)


def calendar(at):
    """Year, month, day and the time of day."""
    moment = EPOCH + datetime.timedelta(microseconds=at)
    return moment.year, moment.month, moment.day, at % DAY


def cycle_months(cycle):
    """Months in one cycle, or None for `one_time`."""
    if cycle == "one_time":
        return None
    if cycle in MONTHS_OF_CYCLE:
        return MONTHS_OF_CYCLE[cycle]
    count, unit = re.fullmatch(r"P(\d+)([DWMY])", cycle).groups()
    return int(count) * MONTHS_OF_UNIT[unit]


def millionths(amount):
    """Rounds once, half to even."""
    return round(amount * 1_000_000)


def monthly(amount, months):
    return 0 if months is None else millionths(Fraction(amount) / months)


# The digits of a currency after the point, where they are not two.
DIGITS = {"JPY": 0, "KRW": 0, "CLP": 0, "BHD": 3, "KWD": 3, "TND": 3, "CLF": 4}


def reduction(discount, value, currency, on_trial):
    """What a discount takes off the running period; on trial, off the first paid one."""
    if not discount or not (discount["applied"] or on_trial):
        return 0
    off = discount["off"]
    if "amount" in off:
        return min(number(off["amount"]), value)
    units = 10 ** DIGITS.get(currency, 2)
    return Fraction(round(value * number(off["percent"]) / 100 * units), units)


def period_months(start, end):
    """Months of a period: whole ones if one day of the month leads from its start to its end, else by days."""
    (year, month, day, time), (year2, month2, day2, time2) = calendar(start), calendar(end)
    apart = (year2 - year) * 12 + month2 - month
    last, last2 = monthrange(year, month)[1], monthrange(year2, month2)[1]
    if apart >= 1 and time == time2 and any(min(d, last) == day and min(d, last2) == day2 for d in range(1, 32)):
        return Fraction(apart)
    return Fraction(end - start, DAY) * 12 / 365


def read(path):
    records = defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            entry = loads(line)
            if "record" in entry:
                records[entry["kind"]].append(entry["record"])
            records["last"] = entry.get("kind")
    if records["last"] != "end":
        sys.exit(f"{path} is not complete")
    return records


def counts(subscription, now):
    ends = subscription["ends_at"]
    return subscription["status"] in ("active", "past_due", "cancelled") and micros(subscription["starts_at"]) <= now and (ends is None or now < micros(ends))


def answer_now(records, now):
    plans = {plan["id"]: plan for plan in records["plan"]}
    money = defaultdict(Counter)
    by_plan = {plan: {"subscriptions": 0, "money": Counter()} for plan in plans}
    paying = set()
    with_access = 0
    for subscription in records["subscription"]:
        plan = plans[subscription["subscription_plan_id"]]
        billing = loads(subscription.get("billing") or "{}")
        price = billing.get("price")
        currency = billing.get("currency") or plan["currency"]
        amount = number(plan["price"]) if price is None else number(price)
        value = amount * subscription["quantity"]
        value -= reduction(billing.get("discount"), value, currency, subscription["status"] == "on_trial")
        worth = monthly(value, cycle_months(subscription["billing_cycle"]))
        ends = subscription["ends_at"]
        running = micros(subscription["starts_at"]) <= now and (ends is None or now < micros(ends))
        with_access += running and subscription["status"] in ("on_trial", "active", "past_due", "cancelled") and not subscription["blocked"]
        if subscription["status"] == "on_trial" and ends is None:
            money[currency]["trial"] += worth
        if not counts(subscription, now):
            continue
        of_plan = by_plan[plan["id"]]
        of_plan["subscriptions"] += 1
        of_plan["money"][currency] += worth
        money[currency]["mrr"] += worth
        if subscription["status"] == "past_due":
            money[currency]["at_risk"] += worth
        if ends is None:
            money[currency]["committed"] += worth
        if worth > 0:
            paying.add(subscription["user_id"])
    statuses = Counter(subscription["status"] for subscription in records["subscription"])
    largest = sorted(by_plan, key=lambda plan: (-by_plan[plan]["subscriptions"], plan))
    return {
        "as_of": now,
        "subscriptions": {status: statuses[status] for status in STATUSES},
        "with_access": with_access,
        "blocked": sum(1 for subscription in records["subscription"] if subscription["blocked"]),
        "paying_users": len(paying),
        "money": [{"currency": currency, **{name: Amount(sums[name]) for name in ("mrr", "at_risk", "committed", "trial")}} for currency, sums in in_order(money)],
        "plans": [{
            "id": plan, "slug": plans[plan]["slug"], "name": plans[plan]["name"], "subscriptions": by_plan[plan]["subscriptions"],
            "money": [{"currency": currency, "mrr": Amount(mrr)} for currency, mrr in in_order(by_plan[plan]["money"])],
        } for plan in largest[:200]],
    }


class Amount(int):
    """Millionths."""

    def digits(self):
        whole, rest = divmod(self, 1_000_000)
        return f"{whole}.{rest:06}".rstrip("0").rstrip(".")


def in_order(by_currency):
    return sorted(by_currency.items(), key=lambda pair: (pair[0] is None, pair[0] or ""))


def worth(payment):
    """The monthly amount of a payment that counts in a month, or None."""
    asked, status = payment["asked"], payment["status"]
    start, end = asked.get("period_start"), asked.get("period_end")
    if start is None or end is None or micros(end) <= micros(start):
        return None
    open_ask = asked.get("kind") in ("renewal", "proration") and (status in ("pending", "processing") or status == "failed" and asked.get("next_attempt_at") is not None)
    if status not in ("succeeded", "partially_refunded", "disputed") and not open_ask:
        return None
    if asked.get("value") is not None:
        return monthly(number(asked["value"]), cycle_months(asked["cycle"]))
    if asked.get("kind") == "proration":
        return None
    return monthly(number(payment["amount"]), period_months(micros(start), micros(end)))


def month_ends(first, as_of):
    """The months from `first` to that of `as_of`, each with the moment at its end."""
    year, month, _, _ = calendar(first)
    while True:
        name = f"{year:04}-{month:02}"
        year, month = (year + 1, 1) if month == 12 else (year, month + 1)
        end = micros(f"{year:04}-{month:02}-01T00:00:00Z") - 1
        if end >= as_of:
            # A month whose last microsecond is `as_of` has not ended before it.
            yield name, as_of, False
            return
        yield name, end, True


def answer_months(records, as_of, wanted):
    subscriptions = {subscription["id"]: subscription for subscription in records["subscription"]}
    covers = defaultdict(list)
    paid = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    without_period = 0
    first = as_of
    for payment in records["payment"]:
        payment["asked"] = loads(payment.get("asked") or "{}")
        start = payment["asked"].get("period_start")
        without_period += start is None
        begins = micros(start or payment["created_at"])
        first = min(first, begins)
        sums = paid["%04d-%02d" % calendar(begins)[:2]][payment["currency"], payment["status"]]
        sums[0] += 1
        sums[1] += millionths(number(payment["amount"]))
        value = worth(payment)
        if value is None:
            continue
        subscription = subscriptions.get(payment["subscription_id"])
        end = micros(payment["asked"]["period_end"])
        if subscription is not None and subscription["ends_at"] is not None:
            end = min(end, micros(subscription["ends_at"]))
        user = subscription["user_id"] if subscription is not None else payment["subscription_id"]
        covers[payment["subscription_id"], user].append((payment["id"], begins, end, value, payment["currency"], payment["status"]))
    for newest_first in covers.values():
        newest_first.sort(reverse=True)

    # All months since the first payment, so that a user who returns is told from a new one; and those asked for.
    year, month, _, _ = calendar(as_of)
    ago = year * 12 + month - 1 - wanted
    first = min(first, micros(f"{ago // 12:04}-{ago % 12 + 1:02}-01T00:00:00Z"))
    data, ever, before = [], set(), set()
    for name, at, complete in month_ends(first, as_of):
        money, users = defaultdict(lambda: {"mrr": 0, "at_risk": 0}), Counter()
        for (_, user), newest_first in covers.items():
            for _, begins, end, value, currency, status in newest_first:
                if begins <= at < end:
                    money[currency]["mrr"] += value
                    money[currency]["at_risk"] += value if status == "failed" else 0
                    users[user] += value
                    break
        paying = {user for user, value in users.items() if value > 0}
        churned = before - paying
        data.append({
            "month": name, "complete": complete, "paying_users": len(paying), "new_users": len(paying - ever),
            "returned_users": len((paying & ever) - before), "churned_users": len(churned),
            "churn_rate": Amount(100 * round(Fraction(len(churned), len(before)) * 10_000)) if before else None,
            "money": [{"currency": currency, "mrr": Amount(sums["mrr"]), "at_risk": Amount(sums["at_risk"])} for currency, sums in in_order(money)],
            "payments": [{"currency": currency, "status": status, "count": sums[0], "amount": Amount(sums[1])}
                         for (currency, status), sums in sorted(paid[name].items(), key=lambda pair: (pair[0][0] is None, pair[0][0] or "", pair[0][1]))],
        })
        ever |= paying
        before = paying
    return {"as_of": as_of, "without_period": without_period, "data": data[-wanted:]}


def written(answer):
    """The answer as JSON, its amounts as numbers with their digits."""
    def plain(value):
        if isinstance(value, Amount):
            return f"~{value.digits()}"
        if isinstance(value, dict):
            return {name: plain(part) for name, part in value.items()}
        return [plain(part) for part in value] if isinstance(value, list) else value
    shown = plain(answer) | {"as_of": (EPOCH + datetime.timedelta(microseconds=answer["as_of"])).isoformat(timespec="microseconds").replace("+00:00", "Z")}
    return re.sub(r'"~(-?[\d.]+)"', r"\1", json.dumps(shown))


# Names that tell the entries of a list apart. The order of a list by currency, and entries that are zero, are left to the server.
KEYS = [("month",), ("id",), ("currency", "status"), ("currency",)]


def flat(value, path=""):
    """All numbers and texts of an answer, by their path."""
    if isinstance(value, dict):
        found = {}
        for name, part in value.items():
            found |= flat(part, f"{path}.{name}" if path else name)
        return found
    if isinstance(value, list):
        found = {}
        for entry in value:
            key = next(key for key in KEYS if all(name in entry for name in key))
            of = {name: part for name, part in entry.items() if name not in key}
            found |= {f"{path}[{'/'.join(str(entry[name]) for name in key)}]": "there"} if "month" in key else {}
            found |= flat(of, f"{path}[{'/'.join(str(entry[name]) for name in key)}]")
        return found
    if isinstance(value, Amount):
        return {path: Fraction(value, 1_000_000)}
    return {path: Fraction(value) if isinstance(value, (int, Fraction)) and not isinstance(value, bool) else value}


def differences(name, computed, answer):
    mine, theirs = flat(computed), flat(answer)
    for path in sorted(mine.keys() | theirs.keys()):
        one, other = mine.get(path, 0), theirs.get(path, 0)
        if one != other and path != "as_of":
            yield f"{name} {path}: computed {one if not isinstance(one, Fraction) else float(one)}, answered {other if not isinstance(other, Fraction) else float(other)}"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("export")
    arguments.add_argument("answers", nargs="*", metavar="NOW MONTHS")
    arguments.add_argument("--print", metavar="FOLDER")
    arguments.add_argument("--as-of")
    arguments.add_argument("--months", type=int, default=24)
    given = arguments.parse_args()
    records = read(given.export)
    if given.print:
        as_of = micros(given.as_of)
        for name, answer in (("now", answer_now(records, as_of)), ("months", answer_months(records, as_of, given.months))):
            with open(f"{given.print}/{name}.json", "w", encoding="utf-8") as file:
                file.write(written(answer))
        return
    now, months = (loads(open(path, encoding="utf-8").read()) for path in given.answers)
    found = [
        *differences("now", answer_now(records, micros(now["as_of"])), now),
        *differences("months", answer_months(records, micros(months["as_of"]), len(months["data"])), months),
    ]
    print("\n".join(found) or f"both answers are as computed: {len(flat(now)) + len(flat(months))} values")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
