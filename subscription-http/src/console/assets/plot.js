// Plots as SVG: lines, stacked columns up and down, rows of bars. Each has a table of the same numbers and a file.
//
// A chart has a `title`, the `info` about its figure, a `label` (a sentence), a `file` name, the name of its `first` column,
// `labels` (and `keys`, as the file has them), `open` if its last month still runs, and `series` of
// `{ name, tone, values, show }`: `dashed` for a line, `below` or `beside` for columns, `aside` for the table only.

import { href } from "./api.js";
import { el, id, replace, soft, svg } from "./el.js";
import { saveRows, table } from "./table.js";

// A link from a number to its definition.
export function about(figure, text) {
    const title = `How ${text} ${text.endsWith("s") ? "are" : "is"} counted`;
    return el("a", { href: href(["figures", figure]), class: "info", "aria-label": title, title }, el("span", { "aria-hidden": "true" }, "i"));
}

// Round numbers for the marks of an axis that contains 0, `high` and `low`.
export function ticks(high, low = 0, whole = false) {
    const rough = (high + low) / 4 || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(whole ? 1 : 0, [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * 0.999));
    const below = Math.ceil(low / step);
    return Array.from({ length: below + Math.max(Math.ceil(high / step), below ? 0 : 1) + 1 }, (_, at) => (at - below) * step);
}

// The indexes of the labels, out of `count`, that fit into `room`: that of the last label, and others at equal distances before it.
export function labelled(count, room, wide = 76) {
    const every = Math.max(1, Math.ceil(count / Math.max(1, Math.floor(room / wide))));
    return Array.from({ length: count }, (_, at) => at).filter((at) => (count - 1 - at) % every === 0);
}

export const path = (points) => points.map(([x, y], at) => `${at ? "L" : "M"}${round(x)} ${round(y)}`).join("");

// A text that is cut to the width `room`, with about 7 pixels for each character.
export const cut = (text, room) => (text.length * 7 <= room ? text : `${[...text].slice(0, Math.max(1, Math.floor(room / 7) - 1)).join("")}…`);

const round = (value) => Math.round(value * 10) / 10;
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 2 });
const numbers = ({ values }) => values.map(Number);
const drawn = ({ series }) => series.filter(({ aside }) => !aside);
const HEIGHT = 220;

// The axes, and the functions that place a value.
function axes(chart, width, steps) {
    const texts = steps.map((step) => compact.format(Math.abs(step)));
    const [left, right, top, bottom] = [Math.max(...texts.map((text) => text.length)) * 7 + 12, 8, 10, HEIGHT - 24];
    const band = (width - left - right) / chart.labels.length;
    const [low, high] = [steps[0], steps.at(-1)];
    const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
    const x = (at) => left + band * (at + 0.5);
    const nodes = [
        steps.map((step, at) => [
            svg("line", { class: step === 0 ? "axis" : "grid-line", x1: left, x2: width - right, y1: round(y(step)), y2: round(y(step)) }),
            svg("text", { x: left - 8, y: round(y(step)) + 4, "text-anchor": "end" }, texts[at]),
        ]),
        labelled(chart.labels.length, width - left).map((at) => {
            const end = x(at) + 28 > width;
            return svg("text", { x: end ? width - 2 : round(x(at)), y: HEIGHT - 6, "text-anchor": end ? "end" : "middle" }, chart.labels[at]);
        }),
    ];
    // The numbers of one month, shown where the pointer is.
    const hover = chart.labels.map((label, at) => svg("rect", { class: "hover", x: round(x(at) - band / 2), y: top, width: round(band), height: bottom - top },
        svg("title", {}, [label, ...drawn(chart).map(({ name, values, show }) => `${name}: ${show(values[at], at)}`)].join("\n"))));
    return { x, y, band, nodes, hover };
}

// A line for each series.
export function lines(chart, width) {
    const { x, y, band, nodes, hover } = axes(chart, width, ticks(Math.max(0, ...drawn(chart).flatMap(numbers)), 0, chart.whole));
    const marks = drawn(chart).map((one) => {
        const points = numbers(one).map((value, at) => [x(at), y(value)]);
        const whole = chart.open ? points.slice(0, -1) : points;
        return svg("g", { class: `t${one.tone}` },
            svg("path", { class: one.dashed ? "line dashed" : "line", d: path(whole) }),
            chart.open && svg("path", { class: "line dashed", d: path(points.slice(-2)) }),
            points.map(([cx, cy], at) => (band > 12 || at === points.length - 1) && svg("circle", { class: chart.open && at === points.length - 1 ? "dot hollow" : "dot", cx: round(cx), cy: round(cy), r: at === points.length - 1 ? 4 : 2.5 })));
    });
    return { height: HEIGHT, nodes: [nodes, marks, hover] };
}

// Columns: the series are stacked; a series `below` hangs down from 0, and a series `beside` stands next to the others.
export function columns(chart, width, name) {
    const [below, beside, stack] = [(one) => one.below, (one) => one.beside, (one) => !one.below && !one.beside].map((fits) => drawn(chart).filter(fits));
    const highest = (series) => Math.max(0, ...chart.labels.map((_, at) => series.reduce((sum, { values }) => sum + Number(values[at]), 0)));
    const { x, y, band, nodes, hover } = axes(chart, width, ticks(Math.max(highest(stack), highest(beside)), highest(below), chart.whole));
    const [wide, narrow] = (beside.length ? [0.52, 0.26] : [0.72, 0]).map((part) => Math.max(1, Math.min(48, band * part)));
    const marks = chart.labels.map((_, at) => [[stack, 0, wide, 1], [below, 0, wide, -1], [beside, wide + 1, narrow, 1]].map(([series, shift, size, sign]) => {
        let sum = 0;
        const from = x(at) - (beside.length ? wide + narrow : wide) / 2 + shift;
        return series.map(({ tone, values }) => {
            const [before, after] = [sum, (sum += sign * Number(values[at]))].map(y);
            return before !== after && bar(name, tone, from, Math.min(before, after), size, Math.abs(after - before), chart.open && at === chart.labels.length - 1);
        });
    }));
    return { height: HEIGHT, nodes: [nodes, marks, hover] };
}

const bar = (name, tone, x, y, width, height, open) =>
    svg("rect", { class: `bar t${tone}${open ? " open" : ""}`, fill: `url(#${name}-${tone})`, x: round(x), y: round(y), width: round(width), height: Math.max(1, round(height)) });

const ROWS_MAX = 12;

// A bar for each label, under its name.
export function rows(chart, width, name) {
    const [one] = drawn(chart);
    const most = Math.max(...numbers(one)) || 1;
    const nodes = chart.labels.slice(0, ROWS_MAX).map((label, at) => {
        const text = one.show(one.values[at], at);
        const size = (Number(one.values[at]) / most) * width;
        return [
            svg("text", { class: "name", x: 0, y: at * 38 + 14 }, cut(label, width - text.length * 8 - 12)),
            svg("text", { class: "name", x: width, y: at * 38 + 14, "text-anchor": "end" }, text),
            svg("rect", { class: "rail", x: 0, y: at * 38 + 20, width, height: 10 }),
            size > 0 && bar(name, one.tone, 0, at * 38 + 20, Math.max(2, size), 10),
        ];
    });
    return { height: Math.min(chart.labels.length, ROWS_MAX) * 38, nodes };
}

// A pattern of strokes in the colour of the card over the colour of the series, so that series differ without their colours.
const STROKES = ["", "M-2 2L2-2M0 8L8 0M6 10L10 6", "M1 2h2M5 6h2", "M4 0V8", "M0 8L8 0M0 0L8 8", "M0 4H8", "M0 0L8 8M-2 6L2 10M6-2L10 2", "M4 1V7M1 4H7"];

const pattern = (name, tone) => svg("pattern", { id: `${name}-${tone}`, class: `t${tone}`, width: 8, height: 8, patternUnits: "userSpaceOnUse" },
    svg("rect", { class: "fill", width: 8, height: 8 }), svg("path", { class: "over", d: STROKES[tone - 1] }));

// The plot in a figure, drawn in the width that the page has.
export function plot(draw, chart) {
    const name = id();
    const picture = svg("svg", { role: "img", "aria-label": chart.label, class: "plot" });
    const shown = drawn(chart);
    let last = 0;
    const redraw = (width) => {
        if (width === last) return;
        last = width;
        const { height, nodes } = draw(chart, width, name);
        picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
        picture.setAttribute("height", height);
        replace(picture, svg("defs", {}, shown.map(({ tone }) => pattern(name, tone))), nodes);
    };
    redraw(560);
    const key = ({ name: text, tone, dashed }) => el("li", {}, svg("svg", { class: `key t${tone}`, width: 24, height: 12, "aria-hidden": "true" },
        draw === lines ? svg("path", { class: dashed ? "line dashed" : "line", d: "M0 6H24" }) : svg("rect", { class: "bar", fill: `url(#${name}-${tone})`, width: 24, height: 12 })), text);
    const numbersTable = () => table(chart.title, [
        { name: chart.first, cell: (at) => chart.cell?.(at) ?? chart.labels[at] },
        ...chart.series.map((one) => ({ name: one.name, kind: "number", cell: (at) => one.show(one.values[at], at) })),
    ], chart.labels.map((_, at) => at));
    const file = saveRows(chart.file, () => [[chart.first, ...chart.series.map((one) => one.name)], ...(chart.keys ?? chart.labels).map((key, at) => [key, ...chart.series.map(({ values }) => values[at])])]);
    file.setAttribute("aria-label", `CSV of ${chart.title}`);
    const figure = el("figure", { class: "card" },
        el("figcaption", {}, el("h2", {}, chart.title), about(...chart.info), file),
        shown.length > 1 && el("ul", { class: "legend" }, shown.map(key)),
        picture,
        draw === rows && chart.labels.length > ROWS_MAX && soft(`The first ${ROWS_MAX} of ${chart.labels.length}; the table has all.`),
        chart.open && soft("Dashed: the month that still runs."),
        el("details", {}, el("summary", {}, "As a table"), numbersTable()));
    new ResizeObserver(([entry]) => redraw(Math.max(200, Math.floor(entry.contentRect.width)))).observe(figure);
    return figure;
}
