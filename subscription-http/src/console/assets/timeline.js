// The timeline of a subscription: coming steps, past events, and its payments.

import { can, get, has, now } from "./api.js";
import { button, code, el } from "./el.js";
import { block, failure } from "./states.js";
import { actor, dayText, momentText, money, number, period, pill, planName, time, words } from "./words.js";

const EVENTS_MAX = 10_000;
const AT_ONCE = 30;

// Events of a record, newest first. The feed is oldest first, so all of them are read.
async function pastEvents(subject_id, signal) {
    const found = [];
    let page;
    do {
        page = await get("/events", { subject_id, limit: 200, after: page?.next_after }, signal);
        found.push(...page.data);
    } while (page.has_more && found.length < EVENTS_MAX);
    return found.reverse();
}

const STEPS = {
    ended: "It ends", started: "It starts", plan_changed: "The plan changes", paused: "It pauses", periods_skipped: "Missed periods are skipped",
    period_started: "A new period starts", resumed: "It resumes", lapsed: "It expires, as its first payment is not paid",
    dunning_ended: "Retries of the payment end", reminded: "An event announces what comes next", corrected: "It is corrected",
};

const soft = (...nodes) => el("p", { class: "soft" }, ...nodes);
const item = (at, attributes, ...nodes) => el("li", attributes, time(at), el("div", {}, ...nodes));
const newestFirst = (one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : 0);

const step = ({ at, step, status, ask }) => item(at, { class: "coming" }, STEPS[step], " ", pill(status),
    ask && el("div", {}, `asks for ${money(ask.amount, ask.currency)}, ${words(ask.kind)} for ${period(ask.period_start, ask.period_end)}`));

const retry = ({ next_attempt_at, amount, currency }) => item(next_attempt_at, { class: "coming" }, `The failed payment of ${money(amount, currency)} is asked for again`);

// Fields that changed, without two that follow from others.
function fieldsText(fields) {
    const own = fields.filter((name) => name !== "next_action_at" && name !== "is_active");
    return (own.length ? own : fields).map(words).join(", ");
}

// An event in words.
function eventText({ type, change }, plans) {
    const kind = type.split(".")[1];
    switch (kind) {
        case "created": return "Created";
        case "status_changed": return `${words(change.from)} → ${words(change.to)}`;
        case "updated": return `Changed: ${fieldsText(change.fields)}`;
        case "period_started": return `A period started: ${period(change.period_start, change.period_end)}`;
        case "periods_skipped": return `${number(change.count)} missed periods were skipped`;
        case "plan_changed": return change.from_plan === change.to_plan ? "The cycle, the price or the quantity changed" : `The plan changed: ${planName(change.from_plan, plans)} → ${planName(change.to_plan, plans)}`;
        case "trial_will_end": return `Announced: the trial ends on ${dayText(change.trial_ends_at)}`;
        case "renewal_upcoming": return `Announced: it renews on ${dayText(change.renews_at)}`;
        default: return words(kind);
    }
}

const paymentLine = ({ kind, amount, currency, status, attempt }) => el("div", {}, `${kind ? `${words(kind)} ` : ""}payment of ${money(amount, currency)} `, pill(status), attempt > 1 && `, attempt ${attempt}`);

const ASKING = ["subscription.created", "subscription.period_started", "subscription.plan_changed"];

// Past events and payments, newest first. A payment that was made with an event stands under it.
function past(events, payments, plans) {
    const items = events.map((event) => ({ at: event.at, event, payments: [] }));
    for (const payment of payments) {
        const beside = items.filter(({ at, event }) => event && at === payment.created_at);
        const item = beside.find(({ event }) => ASKING.includes(event.type)) ?? beside[0];
        if (item) item.payments.push(payment);
        else items.push({ at: payment.created_at, payments: [payment] });
    }
    return items.sort(newestFirst).map(({ at, event, payments }) => item(at, { tabindex: "-1" },
        event && [el("strong", {}, eventText(event, plans)), " ", el("span", { class: "soft" }, `by ${actor(event.actor)}`)],
        payments.map(paymentLine)));
}

// The timeline as a part of the page.
export function timeline({ view, path, record, plans, payments }) {
    const steps = (after, limit) => get(`${path}/timeline`, { after, limit }, view.signal);
    const load = async (signal) => ({
        coming: record.managed_by === "clock" && has("billing") ? await steps(null, 4) : { data: [] },
        events: can("events:read") ? await pastEvents(record.id, signal) : [],
        paid: can("payments:read") ? await payments() : [],
    });
    const show = ({ coming, events, paid }) => {
        const retries = paid.filter(({ status, next_attempt_at }) => status === "failed" && next_attempt_at);
        const ahead = [...coming.data.map((one) => ({ at: one.at, node: step(one) })), ...retries.map((one) => ({ at: one.next_attempt_at, node: retry(one) }))];
        const items = past(events, paid, plans);
        const list = el("ol", { class: "timeline" }, ahead.sort(newestFirst).map(({ node }) => node),
            el("li", { class: "now" }, `Now: ${momentText(now())}`, ahead.length > 0 && ". Above: the coming steps, if every payment is paid."), items.splice(0, AT_ONCE));
        return [
            coming.has_more && laterSteps(list, coming.data.at(-1).at, steps, view),
            list,
            items.length > 0 && earlier(list, items),
            !can("events:read") && soft("Past events need the scope ", code("events:read"), "."),
            events.length >= EVENTS_MAX && soft(`Only the first ${number(EVENTS_MAX)} events are read.`),
        ];
    };
    return block(view, { scope: "subscriptions:read", load, show, name: "the timeline" });
}

// A button that shows more of what is past.
function earlier(list, rest) {
    const name = () => `Show more (${number(rest.length)})`;
    const more = button(name(), () => {
        const next = rest.splice(0, AT_ONCE);
        list.append(...next);
        next[0].focus();
        more.textContent = name();
        more.hidden = !rest.length;
    });
    return more;
}

// A button that reads further steps.
function laterSteps(list, last, steps, view) {
    const more = button("Show later steps", async () => {
        more.disabled = true;
        try {
            const { data, has_more } = await steps(last, 12);
            list.prepend(...data.map(step).reverse());
            last = data.at(-1)?.at;
            if (!has_more) return more.replaceWith(soft("These are all steps of a year."));
        } catch (error) {
            if (!view.signal.aborted) more.after(failure(error));
        }
        more.disabled = false;
        more.focus();
    });
    return more;
}
