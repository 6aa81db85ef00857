// Elements from data. Text becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

// An HTML element. `on` holds listeners; an attribute that is null, undefined or false is left out.
export function el(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
}

// An SVG element.
export function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (name === "on") {
            for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
        } else if (name === "value" || name === "checked") {
            node[name] = value;
        } else {
            node.setAttribute(name, value === true ? "" : value);
        }
    }
    node.append(...shown(children));
    return node;
}

// Replaces all children.
export function replace(node, ...children) {
    node.replaceChildren(...shown(children));
}

function shown(children) {
    return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

export const link = (href, ...text) => el("a", { href }, ...text);

// A link to another site; anything but https is shown as text.
export const outside = (url, text) =>
    String(url).startsWith("https://") ? el("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, text) : text;

export const button = (text, click, attributes) => el("button", { type: "button", ...attributes, on: { click } }, text);

let ids = 0;

// An id for a label or a caption.
export const id = () => `e${(ids += 1)}`;

// A control with its label.
export function labelled(label, control, hint) {
    control.id ||= id();
    const small = hint && el("small", { id: id() }, hint);
    if (small) control.setAttribute("aria-describedby", small.id);
    return el("div", { class: "field" }, el("label", { for: control.id }, label), control, small);
}

// A list to choose from: `options` are [value, text] or a text that is both.
export function select(name, options, chosen, attributes) {
    const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
    return el("select", { name, ...attributes }, pairs.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
}
