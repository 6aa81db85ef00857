// The frame of the console: sign-in, navigation, search, and the page of the address.

import { can, forgetKey, has, keepKey, key, readClient, readSettings, session } from "./api.js";
import { button, el, labelled, link, replace } from "./el.js";
import { go, href, read } from "./route.js";
import { failure } from "./states.js";
import { momentText } from "./words.js";

// The pages: a list, and one record of it.
const PAGES = [
    { path: "overview", name: "Overview", scope: "subscriptions:read", list: () => import("./page-overview.js") },
    { path: "subscriptions", name: "Subscriptions", scope: "subscriptions:read", list: () => import("./page-subscriptions.js"), one: () => import("./page-subscription.js") },
    { path: "users", name: "Users", scope: "users:read", list: () => import("./page-users.js"), one: () => import("./page-user.js") },
    { path: "plans", name: "Plans", scope: "plans:read", list: () => import("./page-plans.js") },
    { path: "events", name: "Events", scope: "events:read", list: () => import("./page-events.js") },
    { path: "webhooks", name: "Webhooks", scope: "webhooks:read", part: "webhooks", list: () => import("./page-webhooks.js"), one: () => import("./page-webhook.js") },
    { path: "providers", name: "Providers", scope: "providers:read", part: "providers", list: () => import("./page-providers.js") },
    { path: "search", scope: null, list: () => import("./page-search.js") },
];

const shown = ({ name, scope, part }) => name && can(scope) && (!part || has(part));

let leave = new AbortController();

// Builds the frame once for each sign-in.
function frame() {
    const links = PAGES.filter(shown).map(({ path, name }) => link(href(path), name));
    const box = el("input", { type: "search", id: "search", name: "q", placeholder: "Id, e-mail, slug", autocomplete: "off", spellcheck: "false", "aria-label": "Search", "aria-keyshortcuts": "/" });
    const search = el("form", { role: "search", on: { submit: (event) => { event.preventDefault(); box.blur(); if (box.value.trim()) go("search", { q: box.value.trim() }); } } }, box);
    const out = key() && button("Sign out", () => signOut());
    replace(document.body,
        el("a", { class: "skip", href: "#main", on: { click: (event) => { event.preventDefault(); document.querySelector("main")?.focus(); } } }, "Skip to the page"),
        development(),
        el("header", {}, link(href("overview"), "Console"), search, el("span", { class: "who" }, session.client?.name ?? "", " ", out)),
        el("div", { class: "frame" }, el("nav", { "aria-label": "Pages", id: "pages" }, links), el("main", { id: "main", tabindex: "-1" })));
}

function development() {
    if (session.settings.mode !== "development") return null;
    const clock = session.settings.clock === "manual" ? ` The clock is turned by hand; it showed ${momentText(session.settings.now)}.` : "";
    return el("p", { class: "development", role: "region", "aria-label": "Mode of the server" }, `Development mode: everybody is let in.${clock}`);
}

// Shows the page of the address.
async function show() {
    if (!session.client) return;
    leave.abort();
    leave = new AbortController();
    const { segments, query } = read();
    const [path = "overview", id, ...more] = segments;
    const page = PAGES.find((page) => page.path === path);
    const load = more.length ? null : id === undefined ? page?.list : page?.one;
    const focused = document.activeElement?.id;
    const main = document.querySelector("main");
    const view = {
        segments: segments.length ? segments : ["overview"], query, id, signal: leave.signal, root: el("div", { class: "page" }),
        // Names the page, in its heading and in the window.
        title(text, ...beside) {
            document.title = `${text} · Console`;
            view.root.prepend(el("div", { class: "title" }, el("h1", {}, text), ...beside));
        },
        add: (...nodes) => view.root.append(...nodes.flat().filter(Boolean)),
        reload: show,
    };
    for (const anchor of document.querySelectorAll("#pages a")) {
        if (anchor.getAttribute("href") === href(path)) anchor.setAttribute("aria-current", "page");
        else anchor.removeAttribute("aria-current");
    }
    try {
        if (load) await (await load()).default(view);
        else notFound(view);
    } catch (error) {
        if (view.signal.aborted) return;
        replace(view.root);
        view.title("Error");
        view.add(failure(error, show));
    }
    if (view.signal.aborted) return;
    replace(main, view.root);
    // After a filter the focus stays where it was; after a step to another page it is at its beginning.
    const same = focused && document.getElementById(focused);
    if (same) same.focus();
    else if (document.activeElement === document.body) main.focus({ preventScroll: true });
    if (!query.has("cursor")) scrollTo(0, 0);
}

function notFound(view) {
    view.title("There is no such page");
    view.add(el("p", {}, "The address leads nowhere. ", link(href("overview"), "Go to the overview")));
}

function signInPage(problem) {
    document.title = "Sign in · Console";
    const box = el("input", { type: "password", name: "key", autocomplete: "current-password", required: true, spellcheck: "false" });
    const told = el("div", { "aria-live": "polite" }, problem && failure(problem));
    const form = el("form", { class: "sign-in", on: { submit: async (event) => {
        event.preventDefault();
        keepKey(box.value.trim());
        box.value = "";
        await begin();
    } } }, el("h1", {}, "Console"), labelled("Client key", box, "It is kept in this tab until you sign out or close it."), told, el("button", { type: "submit", class: "primary" }, "Sign in"));
    replace(document.body, el("main", { class: "alone" }, form));
    box.focus();
}

function signOut(problem) {
    leave.abort();
    forgetKey();
    for (const box of document.querySelectorAll("dialog")) box.close();
    signInPage(problem);
}

async function begin() {
    try {
        await readSettings();
        if (session.settings.mode !== "development" && !key()) return signInPage();
        await readClient();
    } catch (error) {
        if (error.status === 401 || error.status === 429) return signOut(error);
        document.title = "Console";
        return replace(document.body, el("main", { class: "alone" }, el("h1", {}, "Console"), failure(error, begin)));
    }
    frame();
    await show();
}

addEventListener("hashchange", show);
addEventListener("signed-out", (event) => { if (session.client) signOut(event.detail); });
// A page that the browser kept shows nothing without a key.
addEventListener("pageshow", (event) => { if (event.persisted) begin(); });
addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, dialog")) return;
    event.preventDefault();
    document.getElementById("search")?.focus();
    document.getElementById("search")?.select();
});

begin();
