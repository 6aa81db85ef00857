// One subscription: its state in words, what can be done with it, its timeline and its payments.

import { call, can, get, pages } from "./api.js";
import { actionBar } from "./actions.js";
import { el, link, outside } from "./el.js";
import { allPlans, join } from "./page-subscriptions.js";
import { href } from "./route.js";
import { failure, noPermission } from "./states.js";
import { facts, section } from "./table.js";
import { paymentTable, timeline } from "./timeline.js";
import { date, money, number, period, pill, planName, scheduledText, sentence, short, terms, time } from "./words.js";

export default async function (view) {
    const path = `/subscriptions/${encodeURIComponent(view.id)}`;
    if (!can("subscriptions:read")) return refused(view, noPermission("subscriptions:read"));
    let read;
    try {
        read = await Promise.all([call("GET", path, { signal: view.signal }), get("/console/actions.json", null, view.signal), allPlans(view.signal)]);
    } catch (error) {
        if (view.signal.aborted) throw error;
        return refused(view, failure(error, view.reload), el("p", {}, link(href("subscriptions"), "All subscriptions")));
    }
    const [{ data: record, etag }, allowed, plans] = read;
    const context = { view, path, record, etag, plans, allowed: allowed[record.managed_by]?.[record.status] ?? [] };
    const { users } = await join([record], [], view.signal);
    context.payments = once(async () => {
        const found = [];
        for await (const page of pages(`${path}/payments`, {}, view.signal)) found.push(...page.data);
        return found;
    });
    const email = users.get(record.user_id)?.email;
    view.title(email ? `Subscription of ${email}` : `Subscription ${short(record.id)}`, pill(record.status));
    view.add(
        // The result of an action is told here.
        el("p", { id: "told", class: "told", role: "status", tabindex: "-1" }),
        section("State",
            el("p", {}, capital(sentence(record)), "."),
            record.scheduled_change && el("p", {}, `Scheduled: ${scheduledText(record, plans)}.`),
            record.managed_by === "provider" && el("p", {}, "A payment provider manages this subscription, so it is changed there. ", record.manage_url && outside(record.manage_url, "Manage it at the provider")),
            actionBar(context)),
        section("Details", details(record, plans, email), metadata(record)),
        section("Timeline", timeline(context)),
        section("Payments", paymentTable(context)),
    );
}

function refused(view, ...nodes) {
    view.title("Subscription");
    view.add(section(null, ...nodes));
}

// Loads once; after an error it loads again.
function once(load) {
    let held = null;
    return () => (held ??= load().catch((error) => { held = null; throw error; }));
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const MANAGERS = { clock: "the clock of this service", caller: "your own code", provider: "a payment provider" };

function details(record, plans, email) {
    const plan = plans.find((plan) => plan.id === record.subscription_plan_id);
    const own = record.price === null && plan ? { ...record, price: plan.price, currency: plan.currency } : record;
    const optional = (term, at) => [term, at ? date(at) : undefined];
    return facts([
        ["Plan", link(href("plans"), planName(record.subscription_plan_id, plans)), plan && !plan.is_active && " (takes no new subscriptions)"],
        ["User", link(href(["users", record.user_id]), email ?? short(record.user_id))],
        ["Price × quantity", own.price === null ? "no price" : terms(own), own !== record && " (price of the plan)"],
        ["Credit", record.credit === null ? undefined : money(record.credit, record.currency)],
        ["Access", record.is_active ? "yes" : record.blocked ? "no, blocked" : "no"],
        optional("Starts", record.starts_at),
        ["Period", record.current_period_start ? period(record.current_period_start, record.current_period_end) : undefined],
        optional("Trial ends", record.trial_ends_at),
        optional("Renews", ["active", "on_trial", "past_due"].includes(record.status) && !record.ends_at && record.renews_at),
        optional("Ends", record.ends_at),
        optional("Past due since", record.past_due_since),
        optional("Resumes", record.resumes_at),
        optional("Next step of the clock", record.next_action_at),
        ["Managed by", MANAGERS[record.managed_by] ?? record.managed_by],
        ["External id", record.external_subscription_id ?? undefined],
        ["Id", el("code", {}, record.id)],
        ["Version", number(record.version)],
        ["Created", time(record.created_at)],
        ["Changed", time(record.updated_at)],
    ]);
}

function metadata({ metadata }) {
    const pairs = Object.entries(metadata ?? {});
    return pairs.length ? [el("h3", {}, "Metadata"), facts(pairs)] : null;
}
