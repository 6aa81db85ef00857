// The frame of the console: sign-in, navigation, search, and the page that the address names.

import { can, forgetKey, go, has, href, keepKey, key, read, readClient, readSettings, session, unreachable } from "./api.js";
import { button, el, failure, form, labelled, link, loading, momentText, noPermission, note, p, replace, submit, wrong } from "./el.js";

// The pages: their place in the address, the file of one record, and what they need. Those with a name are in the navigation.
const PAGES = [
    { path: "overview", name: "Overview", scope: "subscriptions:read" },
    { path: "subscriptions", one: "subscription", name: "Subscriptions", scope: "subscriptions:read" },
    { path: "users", one: "users", name: "Users", scope: "users:read" },
    { path: "plans", name: "Plans", scope: "plans:read" },
    { path: "events", name: "Events", scope: "events:read" },
    { path: "webhooks", one: "webhooks", name: "Webhooks", scope: "webhooks:read", part: "webhooks" },
    { path: "providers", name: "Providers", scope: "providers:read", part: "providers" },
    { path: "figures", one: "figures" },
    { path: "search" },
];

let leave = new AbortController();
let path = null;

// Builds the frame once for each sign-in.
function frame() {
    const pages = PAGES.filter(({ name, scope, part }) => name && can(scope) && (!part || has(part)));
    const box = el("input", { type: "search", id: "search", placeholder: "Id, e-mail, slug", autocomplete: "off", spellcheck: "false", "aria-label": "Search", "aria-keyshortcuts": "/" });
    const search = () => {
        box.blur();
        if (box.value.trim()) go("search", { q: box.value.trim() });
    };
    const skip = (event) => {
        event.preventDefault();
        document.querySelector("main").focus();
    };
    replace(document.body,
        el("a", { class: "skip", href: "#main", on: { click: skip } }, "Skip to the page"),
        development(session.settings),
        el("header", {}, link(href("overview"), "Console"), form({ role: "search" }, search, box), el("span", { class: "who" }, session.client.name, " ", signOutButton())),
        el("div", { class: "frame" },
            el("nav", { "aria-label": "Pages", id: "pages" }, pages.map(({ path, name }) => link(href(path), name))),
            el("main", { id: "main", tabindex: "-1" })));
}

const signOutButton = () => key() && button("Sign out", () => signOut());

const development = ({ mode, clock, now }) => mode === "development" && el("aside", { class: "development", "aria-label": "Mode" },
    "Development mode: everybody is let in.", clock === "manual" && ` The clock is turned by hand; it showed ${momentText(now)}.`);

// Shows the page that the address names.
async function show() {
    if (!session.client) return;
    leave.abort();
    leave = new AbortController();
    const { signal } = leave;
    const { segments, query } = read();
    if (!segments.length) segments.push("overview");
    const [first, id] = segments;
    const main = document.querySelector("main");
    const isFirst = path === null;
    const isAnother = !isFirst && path !== segments.join("/");
    path = segments.join("/");
    const view = {
        segments, query, id, signal, root: el("div", { class: "page" }), reload: show,
        // Shows the name of the page in its heading and in the title of the window.
        title(text, ...beside) {
            if (!signal.aborted) document.title = `${text} · Console`;
            view.root.prepend(el("div", { class: "title" }, el("h1", {}, text), ...beside));
        },
        add: (...nodes) => view.root.append(...nodes.flat(Infinity).filter(Boolean)),
    };
    for (const anchor of document.querySelectorAll("#pages a")) anchor.ariaCurrent = anchor.getAttribute("href") === href(first) ? "page" : null;
    main.ariaBusy = "true";
    let focused = null;
    const put = (node) => {
        focused = (main.contains(document.activeElement) && document.activeElement.id) || focused;
        replace(main, node);
    };
    // If the page takes long to load, the previous page is not shown under the new name.
    const late = setTimeout(() => { if (isAnother && !signal.aborted) put(loading("the page")); }, 500);
    try {
        await build(view);
    } catch (error) {
        if (signal.aborted) return;
        replace(view.root);
        view.title("Error");
        view.add(failure(error, show));
    }
    clearTimeout(late);
    if (signal.aborted) return;
    put(view.root);
    main.ariaBusy = null;
    // After a change of a filter the focus stays where it was; after a step to another page it is at the beginning of that page.
    const same = focused && document.getElementById(focused);
    if (same) same.focus();
    else if (document.activeElement === document.body ? !isFirst : isAnother && document.activeElement.closest("#pages")) main.focus({ preventScroll: true });
    if (!query.has("cursor")) scrollTo(0, 0);
}

async function build(view) {
    const [first, id, ...more] = view.segments;
    const page = PAGES.find(({ path }) => path === first);
    const file = id === undefined ? page?.path : page?.one;
    if (!file || more.length) {
        view.title("There is no such page");
        view.add(p("The address leads nowhere. ", link(href("overview"), "Go to the overview")));
    } else if ((id === undefined || file === "subscription") && !can(page.scope)) {
        view.title(page.name);
        view.add(noPermission(page.scope));
    } else if (page.part && !has(page.part)) {
        view.title(page.name);
        view.add(note(`This server is set up without ${page.part}.`));
    } else {
        const { default: fill } = await import(`./page-${file}.js`).catch((error) => { throw error instanceof TypeError && /module/i.test(error.message) ? unreachable() : error; });
        if (!view.signal.aborted) await fill(view);
    }
}

function signInPage(problem) {
    document.title = "Sign in · Console";
    const box = el("input", { type: "password", name: "key", autocomplete: "current-password", required: true, spellcheck: "false" });
    const told = el("div", { "aria-live": "polite" }, problem && failure(problem));
    const send = async () => {
        const text = box.value.trim();
        box.value = "";
        replace(told);
        // A header cannot have any other characters.
        if (!/^[!-~]+$/.test(text)) return replace(told, wrong("This is not a key: keys are letters, digits and marks without spaces."));
        keepKey(text);
        await begin({ isNew: true });
    };
    replace(document.body, el("main", { class: "alone" }, form({ class: "sign-in" }, send,
        el("h1", {}, "Console"),
        // Browsers store passwords under a user name, and warn about a form that has no user name.
        el("input", { name: "username", autocomplete: "username", value: "console", hidden: true }),
        labelled("Client key", box, "It is kept in this tab until you sign out or close it."), told,
        submit("Sign in", { class: "primary" }))));
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

// Signs in with the key that this tab has stored. A key that was typed just now is forgotten if it is refused for any reason.
async function begin({ isNew } = {}) {
    try {
        await readSettings();
        if (session.settings.mode !== "development" && !key()) return signInPage();
        await readClient();
    } catch (error) {
        if (key() && (isNew ? error.status >= 400 && error.status < 500 : [400, 401, 403].includes(error.status))) return signOut(error);
        document.title = "Console";
        return replace(document.body, el("main", { class: "alone" }, el("h1", {}, "Console"), failure(error, () => begin()), signOutButton()));
    }
    frame();
    await show();
}

addEventListener("hashchange", () => { closeDialogs(); show(); });
addEventListener("signed-out", (event) => { if (session.client) signOut(event.detail); });
// If the browser shows a page that it had cached, the page shows nothing without a key.
addEventListener("pageshow", (event) => { if (event.persisted) begin(); });
addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, textarea, select, dialog")) return;
    event.preventDefault();
    const box = document.getElementById("search");
    box?.focus();
    box?.select();
});

begin();
