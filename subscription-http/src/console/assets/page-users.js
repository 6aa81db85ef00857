// The list of users.

import { session } from "./api.js";
import { el, labelled, link } from "./el.js";
import { go, href } from "./route.js";
import { column, filters, listing, section } from "./table.js";
import { date, short } from "./words.js";

export default function (view) {
    const begins = view.query.get("email_starts_with")?.trim();
    view.title("Users");
    view.add(
        filters(view, [{ name: "email_starts_with", label: "Address begins with", kind: "search", attributes: { pattern: "\\s*\\S{3,254}\\s*", title: "3 or more letters, without spaces" } }]),
        session.settings.users === "any" && anyUser(),
        section(null, listing(view, {
            path: "/users", query: begins && { email_starts_with: begins }, scope: "users:read", caption: "Users", file: "users", columns,
            empty: () => [el("p", {}, "No account fits. An account is made at sign-up."), link(href("users"), "Show all")],
        })),
    );
}

const columns = [
    column("E-mail", "email", (email, { id }) => link(href(["users", id]), email)),
    column("Since", "created_at", date),
    column("Id", "id", (id) => el("code", { title: id }, short(id))),
];

// Where users need no account, each id may be one.
function anyUser() {
    const box = el("input", { required: true, id: "any-user", spellcheck: "false" });
    return el("form", { class: "filters", "aria-label": "Open a user", on: { submit: (event) => { event.preventDefault(); go(["users", box.value.trim()]); } } },
        labelled("Id of any user", box), el("div", { class: "field" }, el("button", { type: "submit" }, "Open")));
}
