// What can be done with a subscription. Each action says what will happen, is sent with the version that was seen, and is done once.

import { ask, once, result } from "./act.js";
import { can, has, now } from "./api.js";
import { button, el, labelled, select } from "./el.js";
import { planChange } from "./plan-change.js";
import { dayText, money, scheduledText, sentence, terms } from "./words.js";

const over = (at) => !at || Date.parse(at) <= now();

// An action: its `name`, the `fits` of a record, what the dialog `says`, the request (`method`, `end` of the path, `body`).
const ACTIONS = {
    resume: {
        name: "Resume", end: "/resume", body: () => ({}), fits: ({ status, ends_at }) => status === "paused" || (status === "cancelled" && (!ends_at || !over(ends_at))),
        says: ({ record }) => [
            record.status === "paused" ? "The pause ends now, and access begins." : "The cancellation is undone.",
            record.managed_by === "clock" && record.renews_at && (over(record.renews_at) ? `Its period is over, so a new one starts now and is asked for: ${terms(record)}.` : `It renews on ${dayText(record.renews_at)}: ${terms(record)}.`),
        ],
    },
    change_plan: { name: "Change plan", fits: () => true, open: planChange },
    pause: {
        name: "Pause", end: "/pause", fits: () => true,
        says: ({ record }) => [record.status === "paused" ? "It is paused already. Here its end is set." : "While it is paused there is no access, and no period starts. The rest of a period is not given back."],
        fields: ({ record }) => {
            const starts = [["now", "now"]];
            if (record.managed_by === "clock" && record.status !== "paused" && !over(record.renews_at)) starts.unshift(["period_end", `when the period ends, on ${dayText(record.renews_at)}`]);
            return [
                labelled("It pauses", select("effective", starts, starts[0][0])),
                labelled("Until", el("input", { type: "date", name: "until" }), "The day on which it resumes by itself, in UTC. Empty: until somebody resumes it."),
            ];
        },
        body: ({ effective, until }) => ({ effective: effective.value, ...(until.value && { resumes_at: `${until.value}T00:00:00Z` }) }),
    },
    drop_scheduled_change: {
        name: "Drop the scheduled change", method: "DELETE", end: "/scheduled-change", fits: ({ scheduled_change }) => scheduled_change,
        says: ({ record, plans }) => [`Scheduled: ${scheduledText(record, plans)}.`, "This will not happen. The subscription goes on as it is."],
        done: () => "The scheduled change is dropped.",
    },
    unblock: {
        name: "Unblock access", method: "PUT", end: "", body: () => ({ is_active: true }), fits: ({ blocked }) => blocked,
        says: ({ record }) => [`The status decides about access again: ${sentence({ ...record, blocked: false })}.`],
    },
    block: {
        name: "Block access", method: "PUT", end: "", danger: true, body: () => ({ is_active: false }), fits: ({ blocked, status }) => !blocked && status !== "expired",
        says: () => ["Access ends at once, whatever the status is, until somebody unblocks it. Periods and payments go on: to stop them, cancel or pause it."],
    },
    cancel: {
        name: "Cancel at the period's end", end: "/cancel", body: () => ({ effective: "period_end" }), fits: ({ status }) => status !== "cancelled",
        says: ({ record }) => [
            over(record.renews_at) ? "It has no running period, so it ends at once." : `It ends on ${dayText(record.renews_at)}. Until then access stays as it is, and Resume undoes the cancellation${record.past_due_since ? " once the failed payment is paid" : ""}.`,
            "No further period is asked for.",
            record.scheduled_change && "The scheduled change is dropped.",
        ],
    },
    cancel_now: {
        name: "Cancel now", end: "/cancel", danger: true, body: () => ({ effective: "now" }), fits: ({ status }) => status !== "expired",
        says: ({ record }) => [
            "It ends at once, and access with it. This cannot be undone: the user needs another subscription then.",
            !over(record.renews_at) && `The rest of the period until ${dayText(record.renews_at)} is not paid back.`,
            record.managed_by === "clock" && "Payments that are open are canceled; a payment that is being collected stays.",
        ],
    },
};

const RETRY = {
    name: "Retry payment",
    says: () => ["The failed payment is asked for again at once, such as after a new card. This uses up none of the planned retries."],
    fields: ({ failed }) => labelled("Payment", select("payment", failed.map(({ id, amount, currency, period_start }) => [id, `${money(amount, currency)} for the period from ${dayText(period_start)}`]), failed[0].id)),
    target: ({ failed }, { payment }) => {
        const record = failed.find(({ id }) => id === payment.value);
        return { record, etag: `"${record.version}"`, path: `/subscription-payments/${record.id}` };
    },
    end: "/retry", body: () => ({}),
    done: ({ attempt, amount, currency }) => `The payment of ${money(amount, currency)} is asked for again: attempt ${attempt}.`,
};

// The buttons of all actions that the record allows.
export function actionBar(context) {
    const { record, allowed, payments } = context;
    const bar = el("div", { class: "pager", role: "group", "aria-label": "Actions" });
    const mayWrite = can("subscriptions:write");
    // Without billing no clock runs, and what it manages can only be blocked.
    const stands = record.managed_by === "clock" && !has("billing");
    for (const [key, action] of Object.entries(ACTIONS)) {
        if (!mayWrite || !allowed.includes(key) || !action.fits(record) || (stands && action.end !== "")) continue;
        bar.append(button(action.name, () => (action.open ?? run)(context, action)));
    }
    if (allowed.includes("retry_payment") && has("billing") && can("payments:write") && can("payments:read")) {
        payments().then((rows) => {
            const failed = rows.filter(({ status, kind }) => status === "failed" && kind);
            if (failed.length) bar.prepend(button(RETRY.name, () => run({ ...context, failed }, RETRY)));
        }, () => {});
    }
    return bar;
}

function run(context, action) {
    const request = once();
    let answer;
    return ask(context, {
        title: action.name, danger: action.danger,
        body: [action.says(context).filter(Boolean).map((text) => el("p", {}, text)), action.fields?.(context)],
        act: async (form) => {
            const target = action.target?.(context, form.elements) ?? context;
            answer = await request(target, action.method ?? "POST", action.end, action.body?.(form.elements));
        },
        done: () => action.done?.(answer) ?? result(context, answer),
    });
}
