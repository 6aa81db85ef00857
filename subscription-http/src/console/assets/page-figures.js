// The definitions of the figures.

import { el, id, link } from "./el.js";
import { href } from "./route.js";

// Each figure: its place in the address, its name and its paragraphs.
const FIGURES = [
    ["mrr", "MRR: monthly recurring revenue",
        "The sum of what the subscriptions bring in a month: price × quantity, divided by the months of the billing cycle. A year is 12 months, a week 84/365 and a day 12/365 of a month; what is paid once counts 0. Each subscription is rounded once, half to even, to 6 places.",
        "Now, a subscription counts if it is active, past due or cancelled, has begun and has not ended. A block takes access away and changes no figure.",
        "At the end of a month, a subscription counts with the newest payment whose period covers the month's last moment: with the price of the whole period, before credit. The running month is counted up to now and drawn dashed. Such a payment has succeeded, was refunded in part or is disputed; a renewal or a change of plan counts also while it is open or will be tried again.",
        "So the two differ: a period that credit pays in full has no payment and is missing in the month; a refunded one is too; a downgrade shows with the next payment; a late payment fills its month afterwards, and one that is given up leaves it; a paused subscription counts to the end of what was paid in the months, and not at all now.",
        "Each currency has its own sum. Nothing is converted, and currencies are never added."],
    ["at-risk", "MRR at risk", "The part of MRR that is past due: a payment failed and is tried again. In the months it is the part of failed payments that have another attempt."],
    ["committed", "Committed MRR", "The part of MRR whose subscriptions have no end: they will renew. The rest is not committed: it was cancelled and runs to its end, or has a fixed length. Some services drop a cancelled subscription at once; their MRR is this number."],
    ["trial", "Trial", "Subscriptions on trial. What they would bring in a month, if they have no end, is shown beside them; it is not in MRR."],
    ["paying-users", "Paying users", "Users with a subscription that counts in MRR with more than 0. A user with two subscriptions is one user. In the months: users whose payments cover the end of the month."],
    ["new-users", "New, returned and lost users", "New: paying at the end of this month, and at no earlier end of a month. Returned: paying at this end and at an earlier one, but not at the last. Left: paying at the last end, and not at this one. So paying users = those before + new + returned − left."],
    ["churn", "Churn", "Users who left in a month ÷ users who were paying when it began. Where nobody was paying before, there is no rate. The overview shows the last month that is over. Rates of months are never averaged."],
    ["payments", "Payments by month", "The amounts of payments by their present status. A payment belongs to the month in which its period begins, or in which it was made if it has no period. Refunded payments stand beside the others, with their whole amount; a payment refunded in part has its whole amount too."],
    ["status", "Subscriptions by status", "All subscriptions, each in its present status: also those that ended, and those that cost nothing."],
    ["without-period", "Payments without a period", "A payment that does not say which period it pays for can be placed in no month: it is in the payments by month, and not in MRR, users and churn by month. Payments that the service asks for always have a period; a caller can send `kind`, `period_start` and `period_end` with its own."],
];

export default function (view) {
    view.title("Figures explained", link(href("overview"), "Overview"));
    const unknown = view.id !== undefined && !FIGURES.some(([name]) => name === view.id);
    if (unknown) view.add(el("p", { class: "state error", role: "alert" }, "There is no such figure. These are all."));
    view.add(el("p", {}, "What is true now comes from subscriptions; what was true comes from payments that say their period. Nothing is stored for the figures. Times are UTC."));
    for (const [name, title, ...paragraphs] of FIGURES) {
        const heading = el("h2", { id: id(), tabindex: "-1" }, title);
        view.add(el("section", { "aria-labelledby": heading.id }, heading, paragraphs.map((text) => el("p", {}, text))));
        // The frame scrolls to the top once the page is shown.
        if (name === view.id) setTimeout(() => { heading.scrollIntoView({ block: "center" }); heading.focus({ preventScroll: true }); });
    }
}
