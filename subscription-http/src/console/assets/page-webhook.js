// One endpoint: its state, its last tries, its parked events, and the calls that manage it.

import { Problem, call, can, isUuid } from "./api.js";
import { dialog, faultsAtFields } from "./dialog.js";
import { button, el, labelled, link } from "./el.js";
import { recordHref } from "./page-events.js";
import { fields, reason, showSecret, state, values } from "./page-webhooks.js";
import { go, href } from "./route.js";
import { block } from "./states.js";
import { download, facts, listing, section, table } from "./table.js";
import { dotted, number, pill, time } from "./words.js";

export default function (view) {
    if (!isUuid(view.id)) throw new Problem({ code: "not_found", detail: "There is no endpoint with this id." }, 404);
    const path = `/webhook-endpoints/${view.id}`;
    view.title("Webhook endpoint");
    const node = block(view, { scope: "webhooks:read", name: "the endpoint", load: (signal) => call("GET", path, { signal }), show: ({ data, etag }) => shown(view, path, data, etag) });
    node.classList.add("page");
    view.add(node);
}

function shown(view, path, endpoint, etag) {
    const { recent, behind, cursor } = endpoint;
    return [section(null,
        facts([
            ["URL", el("code", {}, endpoint.url)], ["Description", endpoint.description || "–"],
            ["State", pill(state(endpoint)), reason(endpoint) && ` ${reason(endpoint)}`],
            ["Since", endpoint.enabled ? (endpoint.stalled_since ? time(endpoint.stalled_since) : undefined) : time(endpoint.disabled_at)],
            ["Types", endpoint.types.join(", ")],
            ["Behind", `${number(behind)} ${behind === 1 ? "event" : "events"}: sent up to ${number(cursor)}`],
            ["Parked, given up", `${number(endpoint.parked)}, ${number(endpoint.given_up)}`],
            ["Last success", time(endpoint.last_success_at)],
            ["Failing since", endpoint.failing_since ? [time(endpoint.failing_since), "; after five days without a success it is disabled"] : undefined],
            ["Next try of a failed event", endpoint.next_attempt_at ? time(endpoint.next_attempt_at) : undefined],
            ["Both secrets sign until", endpoint.previous_secret_until ? time(endpoint.previous_secret_until) : undefined],
            ["Missed", endpoint.missed_up_to === null ? undefined : `Events up to ${number(endpoint.missed_up_to)} were deleted before they were delivered.`],
            ["Made", time(endpoint.created_at)], ["Version", number(endpoint.version)],
        ]),
        el("div", { class: "pager" }, can("webhooks:write") && actions(view, path, endpoint, etag), button("Refresh", view.reload))),
    section("Last tries", recent?.length ? [table("The last 20 tries, newest first", TRIES, recent), el("div", { class: "pager" }, download(view, "webhook-tries", TRIES, () => [{ data: recent }]))]
        : el("p", { class: "state" }, "Nothing was sent yet.")),
    section("Parked events", listing(view, {
        path: `${path}/parked`, scope: "webhooks:read", caption: "Events that failed, in the order of the feed", file: "parked-events", columns: parked(view, path),
        empty: "No event is parked: none failed, or all were accepted since.",
    }))];
}

const outcome = (row) => row && [pill(row.outcome), row.status ? ` ${row.status}` : ""];

const TRIES = [
    { name: "Event", cell: (row) => link(href("events", { before: row.sequence + 1 }), ...dotted(row.type)), csv: (row) => row.type },
    { name: "Outcome", cell: (row) => pill(row.outcome), csv: (row) => row.outcome },
    { name: "Status", kind: "number", cell: (row) => row.status ?? "–", csv: (row) => row.status },
    { name: "Try", kind: "number", cell: (row) => number(row.attempt), csv: (row) => row.attempt },
    { name: "Took", kind: "number", cell: (row) => `${number(row.duration_ms)} ms`, csv: (row) => row.duration_ms },
    { name: "Sequence", kind: "number", cell: (row) => number(row.sequence), csv: (row) => row.sequence },
    { name: "At", cell: (row) => time(row.at), csv: (row) => row.at },
];

const parked = (view, path) => [
    { name: "Event", cell: (row) => (row.event ? link(recordHref(row.event), ...dotted(row.event.type)) : "needs users:read"), csv: (row) => row.event?.type },
    { name: "Sequence", kind: "number", cell: (row) => number(row.sequence), csv: (row) => row.sequence },
    { name: "State", cell: (row) => pill(row.state), csv: (row) => row.state },
    { name: "Tries", kind: "number", cell: (row) => number(row.attempts), csv: (row) => row.attempts },
    { name: "Last outcome", cell: (row) => outcome(row.last) ?? "–", csv: (row) => row.last?.outcome },
    { name: "First failed", cell: (row) => time(row.first_failed_at), csv: (row) => row.first_failed_at },
    { name: "Next try", cell: (row) => time(row.next_attempt_at), csv: (row) => row.next_attempt_at },
    ...(can("webhooks:write") ? [{ name: "Action", cell: (row) => button("Resend", () => resend(view, path, { sequence: row.sequence }, `Event ${number(row.sequence)} is`), { "aria-label": `Resend event ${row.sequence}` }) }] : []),
];

async function resend(view, path, body, subject) {
    const done = await dialog({
        title: "Resend", confirm: "Resend", act: () => call("POST", `${path}/resend`, { body }),
        body: el("p", {}, `${subject} sent at once, with ten new tries. The events of one record keep their order. The receiver may get an event twice, under the same id.`),
    });
    if (done) view.reload();
}

function actions(view, path, endpoint, etag) {
    const { enabled, behind, cursor, parked, given_up } = endpoint;
    const after = async (config) => { if (await dialog(config)) view.reload(); };
    const put = (body) => call("PUT", path, { body, ifMatch: etag });
    const edit = () => after({
        title: "Edit the endpoint", confirm: "Save", explain: faultsAtFields, body: [el("p", {}, "Events that are sent from now on go by these values. Up to 200 events may be sent again."), ...fields(endpoint)], act: (form) => put(values(form)),
    });
    const disable = () => after({
        title: "Disable the endpoint", confirm: "Disable", danger: true, act: () => put({ enabled: false }),
        body: el("p", {}, "Nothing is sent to it from now on. Once it is enabled, it goes on where it stopped, as far as events are still kept."),
    });
    const enable = () => after({
        title: "Enable the endpoint", confirm: "Enable", act: () => put({ enabled: true }),
        body: el("p", {}, `It goes on after event ${number(cursor)}: the feed has ${number(behind)} more since. Those that it asks for are sent now.`),
    });
    const ping = async () => {
        let answer = null;
        const done = await dialog({
            title: "Ping", confirm: "Send a ping", act: async () => { answer = (await call("POST", `${path}/ping`)).data; },
            body: el("p", {}, "One webhook.ping is sent now, which is no event. A success ends a stall. The answer is shown."),
        });
        if (!done) return;
        await dialog({ title: "The answer to the ping", body: el("p", {}, outcome(answer), ` after ${number(answer.duration_ms)} ms`) });
        view.reload();
    };
    const rewind = () => after({
        title: "Rewind", confirm: "Rewind", act: (form) => call("POST", `${path}/rewind`, { body: place(form) }),
        body: [
            el("p", {}, `It was sent events up to ${number(cursor)}; the newest is ${number(cursor + behind)}. Fill in one of the fields: everything after that place is sent, again if it was sent before, under the same ids. A place after ${number(cursor)} leaves events out.`),
            labelled("After the event with the sequence", el("input", { name: "to", type: "number", min: 0, step: 1 })),
            labelled("Or since, in UTC", el("input", { name: "since", type: "datetime-local", step: 1 })),
        ],
    });
    const rotate = async () => {
        let secret = null;
        const done = await dialog({
            title: "Rotate the secret", confirm: "Rotate", act: async (form) => { secret = (await call("POST", `${path}/rotate-secret`, { body: { overlap_hours: Number(new FormData(form).get("hours")) } })).data.secret; },
            body: [
                el("p", {}, "A new secret is made and shown once. While both are valid, each delivery has two signatures. With 0 hours the old secret ends at once: choose it if the secret was stolen."),
                labelled("Hours that the old secret still signs", el("input", { name: "hours", type: "number", min: 0, max: 72, step: 1, required: true, value: "24" })),
            ],
        });
        if (!done) return;
        const shown = showSecret(secret);
        secret = null;
        await shown;
        view.reload();
    };
    const remove = async () => {
        const done = await dialog({
            title: "Delete the endpoint", confirm: "Delete", danger: true, act: () => call("DELETE", path, { ifMatch: etag }),
            body: el("p", {}, "Nothing is sent to it any more, and its state, its parked events and its secret are deleted. This cannot be undone; to stop it for a while, disable it."),
        });
        if (done) go("webhooks");
    };
    return [
        button("Ping", ping), button("Edit", edit), enabled ? button("Disable", disable) : button("Enable", enable),
        parked + given_up > 0 && button("Resend all", () => resend(view, path, { all: true }, `All parked and given-up events (${number(parked + given_up)}) are`)),
        button("Rewind", rewind), button("Rotate secret", rotate), button("Delete", remove),
    ];
}

// The place that a rewind leads to.
function place(form) {
    const { to, since } = Object.fromEntries(new FormData(form));
    if (!to === !since) throw new Problem({ code: "validation_failed", detail: "Fill in one of the two fields." }, 422);
    return to ? { to: Number(to) } : { since: new Date(`${since}Z`).toISOString() };
}
