// The timeline of a subscription: coming steps, past events, and its payments.

import { can, get, has, now } from "./api.js";
import { button, el } from "./el.js";
import { params } from "./route.js";
import { block } from "./states.js";
import { saveRows, table } from "./table.js";
import { actor, date, dayText, momentText, money, number, period, pill, planName, time, words } from "./words.js";

const EVENTS_MAX = 10_000;
const AT_ONCE = 30;

// Events of a record, newest first. The feed is oldest first, so all of them are read.
async function pastEvents(id, signal) {
    const found = [];
    for (let after; found.length < EVENTS_MAX; ) {
        const page = await get("/events", params({ subject_id: id, limit: 200, after }), signal);
        found.push(...page.data);
        if (page.data.length < 200) break;
        after = page.next_after;
    }
    return found.reverse();
}

const STEPS = {
    ended: "It ends", started: "It starts", plan_changed: "The plan changes", paused: "It pauses", periods_skipped: "Missed periods are skipped",
    period_started: "A new period starts", resumed: "It resumes", lapsed: "It expires, as its first payment is not paid",
    dunning_ended: "Retries of the payment end", reminded: "An event announces what comes next", corrected: "It is corrected",
};

const item = (at, attributes, ...nodes) => el("li", attributes, time(at), el("div", {}, ...nodes));

const step = ({ at, step, status, ask }) => ({ at, node: item(at, { class: "coming" }, STEPS[step] ?? words(step), " ", pill(status),
    ask && el("div", {}, `asks for ${money(ask.amount, ask.currency)}, ${words(ask.kind)} for ${period(ask.period_start, ask.period_end)}`)) });

const again = ({ next_attempt_at: at, amount, currency }) => ({ at, node: item(at, { class: "coming" }, `The failed payment of ${money(amount, currency)} is asked for again`) });

// Fields that changed, without two that follow from others.
function own(fields) {
    const own = fields.filter((name) => name !== "next_action_at" && name !== "is_active");
    return own.length ? own : fields;
}

// An event in words. `plans` name the plans of a change.
export function eventText({ type, change = {} }, plans) {
    const kind = type.split(".")[1] ?? type;
    const said = {
        created: () => "Created",
        deleted: () => "Deleted",
        status_changed: () => `${words(change.from)} → ${words(change.to)}`,
        updated: () => `Changed: ${own(change.fields ?? []).map(words).join(", ")}`,
        period_started: () => `A period started: ${period(change.period_start, change.period_end)}`,
        periods_skipped: () => `${number(change.count)} missed periods were skipped`,
        plan_changed: () => (change.from_plan === change.to_plan ? "The cycle, the price or the quantity changed" : `The plan changed: ${planName(change.from_plan, plans)} → ${planName(change.to_plan, plans)}`),
        trial_will_end: () => `Announced: the trial ends on ${dayText(change.trial_ends_at)}`,
        renewal_upcoming: () => `Announced: it renews on ${dayText(change.renews_at)}`,
    }[kind];
    return said ? said() : words(kind);
}

const paymentLine = (payment) => [`${payment.kind ? `${words(payment.kind)} payment` : "payment"} of ${money(payment.amount, payment.currency)} `, pill(payment.status), payment.attempt > 1 && `, attempt ${payment.attempt}`];

// Past events and payments, newest first. A payment that was made with an event stands under it.
function past(events, payments, plans) {
    const items = events.map((event) => ({ at: event.at, event, payments: [] }));
    const rank = ({ event }) => ["subscription.created", "subscription.period_started", "subscription.plan_changed"].includes(event.type);
    for (const payment of payments) {
        const beside = items.filter(({ at, event }) => event && at === payment.created_at);
        const item = beside.find(rank) ?? beside[0];
        if (item) item.payments.push(payment);
        else items.push({ at: payment.created_at, payments: [payment] });
    }
    items.sort((a, b) => (a.at < b.at ? 1 : a.at > b.at ? -1 : 0));
    return items.map(({ at, event, payments }) => item(at, { tabindex: "-1" },
        event && [el("strong", {}, eventText(event, plans)), " ", el("span", { class: "soft" }, `by ${actor(event.actor)}`)],
        payments.map((payment) => el("div", {}, paymentLine(payment)))));
}

// A button that shows more of `rest`; `put(nodes)` adds them. The focus goes to the first of them.
function showMore(rest, put) {
    const more = button(`Show more (${number(rest.length)})`, () => {
        const next = rest.splice(0, AT_ONCE);
        put(next);
        next[0].focus();
        if (rest.length) more.textContent = `Show more (${number(rest.length)})`;
        else more.remove();
    });
    return rest.length ? more : null;
}

// The timeline as a part of the page.
export function timeline({ view, path, record, plans, payments }) {
    const runs = record.managed_by === "clock" && has("billing");
    const steps = (after, limit, signal) => get(`${path}/timeline`, params({ after, limit }), signal);
    const load = async (signal) => ({
        coming: runs ? await steps(null, 4, signal) : { data: [] },
        events: can("events:read") ? await pastEvents(record.id, signal) : [],
        paid: can("payments:read") ? await payments() : [],
    });
    const show = ({ coming, events, paid }) => {
        const list = el("ol", { class: "timeline" });
        const retries = paid.filter((payment) => payment.status === "failed" && payment.next_attempt_at);
        const ahead = [...coming.data.map(step), ...retries.map(again)];
        ahead.sort((a, b) => (a.at < b.at ? 1 : -1));
        const items = past(events, paid, plans);
        if (!ahead.length && !items.length && can("events:read")) return null;
        list.append(...ahead.map(({ node }) => node), el("li", { class: "now" }, `Now: ${momentText(now())}`, ahead.length ? ". Above: the coming steps, if every payment is paid." : ""), ...items.splice(0, AT_ONCE));
        return [
            coming.has_more && laterSteps(list, coming.data.at(-1).at, steps, view),
            list,
            showMore(items, (nodes) => list.append(...nodes)),
            !can("events:read") && el("p", { class: "soft" }, "Your key does not show past events: the scope ", el("code", {}, "events:read"), " is missing."),
            events.length >= EVENTS_MAX && el("p", { class: "soft" }, `Only the first ${number(EVENTS_MAX)} events are read.`),
        ];
    };
    return block(view, { scope: "subscriptions:read", load, show, empty: "Nothing has happened, and nothing will happen by itself.", name: "the timeline" });
}

// A button that reads further steps.
function laterSteps(list, after, steps, view) {
    let last = after;
    const more = button("Show later steps", async () => {
        more.disabled = true;
        try {
            const page = await steps(last, 12, view.signal);
            list.prepend(...page.data.map(step).reverse().map(({ node }) => node));
            last = page.data.at(-1)?.at ?? last;
            more.disabled = false;
            if (page.has_more && page.data.length) more.focus();
            else more.replaceWith(el("p", { class: "soft" }, "These are all steps of a year."));
        } catch (error) {
            if (!view.signal.aborted) more.replaceWith(el("p", { class: "error", role: "alert" }, error.message));
        }
    });
    return more;
}

const columns = [
    { name: "Created", cell: (row) => date(row.created_at), csv: (row) => row.created_at },
    { name: "Amount", kind: "number", cell: (row) => money(row.amount, row.currency), csv: (row) => row.amount },
    { name: "Currency", csv: (row) => row.currency },
    { name: "Status", cell: (row) => pill(row.status), csv: (row) => row.status },
    { name: "Kind", cell: (row) => (row.kind ? words(row.kind) : "–"), csv: (row) => row.kind },
    { name: "Period", cell: (row) => (row.period_start ? period(row.period_start, row.period_end) : "–"), csv: (row) => row.period_start },
    { name: "Period end", csv: (row) => row.period_end },
    { name: "Attempts", cell: (row) => [row.attempt ?? "–", row.next_attempt_at && [", again on ", date(row.next_attempt_at)]], csv: (row) => row.attempt },
    { name: "Next attempt", csv: (row) => row.next_attempt_at },
    { name: "External id", cell: (row) => row.external_payment_id ?? "–", csv: (row) => row.external_payment_id },
    { name: "Id", csv: (row) => row.id },
];

// The payments as a table.
export function paymentTable({ view, record, payments }) {
    const show = (rows) => {
        if (!rows.length) return null;
        const rest = rows.slice(AT_ONCE);
        const shown = table("Payments, newest first", columns, rows.slice(0, AT_ONCE));
        const put = (next) => shown.tBodies[0].append(...next);
        const lines = rest.length ? [...table("", columns, rest).tBodies[0].rows] : [];
        for (const line of lines) line.tabIndex = -1;
        return [shown, el("div", { class: "pager" }, showMore(lines, put), saveRows(`payments-${record.id}`, () => [columns.map(({ name }) => name), ...rows.map((row) => columns.map(({ csv }) => csv(row)))]))];
    };
    return block(view, { scope: "payments:read", load: payments, show, empty: "It has no payments.", name: "payments" });
}
