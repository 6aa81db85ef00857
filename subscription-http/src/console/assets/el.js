// Elements from data. Text becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

// `on` holds listeners; an attribute or a child that is null, undefined or false is left out.
export const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const p = (...children) => el("p", {}, ...children);
export const code = (text) => el("code", {}, text);

const isGiven = (value) => value !== null && value !== undefined && value !== false;
const shown = (children) => children.flat(Infinity).filter(isGiven);

function fill(node, { on = {}, ...attributes } = {}, children) {
    for (const [event, listener] of Object.entries(on)) node.addEventListener(event, listener);
    for (const [name, value] of Object.entries(attributes)) {
        if (!isGiven(value)) continue;
        if (name === "value" || name === "checked") node[name] = value;
        else node.setAttribute(name, value === true ? "" : value);
    }
    node.append(...shown(children));
    return node;
}

// Replaces all children.
export const replace = (node, ...children) => node.replaceChildren(...shown(children));

export const link = (href, ...text) => el("a", { href }, ...text);

// A link to another site; anything but https is shown as text.
export const outside = (url, text) => (url.startsWith("https://") ? el("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, text) : text);

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

// Boxes of a `type`, checkbox or radio: `options` are [value, text], `chosen` are values.
export const boxes = (legend, type, name, options, chosen) => el("fieldset", { class: "checks" }, el("legend", {}, legend),
    options.map(([value, text]) => el("label", {}, el("input", { type, name, value, checked: chosen.includes(value), id: `filter-${name}-${value}` }), text)));
