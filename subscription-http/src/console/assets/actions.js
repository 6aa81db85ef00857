// The actions on a subscription. The dialog of an action says what will happen. Its request has the version of the record that was seen, and is done once.

import { can, has, now } from "./api.js";
import { ask, once, result } from "./dialog.js";
import { button, dayText, el, input, labelled, money, p, period, scheduledText, select, sentence, terms } from "./el.js";
import { planChange } from "./plan-change.js";

// True if the time is in the future. False also for a time that is not set.
const isAhead = (at) => Date.parse(at) > now();

// The end of a subscription that is cancelled at the period's end; null if it ends at once.
function endOf({ managed_by, renews_at, ends_at }) {
    const end = ends_at && (managed_by === "caller" || !renews_at || ends_at < renews_at) ? ends_at : renews_at;
    return isAhead(end) ? end : null;
}

// An action: its `name`, whether it `fits` a record, the texts of its dialog (`says`), and its request (`method`, `end` of the path, `body`).
const ACTIONS = {
    resume: {
        name: "Resume", end: "/resume", body: () => ({}), fits: ({ status, ends_at, past_due_since }) => status === "paused" || (status === "cancelled" && !past_due_since && (!ends_at || isAhead(ends_at))),
        says: ({ record }) => [
            record.status === "paused" ? "The pause ends now, and access begins." : "The cancellation is undone.",
            record.managed_by === "clock" && record.renews_at && `${isAhead(record.renews_at) ? `It renews on ${dayText(record.renews_at)}` : "A new period starts now, with its payment"}: ${terms(record)}.`,
        ],
    },
    change_plan: { name: "Change plan", open: planChange },
    pause: {
        name: "Pause", end: "/pause",
        says: ({ record }) => [record.status === "paused" ? "It is paused already. Here its end is set." : "There is no access until it resumes. The rest of a period is not given back."],
        fields: ({ record }) => {
            const starts = [["now", "now"]];
            const isPaused = record.status === "paused" && record.managed_by === "clock";
            if (record.managed_by === "clock" && record.status !== "paused" && isAhead(record.renews_at)) starts.unshift(["period_end", `when the period ends, on ${dayText(record.renews_at)}`]);
            return [
                labelled("It pauses", select("effective", starts)),
                input("Until", { type: "date", name: "until", required: isPaused, value: record.resumes_at?.slice(0, 10) ?? "" }, `The day on which it resumes, in UTC.${isPaused ? "" : " Empty: until somebody resumes it."}`),
            ];
        },
        body: ({ effective, until }) => ({ effective: effective.value, ...(until.value && { resumes_at: `${until.value}T00:00:00Z` }) }),
    },
    drop_scheduled_change: {
        name: "Drop the scheduled change", method: "DELETE", end: "/scheduled-change", fits: ({ scheduled_change }) => scheduled_change !== null,
        says: ({ record, plans }) => [`This will not happen: ${scheduledText(record, plans)}.`],
        done: () => "The scheduled change is dropped.",
    },
    unblock: {
        name: "Unblock access", method: "PUT", end: "", body: () => ({ is_active: true }), fits: ({ blocked }) => blocked,
        says: ({ record }) => [`The status decides about access again: ${sentence({ ...record, blocked: false })}.`],
    },
    block: {
        name: "Block access", method: "PUT", end: "", danger: true, body: () => ({ is_active: false }), fits: ({ blocked }) => !blocked,
        says: () => ["Access ends at once, until somebody unblocks it. Periods and payments continue."],
    },
    cancel: {
        name: "Cancel at the period's end", end: "/cancel", body: () => ({ effective: "period_end" }),
        says: ({ record }) => [
            endOf(record) ? `It ends on ${dayText(endOf(record))}. Until then it can be resumed${record.past_due_since ? " once the failed payment is paid" : ""}.` : "It has no running period, so it ends at once.",
            endOf(record) && ["paused", "unpaid"].includes(record.status) && "Until then it gives access again.",
            record.scheduled_change && "The scheduled change is dropped.",
        ],
    },
    cancel_now: {
        name: "Cancel now", end: "/cancel", danger: true, body: () => ({ effective: "now" }),
        says: ({ record }) => [
            "It ends at once, and access with it. This cannot be undone.",
            isAhead(record.renews_at) && `The rest of the period until ${dayText(record.renews_at)} is not paid back.`,
            record.managed_by === "clock" && "Open payments are cancelled, but for one that is being collected.",
        ],
    },
};

const RETRY = {
    name: "Retry payment", end: "/retry", body: () => ({}),
    says: ({ record }) => [`${money(record.amount, record.currency)} for ${period(record.period_start, record.period_end)} is due again at once.`],
    done: ({ attempt, amount, currency }) => `The payment of ${money(amount, currency)} is due again: attempt ${attempt}.`,
};

// The buttons of all actions that the record allows.
export function actionBar(context) {
    const { record, allowed, payments } = context;
    const bar = el("div", { class: "pager", role: "group", "aria-label": "Actions" });
    // Without billing no clock runs, and a subscription that the clock manages can only be blocked.
    const isIdle = record.managed_by === "clock" && !has("billing");
    for (const [key, { name, fits, open = run, end }] of Object.entries(ACTIONS)) {
        if (!can("subscriptions:write") || !allowed.includes(key) || fits?.(record) === false || (isIdle && end !== "")) continue;
        bar.append(button(name, () => open(context, ACTIONS[key])));
    }
    if (allowed.includes("retry_payment") && has("billing") && can("payments:write") && can("payments:read")) {
        payments().then((rows) => {
            const failed = rows.filter(({ status, kind }) => status === "failed" && kind);
            bar.prepend(...failed.map((record) => button(failed.length > 1 ? `Retry ${money(record.amount, record.currency)} for ${period(record.period_start, record.period_end)}` : RETRY.name, () => run({ ...context, record, etag: `"${record.version}"`, path: `/subscription-payments/${record.id}` }, RETRY))));
        }, () => {});
    }
    return bar;
}

function run(context, { name, danger, says, fields, method = "POST", end, body, done = (answer) => result(context, answer) }) {
    const request = once();
    let answer;
    return ask(context, {
        title: name, danger,
        body: [says(context).filter(Boolean).map((text) => p(text)), fields?.(context)],
        act: async ({ elements }) => {
            answer = await request(context, method, end, body?.(elements));
        },
        done: () => done(answer),
    });
}
