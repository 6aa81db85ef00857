// One subscription: its state in words, its actions, its timeline and its payments.

import { actionBar } from "./actions.js";
import { all, call, get, href } from "./api.js";
import { code, date, el, link, money, number, outside, p, period, pill, planName, scheduledText, sentence, short, terms, time, words } from "./el.js";
import { allPlans, join } from "./page-subscriptions.js";
import { column, facts, listing, section } from "./table.js";
import { timeline } from "./timeline.js";

export default async function (view) {
    const path = `/subscriptions/${encodeURIComponent(view.id)}`;
    const [{ data: record, etag }, allowed, plans] = await Promise.all([call("GET", path, { signal: view.signal }), get("/console/actions.json", null, view.signal), allPlans(view.signal)]);
    const { users } = await join([record], [], view.signal);
    let payments = null;
    const context = {
        view, path, record, etag, plans, allowed: allowed[record.managed_by][record.status],
        // The payments are read once, and again after an error.
        payments: () => (payments ??= all(`${path}/payments`, view.signal).catch((error) => { payments = null; throw error; })),
    };
    const email = users.get(record.user_id)?.email;
    const state = sentence(record);
    view.title(`Subscription ${email ? `of ${email}` : short(record.id)}`, pill(record.status));
    view.add(
        // The result of an action is shown here.
        el("p", { id: "told", class: "told", role: "status", tabindex: "-1" }),
        section("State",
            p(state[0].toUpperCase(), state.slice(1), "."),
            record.scheduled_change && p(`Scheduled: ${scheduledText(record, plans)}.`),
            record.managed_by === "provider" && p("A payment provider manages this subscription, so it is changed there. ", record.manage_url && outside(record.manage_url, "Manage it at the provider")),
            actionBar(context)),
        section("Details", details(record, plans, email), metadata(record)),
        section("Timeline", timeline(context)),
        section("Payments", listing(view, { path: `${path}/payments`, scope: "payments:read", caption: "Payments", file: `payments-${record.id}`, columns: PAYMENTS, empty: "It has no payments." })),
    );
}

const MANAGERS = { clock: "the clock of this service", caller: "your own code", provider: "a payment provider" };
const DATES = { starts_at: "Starts", trial_ends_at: "Trial ends", renews_at: "Renews", ends_at: "Ends", past_due_since: "Past due since", resumes_at: "Resumes" };

function details(record, plans, email) {
    const off = record.discount;
    const plan = plans.find((plan) => plan.id === record.subscription_plan_id);
    // A subscription that will not renew may still have a renewal date.
    const shown = { ...record, renews_at: ["active", "on_trial", "past_due"].includes(record.status) && !record.ends_at && record.renews_at };
    return facts([
        ["Plan", link(href("plans"), planName(record.subscription_plan_id, plans)), plan?.is_active === false && " (takes no new subscriptions)"],
        ["User", link(href(["users", record.user_id]), email ?? short(record.user_id))],
        ["Price × quantity", terms(record.price === null && plan ? { ...record, price: plan.price, currency: plan.currency } : record)],
        ["Credit", record.credit && money(record.credit, record.currency)],
        ["Discount", off && `${off.percent ? `${off.percent} %` : money(off.amount, record.currency)}, periods left: ${off.periods_left ?? "all"}`],
        ["Access", record.is_active ? "yes" : record.blocked ? "no, blocked" : "no"],
        ["Period", period(record.current_period_start, record.current_period_end)],
        ...Object.entries(DATES).map(([name, term]) => [term, shown[name] && date(shown[name])]),
        ["Managed by", MANAGERS[record.managed_by]],
        ["External id", record.external_subscription_id],
        ["Id", code(record.id)],
        ["Version", number(record.version)],
        ["Created", time(record.created_at)],
        ["Changed", time(record.updated_at)],
    ]);
}

function metadata({ metadata }) {
    const pairs = Object.entries(metadata ?? {});
    return pairs.length > 0 && [el("h3", {}, "Metadata"), facts(pairs)];
}

export const PAYMENTS = [
    column("Created", "created_at", date),
    { name: "Amount", kind: "number", cell: ({ amount, currency }) => money(amount, currency), csv: ({ amount }) => amount },
    column("Currency", "currency"),
    column("Status", "status", pill),
    column("Kind", "kind", words),
    { name: "Period", cell: (row) => period(row.period_start, row.period_end), csv: (row) => row.period_start },
    column("Period end", "period_end"),
    { name: "Attempts", cell: (row) => [row.attempt ?? "–", row.next_attempt_at && [", again on ", date(row.next_attempt_at)]], csv: (row) => row.attempt },
    column("Next attempt", "next_attempt_at"),
    column("External id", "external_payment_id", (id) => id ?? "–"),
    column("Id", "id"),
];
