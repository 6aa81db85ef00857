// The definitions of the figures.

import { href } from "./api.js";
import { el, id, link, p } from "./el.js";

// Each figure: its place in the address, its name and its paragraphs.
const FIGURES = [
    ["mrr", "MRR: monthly recurring revenue",
        "The sum of the month's parts of all subscriptions that count. A month's part is price × quantity, less the discount, divided by the months of the billing cycle: a year has 12, a week 84/365 and a day 12/365; what is paid once counts 0.",
        "Now, a subscription counts if it is active, past due or cancelled, has begun and has not ended.",
        "At the end of a month, it counts with its newest payment whose period covers that moment, at the value of the whole period before credit. Such a payment is paid, refunded in part or disputed, or it is a renewal or proration that is open or will be tried again. The running month is drawn dashed.",
        "So the two can differ: by a refund, a pause, a downgrade, a late or first payment, or a period that credit pays in full.",
        "Each currency has its own sum; nothing is converted."],
    ["at-risk", "MRR at risk", "The part of MRR from subscriptions that are past due: a payment failed, and is tried again."],
    ["committed", "Committed MRR", "The part of MRR from subscriptions without an end: what will renew. The rest, not committed, is cancelled and still running, or of a fixed length."],
    ["trial", "Trial", "Subscriptions on trial, and the sum of the month's parts of those without an end: what they will pay if all stay. It is not in MRR."],
    ["paying-users", "Paying users", "Users who have a subscription that counts and costs something. In the months: users whose payments cover the end of the month."],
    ["new-users", "Users who came and left", "New users pay at a month's end for the first time. Returned users pay again, but did not at the end of the month before. Users who left paid at that end, and do not at this one."],
    ["churn", "Churn", "Users who left in a month, divided by the paying users at the end of the month before."],
    ["payments", "Payments by month", "Number and sum of payments by present status. A payment belongs to the month in which its period begins, or in which it was created if it has no period. One that was refunded in part has its whole amount."],
    ["forecast", "Forecast", "The payments that the clock will create this month and in the eleven after it, if each succeeds and nothing changes. At risk: of subscriptions that are past due or wait for their first payment."],
    ["status", "Subscriptions by status", "All subscriptions by present status, also those that ended or are free."],
    ["without-period", "Payments without a period", "Payments that carry no period, in any month. Subscriptions that your code manages have such payments, unless it sends kind, period_start and period_end with them."],
];

export default function (view) {
    view.title("Figures explained", link(href("overview"), "Overview"));
    const unknown = view.id !== undefined && !FIGURES.some(([name]) => name === view.id);
    if (unknown) view.add(el("p", { class: "state error", role: "alert" }, "There is no such figure."));
    view.add(p("Figures of now come from subscriptions, those of months from payments. Times are UTC."));
    for (const [name, title, ...paragraphs] of FIGURES) {
        const heading = el("h2", { id: id(), tabindex: "-1" }, title);
        view.add(el("section", { "aria-labelledby": heading.id }, heading, paragraphs.map((text) => p(text))));
        // The frame scrolls to the top once the page is shown, so the scrolling here must come later.
        if (name === view.id) setTimeout(() => { heading.scrollIntoView({ block: "center" }); heading.focus({ preventScroll: true }); });
    }
}
