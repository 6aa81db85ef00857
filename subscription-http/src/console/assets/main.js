// The frame of the console: sign-in, navigation, search, and the page of the address.

import { Problem, can, forgetKey, has, keepKey, key, readClient, readSettings, session } from "./api.js";
import { button, el, labelled, link, replace } from "./el.js";
import { go, href, read } from "./route.js";
import { failure, noPermission } from "./states.js";
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
    { path: "figures", scope: null, list: () => import("./page-figures.js"), one: () => import("./page-figures.js") },
    { path: "search", scope: null, list: () => import("./page-search.js") },
];

const shown = ({ name, scope, part }) => name && can(scope) && (!part || has(part));

let leave = new AbortController();
let path = null;

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
    return el("aside", { class: "development", "aria-label": "Mode" }, `Development mode: everybody is let in.${clock}`);
}

// Shows the page of the address.
async function show() {
    if (!session.client) return;
    leave.abort();
    leave = new AbortController();
    const { segments, query } = read();
    const [first = "overview", id, ...more] = segments;
    const page = PAGES.find((page) => page.path === first);
    const load = more.length ? null : id === undefined ? page?.list : page?.one;
    const main = document.querySelector("main");
    const fresh = path === null;
    const another = !fresh && path !== segments.join("/");
    path = segments.join("/");
    const view = {
        segments: segments.length ? segments : ["overview"], query, id, signal: leave.signal, root: el("div", { class: "page" }),
        // Names the page, in its heading and in the window.
        title(text, ...beside) {
            if (!view.signal.aborted) document.title = `${text} · Console`;
            view.root.prepend(el("div", { class: "title" }, el("h1", {}, text), ...beside));
        },
        add: (...nodes) => view.root.append(...nodes.flat(Infinity).filter(Boolean)),
        reload: show,
    };
    for (const anchor of document.querySelectorAll("#pages a")) {
        if (anchor.getAttribute("href") === href(first)) anchor.setAttribute("aria-current", "page");
        else anchor.removeAttribute("aria-current");
    }
    main.setAttribute("aria-busy", "true");
    let focused = null;
    const put = (node) => {
        focused = (main.contains(document.activeElement) && document.activeElement.id) || focused;
        replace(main, node);
    };
    // A page that takes long does not leave the last one under its name.
    const late = setTimeout(() => { if (another && !view.signal.aborted) put(el("p", { class: "state", role: "status" }, "Loading…")); }, 500);
    try {
        if (!load) notFound(view);
        else if ((page.part && !has(page.part)) || (id === undefined && !can(page.scope))) closed(view, page);
        else {
            const { default: build } = await load().catch((error) => { throw /module/i.test(error.message) ? new Problem({ code: "unreachable", detail: "The server cannot be reached." }, 0) : error; });
            if (view.signal.aborted) return;
            await build(view);
        }
    } catch (error) {
        if (view.signal.aborted) return;
        replace(view.root);
        view.title("Error");
        view.add(failure(error, show));
    } finally {
        clearTimeout(late);
    }
    if (view.signal.aborted) return;
    put(view.root);
    main.removeAttribute("aria-busy");
    // After a filter the focus stays where it was; after a step to another page it is at its beginning.
    const same = focused && document.getElementById(focused);
    if (same) same.focus();
    else if (document.activeElement === document.body ? !fresh : another && document.activeElement.closest("#pages")) main.focus({ preventScroll: true });
    if (!query.has("cursor")) scrollTo(0, 0);
}

function notFound(view) {
    view.title("There is no such page");
    view.add(el("p", {}, "The address leads nowhere. ", link(href("overview"), "Go to the overview")));
}

// A page that this key or this server does not have.
function closed(view, { name, path, scope, part }) {
    view.title(name ?? path);
    view.add(can(scope) ? el("p", { class: "state" }, `This server is set up without ${part}.`) : noPermission(scope));
}

function signInPage(problem) {
    document.title = "Sign in · Console";
    const box = el("input", { type: "password", name: "key", autocomplete: "current-password", required: true, spellcheck: "false" });
    const told = el("div", { "aria-live": "polite" }, problem && failure(problem));
    // Browsers keep passwords under a name, and complain of a form without one.
    const name = el("input", { name: "username", autocomplete: "username", value: "console", hidden: true });
    const form = el("form", { class: "sign-in", on: { submit: async (event) => {
        event.preventDefault();
        const text = box.value.trim();
        box.value = "";
        replace(told);
        // Other characters cannot be sent in a header.
        if (!/^[!-~]+$/.test(text)) return replace(told, el("p", { class: "error", role: "alert" }, "This is not a key: keys are letters, digits and marks without spaces."));
        keepKey(text);
        await begin();
    } } }, el("h1", {}, "Console"), name, labelled("Client key", box, "It is kept in this tab until you sign out or close it."), told, el("button", { type: "submit", class: "primary" }, "Sign in"));
    replace(document.body, el("main", { class: "alone" }, form));
    box.focus();
}

function signOut(problem) {
    path = null;
    leave.abort();
    forgetKey();
    closeDialogs();
    signInPage(problem);
}

function closeDialogs() {
    for (const box of document.querySelectorAll("dialog")) box.close();
}

async function begin() {
    try {
        await readSettings();
        if (session.settings.mode !== "development" && !key()) return signInPage();
        await readClient();
    } catch (error) {
        if (key() && error.status >= 400 && error.status < 500) return signOut(error);
        document.title = "Console";
        return replace(document.body, el("main", { class: "alone" }, el("h1", {}, "Console"), failure(error, begin), key() && button("Sign out", () => signOut())));
    }
    frame();
    await show();
}

addEventListener("hashchange", () => { closeDialogs(); show(); });
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
