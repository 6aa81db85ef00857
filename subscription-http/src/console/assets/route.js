// The state of a page is its address: `#/subscriptions/ID?status=past_due`.

// The address after `#`: its segments and its query. Nonsense gives segments that no page has.
export function read(hash = location.hash) {
    const [path, query] = hash.replace(/^#?\/?/, "").split(/\?(.*)/s);
    return { segments: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query ?? "") };
}

function decode(text) {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

// The address of a page. `query` is an object, or pairs where a name may be repeated; empty values are left out.
export function href(segments, query) {
    const path = [segments].flat().map(encodeURIComponent).join("/");
    const text = params(query).toString();
    return `#/${path}${text && "?"}${text}`;
}

export function params(query) {
    const pairs = query instanceof URLSearchParams ? [...query] : Array.isArray(query) ? query : Object.entries(query ?? {});
    return new URLSearchParams(pairs.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [name, String(value)]));
}

export function go(segments, query) {
    location.hash = href(segments, query);
}

// Shows another address without a step in the history.
export function redirect(segments, query) {
    location.replace(href(segments, query));
}
