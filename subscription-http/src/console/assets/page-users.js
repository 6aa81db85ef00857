// The list of users.

import { session } from "./api.js";
import { el, labelled, link } from "./el.js";
import { go, href } from "./route.js";
import { filters, listing, section } from "./table.js";
import { date, short } from "./words.js";

// The beginnings of an address that the API takes.
export const isBeginning = (text) => /^[!-~]{3,254}$/.test(text);

export default function (view) {
    const begins = (view.query.get("email_starts_with") ?? "").trim();
    view.title("Users");
    view.add(
        filters(view, [{ name: "email_starts_with", label: "Address begins with", kind: "search", attributes: { minlength: 3, maxlength: 254, spellcheck: "false", autocomplete: "off" } }]),
        session.settings.users === "any" && anyUser(),
        section(null, begins && !isBeginning(begins) ? el("p", { class: "state", role: "alert" }, "Type 3 or more letters of the address, without spaces.") : listing(view, {
            path: "/users", query: begins && { email_starts_with: begins }, scope: "users:read", caption: "Users", file: "users", columns, empty,
        })),
    );
}

const columns = [
    { name: "E-mail", cell: (row) => link(href(["users", row.id]), row.email), csv: (row) => row.email },
    { name: "Since", cell: (row) => date(row.created_at), csv: (row) => row.created_at },
    { name: "Id", cell: (row) => el("code", { title: row.id }, short(row.id)), csv: (row) => row.id },
];

const empty = () => [el("p", {}, "No account fits. An account is made at sign-up."), link(href("users"), "Show all")];

// Where users need no account, each id may be one.
function anyUser() {
    const box = el("input", { name: "id", required: true, spellcheck: "false", autocomplete: "off", id: "any-user" });
    return el("form", { class: "filters", "aria-label": "Open a user", on: { submit: (event) => { event.preventDefault(); go(["users", box.value.trim()]); } } },
        labelled("Id of any user", box), el("div", { class: "field" }, el("button", { type: "submit" }, "Open")));
}
