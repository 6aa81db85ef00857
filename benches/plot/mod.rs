//! Charts as SVG files in `benches/plots`, which the README shows.

#![expect(clippy::float_arithmetic, reason = "places on paper, not money")]

use std::fmt::Write as _;
use std::path::Path;

const WIDTH: f64 = 800.0;
const PAPER: &str = "#ffffff";
const INK: &str = "#24292f";
const PALE: &str = "#6e7781";
const GRID: &str = "#e4e8ec";
/// From dark to light, so that people who do not see colours can distinguish the lines too.
const COLOURS: [&str; 6] = ["#0b3d91", "#c2410c", "#0f8a6a", "#7c3aed", "#d6336c", "#8a6d1d"];

/// The points of a line, ordered along the horizontal axis.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The SVG text of a chart so far, and its height.
struct Paper(String, f64);

impl Paper {
    fn new(height: f64, title: &str) -> Self {
        let mut paper = Self(String::new(), height);
        paper.text(24.0, 34.0, &Style { size: 18, ..Style::default() }, title);
        paper
    }

    fn text(&mut self, x: f64, y: f64, style: &Style, text: &str) {
        let Style { size, colour, anchor, turned } = style;
        let turn =
            if *turned { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\" \
             text-anchor=\"{anchor}\"{turn}>{text}</text>"
        )
        .unwrap();
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        let ((x1, y1), (x2, y2)) = (from, to);
        writeln!(
            self.0,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" \
             stroke-width=\"{width}\"/>"
        )
        .unwrap();
    }

    fn bar(&mut self, x: f64, y: f64, (width, height): (f64, f64), colour: &str) {
        writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\" rx=\"2\"/>"
        )
        .unwrap();
    }

    fn curve(&mut self, points: &[(f64, f64)], colour: &str) {
        let path: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let path = path.join(" ");
        writeln!(
            self.0,
            "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\" \
             stroke-linejoin=\"round\"/>"
        )
        .unwrap();
        for (x, y) in points {
            writeln!(self.0, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>")
                .unwrap();
        }
    }

    fn save(self, title: &str) {
        let Self(body, height) = self;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/plots");
        std::fs::create_dir_all(&folder).unwrap();
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"system-ui, sans-serif\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"{PAPER}\"/>\n{body}</svg>\n"
        );
        std::fs::write(folder.join(file_name(title)), svg).unwrap();
    }
}

struct Style {
    size: u8,
    colour: &'static str,
    anchor: &'static str,
    turned: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { size: 13, colour: INK, anchor: "start", turned: false }
    }
}

impl Style {
    fn pale(anchor: &'static str) -> Self {
        Self { colour: PALE, anchor, ..Self::default() }
    }
}

/// A title as the name of a file: up to its first comma or colon, in small letters.
fn file_name(title: &str) -> String {
    let short = title.split([',', ':']).next().unwrap_or(title);
    format!("{}.svg", short.trim().to_lowercase().replace(' ', "-"))
}

/// The steps of an axis: 1, 2, 5, 10, 20 and so on.
fn steps() -> impl Iterator<Item = f64> {
    (0..13).flat_map(|tens| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(tens)))
}

/// Draws lines in a chart whose two axes are logarithmic.
///
/// `unit` formats a value of the vertical axis.
pub(crate) fn lines(title: &str, over: &str, unit: impl Fn(f64) -> String, lines: &[Line]) {
    let (left, right, top, bottom) = (92.0_f64, 560.0, 64.0, 380.0);
    let all = || lines.iter().flat_map(|line| line.points.iter().copied());
    let span = |values: &mut dyn Iterator<Item = f64>| {
        let (low, high) = values
            .fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        let low = steps().take_while(|step| *step <= low * 1.001).last().unwrap_or(1.0);
        let high = steps().find(|step| *step >= high * 0.999).unwrap_or(high);
        (low.log10(), high.log10())
    };
    let across = span(&mut all().map(|(x, _)| x));
    let up = span(&mut all().map(|(_, y)| y));
    let share = |value: f64, (low, high): (f64, f64)| (value.log10() - low) / (high - low);
    let x_of = |value: f64| left + (right - left) * share(value, across);
    let y_of = |value: f64| bottom - (bottom - top) * share(value, up);
    // If an axis has few powers of ten, 2 and 5 are marked too.
    let marks = |(low, high): (f64, f64)| {
        let every = if high - low < 2.5 { 1 } else { 3 };
        let (low, high) = (10_f64.powf(low) * 0.999, 10_f64.powf(high) * 1.001);
        steps()
            .step_by(every)
            .filter(move |step| *step >= low)
            .take_while(move |step| *step <= high)
    };

    let mut paper = Paper::new(436.0, title);
    for value in marks(up) {
        let y = y_of(value);
        paper.line((left, y), (right, y), GRID, 1.0);
        paper.text(left - 10.0, y + 4.5, &Style::pale("end"), &unit(value));
    }
    for value in marks(across) {
        let x = x_of(value);
        paper.line((x, bottom), (x, bottom + 5.0), PALE, 1.0);
        paper.text(x, bottom + 21.0, &Style::pale("middle"), &grouped(value));
    }
    paper.line((left, bottom), (right, bottom), PALE, 1.0);
    let middle = f64::midpoint(left, right);
    paper.text(middle, bottom + 44.0, &Style { anchor: "middle", ..Style::default() }, over);

    // Names stand where their lines end, pushed apart where they would touch.
    let mut names: Vec<(f64, &str, String)> = Vec::new();
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let points: Vec<_> = line.points.iter().map(|(x, y)| (x_of(*x), y_of(*y))).collect();
        paper.curve(&points, colour);
        let end = points.last().map_or(bottom, |(_, y)| *y);
        let value = line.points.last().map(|(_, y)| unit(*y)).unwrap_or_default();
        names.push((end, colour, format!("{}: {value}", line.name)));
    }
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = top - 20.0;
    for (end, colour, name) in names {
        let y = f64::max(end, free);
        free = y + 19.0;
        paper.text(right + 16.0, y + 4.5, &Style { colour, ..Style::default() }, &name);
    }
    paper.save(title);
}

/// Draws bars, each with a mark at its goal.
pub(crate) fn bars(title: &str, bars: &[(&str, f64, f64)]) {
    let (left, right, top, row) = (330.0, 740.0, 64.0, 40.0);
    let most = bars.iter().map(|(_, value, goal)| value.max(*goal)).fold(1.0, f64::max);
    let x_of = |value: f64| left + (right - left) * value / (most * 1.08);
    let rows = f64::from(u32::try_from(bars.len()).unwrap_or(u32::MAX));
    let bottom = top + row * rows;
    let mut paper = Paper::new(bottom + 56.0, title);
    let step = if most > 4.0 { 1.0 } else { 0.25 };
    let mut tick = 0.0;
    while tick <= most * 1.08 {
        let x = x_of(tick);
        paper.line((x, top), (x, bottom), GRID, 1.0);
        paper.text(x, bottom + 20.0, &Style::pale("middle"), &trimmed(tick));
        tick += step;
    }
    let mut y = top;
    for (label, value, goal) in bars {
        let colour = if value >= goal { "#0f8a6a" } else { "#e08a3c" };
        paper.text(left - 12.0, y + 25.0, &Style { anchor: "end", ..Style::default() }, label);
        paper.bar(left, y + 9.0, (x_of(*value) - left, 22.0), colour);
        // The number stands inside the bar if there is room, so that no goal crosses it.
        let told = format!("{value:.2}");
        if x_of(*value) - left > 60.0 {
            let style = Style { colour: PAPER, anchor: "end", ..Style::default() };
            paper.text(x_of(*value) - 8.0, y + 24.5, &style, &told);
        } else {
            paper.text(x_of(*value) + 8.0, y + 24.5, &Style::default(), &told);
        }
        let goal = x_of(*goal);
        paper.line((goal, y + 4.0), (goal, y + 36.0), INK, 3.0);
        y += row;
    }
    paper.line((left, top), (left, bottom), PALE, 1.0);
    let legend = "black marks are goals; green bars meet theirs";
    paper.text(left, bottom + 44.0, &Style::pale("start"), legend);
    paper.save(title);
}

/// A time in nanoseconds as text, in the unit that fits it.
pub(crate) fn time(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", trimmed(value))
}

/// A number with separators, such as 12,345.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with three digits, or with fewer if the last ones are zeros.
fn trimmed(value: f64) -> String {
    let text = match value {
        value if value >= 99.5 => return format!("{value:.0}"),
        value if value >= 9.95 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
