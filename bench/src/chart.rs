//! Figures as a picture: grouped bars on a logarithmic scale, because a scan and a store differ by a factor of about
//! ten thousand.

use std::fmt::Write;

const BAR: f64 = 16.0;
const GAP: f64 = 24.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 64.0;
const HEIGHT: f64 = 300.0;
/// Height of a line of the legend.
const LINE: f64 = 18.0;
/// Average width of a letter of a group's label.
const LETTER: f64 = 6.5;
/// Width of an entry of the legend.
const ENTRY: f64 = 190.0;

/// Colours that people with impaired colour vision can tell apart (Tol's, muted), then shades of them.
const COLOURS: [&str; 9] =
    ["#332288", "#88ccee", "#44aa99", "#117733", "#999933", "#ddcc77", "#cc6677", "#882255", "#aa4499"];

/// The bars of one contestant: for each group in which it has a bar, its value, and perhaps what somebody else found.
pub(crate) type Series = (String, Vec<Option<Bar>>);

/// A bar, and where a mark stands beside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bar {
    pub(crate) value: f64,
    pub(crate) mark: Option<f64>,
}

impl From<f64> for Bar {
    fn from(value: f64) -> Self {
        Self { value, mark: None }
    }
}

/// Draws one bar per series in each group; `unit` is the unit of the values, and `marks` says what marks are.
pub(crate) fn draw(title: &str, unit: &str, marks: &str, groups: &[String], series: &[Series]) -> String {
    let bars = || series.iter().flat_map(|(_, bars)| bars.iter().flatten());
    let values = || bars().flat_map(|bar| [Some(bar.value), bar.mark]).flatten().filter(|value| *value > 0.0);
    let has_marks = bars().any(|bar| bar.mark.is_some());
    let bottom = values().fold(f64::INFINITY, f64::min).log10().floor();
    let decades = (values().fold(0.0, f64::max).log10().ceil() - bottom).max(1.0);
    let bottom = if bottom.is_finite() { bottom } else { 0.0 };
    let decades = if decades.is_finite() { decades } else { 1.0 };
    let y = |value: f64| TOP + HEIGHT * (1.0 - (value.log10() - bottom) / decades);

    let bars = series.len() as f64 * BAR;
    let widest = groups.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let group = bars.max(widest as f64 * LETTER) + GAP;
    let width = LEFT + (groups.len() as f64 * group).max(560.0) + GAP;
    let columns = ((width - LEFT) / ENTRY).max(1.0) as usize;
    let floor = TOP + HEIGHT;
    let legend = floor + 44.0;
    let height = legend + series.len().div_ceil(columns) as f64 * LINE;

    // Writing to a string does not fail.
    let mut svg = String::new();
    let _ = writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#fff"/>
<text x="{LEFT}" y="22" font-size="14">{}</text>"##,
        escaped(title)
    );
    for decade in 0..=decades as i32 {
        let value = 10f64.powf(bottom + f64::from(decade));
        let y = y(value);
        let right = width - GAP;
        let _ = writeln!(
            svg,
            r##"<line x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}" stroke="#ddd"/><text x="{}" y="{:.1}" text-anchor="end">{value}</text>"##,
            LEFT - 8.0,
            y + 4.0
        );
    }
    for (i, label) in groups.iter().enumerate() {
        let middle = LEFT + (i as f64 + 0.5) * group;
        let left = middle - bars / 2.0;
        for (j, (name, values)) in series.iter().enumerate() {
            let Some(bar) = values.get(i).copied().flatten().filter(|bar| bar.value > 0.0) else { continue };
            let value = bar.value;
            let place = y;
            let (x, y) = (left + j as f64 * BAR, place(value));
            let _ = writeln!(
                svg,
                r##"<rect x="{x:.1}" y="{y:.1}" width="{}" height="{:.1}" fill="{}" opacity="{}"><title>{}, {}: {value:.1} {unit}</title></rect>
<text transform="translate({:.1} {:.1}) rotate(-90)" font-size="9">{}</text>"##,
                BAR - 2.0,
                floor - y,
                COLOURS[j % COLOURS.len()],
                opacity(j),
                escaped(name),
                escaped(label),
                x + 10.0,
                y - 3.0,
                figure(value),
            );
            if let Some(mark) = bar.mark.filter(|mark| *mark > 0.0) {
                let (y, end) = (place(mark), x + BAR);
                let _ = writeln!(
                    svg,
                    r##"<path d="M{:.1} {y:.1}H{end:.1}" stroke="#c00" stroke-width="3"><title>{}: {mark:.1} {unit}</title></path>"##,
                    x - 2.0,
                    escaped(marks),
                );
            }
        }
        let (below, label) = (floor + 18.0, escaped(label));
        let _ = writeln!(svg, r##"<text x="{middle:.1}" y="{below}" text-anchor="middle">{label}</text>"##);
    }
    for (j, (name, _)) in series.iter().enumerate() {
        let (x, y) = (LEFT + (j % columns) as f64 * ENTRY, legend + (j / columns) as f64 * LINE);
        let _ = writeln!(
            svg,
            r##"<rect x="{x}" y="{}" width="12" height="12" fill="{}" opacity="{}"/><text x="{}" y="{y}">{}</text>"##,
            y - 10.0,
            COLOURS[j % COLOURS.len()],
            opacity(j),
            x + 18.0,
            escaped(name)
        );
    }
    if has_marks {
        let _ = writeln!(
            svg,
            r##"<path d="M{} 38h16" stroke="#c00" stroke-width="3"/><text x="{}" y="42">{}</text>"##,
            LEFT,
            LEFT + 22.0,
            escaped(marks)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Series after those with a colour of their own are paler.
fn opacity(series: usize) -> f64 {
    0.5f64.powi((series / COLOURS.len()) as i32)
}

fn figure(value: f64) -> String {
    if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_bar() {
        let groups = ["insert", "get"].map(str::to_owned);
        let series = vec![
            ("circular 512".to_owned(), vec![Some(150.0.into()), Some(Bar { value: 90.0, mark: Some(4e5) })]),
            ("a<b".to_owned(), vec![None, Some(12_345.6.into())]),
        ];
        let svg = draw("Keys & values", "ns", "elsewhere", &groups, &series);
        assert_eq!(svg.matches("<title>").count(), 4);
        // A mark above all bars is in the picture.
        assert!(svg.contains("elsewhere: 400000.0 ns") && !svg.contains("y=\"-"), "{svg}");
        assert!(svg.contains("Keys &amp; values") && svg.contains("a&lt;b, get: 12345.6 ns"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let nothing = draw("", "ns", "", &[], &[]);
        assert!(!nothing.contains("NaN") && !nothing.contains("inf"), "{nothing}");
    }
}
