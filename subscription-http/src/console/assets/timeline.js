// The timeline of a subscription: coming steps, past events, and its payments.

import { can, get, has, now } from "./api.js";
import { actor, block, button, code, dayText, el, momentText, money, number, period, pill, planName, soft, time, words } from "./el.js";

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

// The attempts of the newest payments that have failed at least once.
async function attempts(payments, signal) {
    const retried = (await payments()).filter(({ attempt, status }) => attempt > 1 || status === "failed").slice(0, 10);
    const found = retried.map(async ({ id, amount, currency }) => (await pastEvents(id, signal)).filter(({ change }) => change.from)
        .map((event) => item(event.at, {}, `payment of ${money(amount, currency)}: ${eventText(event)}`)));
    return (await Promise.all(found)).flat();
}

const STEPS = {
    ended: "It ends", started: "It starts", plan_changed: "The plan changes", paused: "It pauses", periods_skipped: "Missed periods are skipped",
    period_started: "A new period starts", resumed: "It resumes", lapsed: "It expires, as its first payment is not paid",
    dunning_ended: "If no retry succeeds", payment_retried: "The payment is due again", reminded: "A reminder is sent", corrected: "It is corrected",
};

const item = (at, attributes, ...nodes) => ({ at, node: el("li", attributes, time(at), el("div", {}, ...nodes)) });
const newestFirst = (items) => items.sort((one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : 0)).map(({ node }) => node);

const step = ({ at, step, status, ask }) => item(at, { class: "coming" }, STEPS[step], " ", pill(status),
    ask && el("div", {}, `creates a payment of ${money(ask.amount, ask.currency)}, ${words(ask.kind)} for ${period(ask.period_start, ask.period_end)}`));

// An event in words.
function eventText({ type, change }, plans) {
    const kind = type.split(".")[1];
    switch (kind) {
        case "created": return "Created";
        case "status_changed": return `${words(change.from)} → ${words(change.to)}`;
        // The moment of the next step follows from the other fields.
        case "updated": return `Changed: ${(change.fields ?? []).filter((field) => field !== "next_action_at").map(words).join(", ") || "when it acts next"}`;
        case "period_started": return `A period started: ${period(change.period_start, change.period_end)}`;
        case "periods_skipped": return `${number(change.count)} missed periods were skipped`;
        case "plan_changed": return change.from_plan === change.to_plan ? "The cycle, the price or the quantity changed" : `The plan changed: ${planName(change.from_plan, plans)} → ${planName(change.to_plan, plans)}`;
        case "trial_will_end": return `Announced: the trial ends on ${dayText(change.trial_ends_at)}`;
        case "renewal_upcoming": return `Announced: it renews on ${dayText(change.renews_at)}`;
        default: return words(kind);
    }
}

const happened = (event, plans) => item(event.at, {}, el("strong", {}, eventText(event, plans)), " ", el("span", { class: "soft" }, `by ${actor(event.actor)}`));

const paid = ({ created_at, kind, amount, currency, status, attempt }) =>
    item(created_at, {}, `${kind ? `${words(kind)} ` : ""}payment of ${money(amount, currency)} `, pill(status), attempt > 1 && `, attempt ${attempt}`);

// The timeline as a part of the page.
export function timeline({ view, path, record, plans, payments }) {
    let limit = 4;
    const load = async (signal) => ({
        coming: record.managed_by === "clock" && has("billing") ? await get(`${path}/timeline`, { limit }, signal) : { data: [] },
        events: can("events:read") ? await pastEvents(record.id, signal) : [],
        made: can("payments:read") ? await payments() : [],
        attempts: can("payments:read") && can("events:read") ? await attempts(payments, signal) : [],
    });
    const show = ({ coming, events, made, attempts }, reload) => {
        const later = () => {
            limit = 200;
            reload();
        };
        const ahead = newestFirst(coming.data.reverse().map(step));
        const past = newestFirst([...events.map((event) => happened(event, plans)), ...made.map(paid), ...attempts]);
        const rest = past.splice(AT_ONCE);
        return [
            coming.has_more && limit === 4 && button("Show later steps", later),
            el("ol", { class: "timeline" }, ahead, el("li", { class: "now" }, `Now: ${momentText(now())}`, ahead.length > 0 && ". Above: the coming steps, if every payment is paid."), past),
            rest.length > 0 && el("details", {}, el("summary", {}, `Show more (${number(rest.length)})`), el("ol", { class: "timeline" }, rest)),
            !can("events:read") && soft("Past events need the scope ", code("events:read"), "."),
            events.length >= EVENTS_MAX && soft(`Only the first ${number(EVENTS_MAX)} events are read.`),
        ];
    };
    return block(view, { scope: "subscriptions:read", load, show, name: "the timeline" });
}
