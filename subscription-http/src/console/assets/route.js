// The state of a page is its address: `#/subscriptions/ID?status=past_due`.

// The address after `#`: its segments and its query. Nonsense gives segments that no page has.
export function read() {
    const [path, query] = location.hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
    return { segments: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

function decode(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

// The address of a page.
export function href(segments, query) {
    const text = String(params(query));
    return `#/${[segments].flat().map(encodeURIComponent).join("/")}${text && "?"}${text}`;
}

// `query` is an object, or pairs where a name may be repeated; empty values are left out.
export function params(query) {
    const pairs = query?.[Symbol.iterator] ? [...query] : Object.entries(query ?? {});
    return new URLSearchParams(pairs.filter(([, value]) => (value ?? "") !== ""));
}

export function go(segments, query) {
    location.hash = href(segments, query);
}
