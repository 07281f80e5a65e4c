//! What was found, next to what the papers found: as text, as the tables of a page, and as pictures.

use super::all;
use super::claims::{Claim, Verdict, rounded};
use super::figures::{Figure, Metric, Show};
use crate::chart::{self, Bar};
use crate::out;
use serde_json::Value;
use std::collections::BTreeMap;

/// A claim, and what was found of it.
pub(crate) struct Judged {
    claim: &'static Claim,
    here: f64,
    /// What was found by other metrics and with other waits, by their names.
    also: Vec<(String, f64)>,
}

impl Judged {
    fn verdict(&self) -> Verdict {
        self.claim.verdict(self.here)
    }

    fn also(&self) -> String {
        let words: Vec<String> =
            self.also.iter().map(|(name, number)| format!("{name} {}", rounded(*number))).collect();
        words.join(", ")
    }

    /// A line of a report.
    pub(crate) fn text(&self) -> String {
        let Self { claim, here, .. } = self;
        let also = if self.also.is_empty() { String::new() } else { format!(" ({})", self.also()) };
        format!(
            "{}: the paper {}, here {}{also}: {}",
            claim.says(),
            claim.paper(),
            rounded(*here),
            self.verdict().name()
        )
    }
}

/// The wait for a line with which a figure is judged.
fn judged_slow(figure: &Figure) -> Option<u64> {
    (figure.show.is_timed() || figure.show == Show::Micro).then_some(figure.papers_slow)
}

/// The claims of a figure that these rows say something about.
pub(crate) fn judged(figure: &Figure, rows: &[Value]) -> Vec<Judged> {
    let of = |claim: &'static Claim| {
        let slow = judged_slow(figure);
        let here = claim.here(figure, rows, figure.metric, slow)?;
        let mut also = Vec::new();
        if figure.show == Show::Time {
            let others = Metric::ALL.into_iter().filter(|metric| *metric != figure.metric);
            also.extend(
                others.filter_map(|metric| Some((metric.name().to_owned(), claim.here(figure, rows, metric, slow)?))),
            );
        }
        // A figure of slower and slower memory has its own waits.
        for other in rows.iter().filter_map(|row| row["slow_ns"].as_u64()) {
            let name = format!("+{other} ns");
            if figure.slow.is_empty() && Some(other) != slow && also.iter().all(|(known, _)| *known != name) {
                also.extend(claim.here(figure, rows, figure.metric, Some(other)).map(|here| (name, here)));
            }
        }
        Some(Judged { claim, here, also })
    };
    figure.claims.iter().filter_map(of).collect()
}

/// The results of all figures, as a page shows them.
pub struct Page {
    /// The rows by figure, and by the instruction that wrote lines back.
    rows: BTreeMap<String, BTreeMap<String, Vec<Value>>>,
}

impl Page {
    /// Takes the rows that `--figure ... --json` printed.
    pub fn new(rows: impl IntoIterator<Item = Value>) -> Self {
        let mut page = Self { rows: BTreeMap::new() };
        for row in rows {
            let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            page.rows.entry(text("figure")).or_default().entry(text("flush")).or_default().push(row);
        }
        page
    }

    /// The rows of a figure: those with the paper's instruction first.
    fn of(&self, figure: &Figure) -> Vec<(&str, &[Value])> {
        let Some(rows) = self.rows.get(figure.id) else { return Vec::new() };
        let mut rows: Vec<(&str, &[Value])> = rows.iter().map(|(flush, rows)| (flush.as_str(), &rows[..])).collect();
        rows.sort_by_key(|(flush, _)| *flush != figure.papers_flush);
        rows
    }

    /// A table, by its name: `claims PAPER`, `grid FIGURE`, `verdicts` or `setting`.
    ///
    /// # Panics
    ///
    /// If there is no such table.
    pub fn table(&self, name: &str) -> String {
        match name.split_once(' ') {
            Some(("claims", paper)) => self.claims(paper),
            Some(("grid", id)) => self.grid(all().find(|figure| figure.id == id).expect("a figure")),
            _ if name == "verdicts" => self.verdicts(),
            _ if name == "setting" => self.setting(),
            _ => panic!("no table is named {name}"),
        }
    }

    /// What a paper claims, figure by figure.
    fn claims(&self, paper: &str) -> String {
        let mut table = "| | | the paper | here | also | |\n|---|---|---|---|---|---|\n".to_owned();
        for figure in all().filter(|figure| figure.paper() == paper) {
            let number = figure.id.split(':').nth(1).unwrap_or_default();
            let of = self.of(figure);
            let title = figure.title;
            let Some((flush, rows)) = of.first().copied() else {
                let why = if let Show::Nothing(why) = figure.show { why } else { "not run" };
                table.push_str(&format!("| **{number}** | {title}: {why} | | | | |\n"));
                continue;
            };
            table.push_str(&format!("| **{number}** | {title}: {} | | | | |\n", setting(figure, flush, rows)));
            for mut line in judged(figure, rows) {
                // Counts are the same with each instruction.
                let others = if figure.show.is_timed() { &of[1..] } else { &[] };
                for (other, rows) in others {
                    let here = line.claim.here(figure, rows, figure.metric, judged_slow(figure));
                    line.also.extend(here.map(|here| (format!("`{other}`"), here)));
                }
                let (says, paper, here) = (line.claim.says(), line.claim.paper(), rounded(line.here));
                let verdict = match line.verdict() {
                    Verdict::Holds => "**holds**",
                    other => other.name(),
                };
                table.push_str(&format!("| | {says} | {paper} | {here} | {} | {verdict} |\n", line.also()));
            }
        }
        table
    }

    /// A figure's own numbers, by tree and size, with their ratios to the subject.
    fn grid(&self, figure: &Figure) -> String {
        let of = self.of(figure);
        let rows = of.first().map_or(&[][..], |(_, rows)| rows);
        let value = |tree: &str, bytes: u32| {
            let is = |row: &&Value| {
                let slow = row["slow_ns"].as_u64();
                row["tree"] == tree && row["node_bytes"] == bytes && slow.is_none_or(|slow| slow == figure.papers_slow)
            };
            rows.iter().find(is)?[figure.show.key()].as_f64()
        };
        let sizes = figure.bytes.iter().map(|bytes| format!(" {bytes} B |")).collect::<String>();
        let mut table = format!("| {} |{sizes}\n|---|{}\n", figure.show.unit(), "---|".repeat(figure.bytes.len()));
        for &tree in figure.trees {
            let cell = |&bytes: &u32| {
                let Some(mine) = value(tree, bytes) else { return " |".to_owned() };
                let ratio = value(figure.subject, bytes).filter(|_| tree != figure.subject);
                let ratio = ratio.map_or_else(String::new, |of| format!(" ({})", rounded(mine / of)));
                format!(" {}{ratio} |", rounded(mine))
            };
            let cells: String = figure.bytes.iter().map(cell).collect();
            table.push_str(&format!("| `{tree}` |{cells}\n"));
        }
        table
    }

    /// Where the figures were run, and what was run.
    fn setting(&self) -> String {
        let found = self.rows.get("setting").and_then(|rows| rows.values().next()?.first());
        let text = |key: &str| found.map_or_else(String::new, |row| row[key].as_str().unwrap_or_default().to_owned());
        let cpus = found.and_then(|row| row["cpus"].as_u64()).unwrap_or_default();
        format!("Commit {}; {}, {cpus} CPUs; Linux {}.\n", text("commit"), text("cpu"), text("kernel"))
    }

    /// How many claims of each paper hold.
    fn verdicts(&self) -> String {
        let mut table = "| | holds | in part | no |\n|---|---|---|---|\n".to_owned();
        let mut papers: Vec<&str> = all().map(Figure::paper).collect();
        papers.dedup();
        for paper in papers {
            let mut counts = [0; 3];
            for figure in all().filter(|figure| figure.paper() == paper) {
                let of = self.of(figure);
                for line in of.first().map_or(Vec::new(), |(_, rows)| judged(figure, rows)) {
                    counts[line.verdict() as usize] += 1;
                }
            }
            let [holds, in_part, no] = counts;
            table.push_str(&format!("| `{paper}` | {holds} | {in_part} | {no} |\n"));
        }
        table
    }
}

/// How a figure was run.
fn setting(figure: &Figure, flush: &str, rows: &[Value]) -> String {
    let number = |key: &str| rows.iter().filter_map(|row| row[key].as_u64()).max().unwrap_or_default();
    let mut words = vec![format!("{} keys", out::count(number("n")))];
    if figure.show.is_timed() || figure.show == Show::Opening || figure.show == Show::Micro {
        words.push(out::counted(number("repeat"), "repeat", "repeats"));
        words.push(format!("`{flush}`"));
    }
    if figure.show == Show::Time {
        words.push(figure.metric.name().to_owned());
        if figure.slow.is_empty() {
            words.push(format!("+{} ns", figure.papers_slow));
        }
    }
    words.join(", ")
}

/// Draws every figure that has rows: the name of a file, and what is in it.
pub fn pictures(rows: impl IntoIterator<Item = Value>) -> Vec<(String, String)> {
    let page = Page::new(rows);
    let draw = |figure: &'static Figure| {
        let (_, rows) = page.of(figure).first().copied()?;
        Some((format!("{}.svg", figure.id.replace(':', "-")), picture(figure, rows)))
    };
    all().filter_map(draw).collect()
}

/// What a row has on each axis.
fn axes(row: &Value) -> [String; 5] {
    let text = |key: &str, unit: &str| row[key].as_u64().map_or_else(String::new, |number| format!("{number}{unit}"));
    let percent = ["updates_percent", "locality_percent"].into_iter().find_map(|key| row[key].as_f64());
    let percent = percent.map_or_else(String::new, |percent| format!(" {percent} %"));
    let part = row["part"].as_u64().map_or_else(String::new, |part| format!(" #{part}"));
    [
        text("node_bytes", " B"),
        out::count(row["n"].as_u64().unwrap_or_default()),
        text("threads", " thr"),
        text("slow_ns", " ns"),
        format!("{}{percent}{part}", row["mix"].as_str().unwrap_or_default()),
    ]
}

/// Draws the rows as bars, with a mark where the paper would have them. Rows at the same place form a group. Groups are
/// named by the axes on which the figure has more than one place.
pub(crate) fn picture(figure: &Figure, rows: &[Value]) -> String {
    let is_shown = |row: &&Value| {
        !figure.slow.is_empty() || row["slow_ns"].is_null() || row["slow_ns"].as_u64() == Some(figure.papers_slow)
    };
    let shown: Vec<&Value> = match rows.iter().filter(is_shown).collect::<Vec<_>>() {
        // It was run with another wait only.
        none if none.is_empty() => rows.iter().collect(),
        shown => shown,
    };
    let mut groups: Vec<[String; 5]> = Vec::new();
    let mut trees: Vec<&str> = Vec::new();
    for row in &shown {
        let (place, tree) = (axes(row), row["tree"].as_str().unwrap_or_default());
        if !groups.contains(&place) {
            groups.push(place);
        }
        if !trees.contains(&tree) {
            trees.push(tree);
        }
    }
    let bar = |tree: &str, group: &[String; 5]| {
        let row = shown.iter().find(|row| row["tree"] == tree && axes(row) == *group)?;
        let mark = figure.claims.iter().find_map(|claim| claim.mark(figure, rows, row));
        Some(Bar { value: row[figure.show.key()].as_f64()?, mark })
    };
    let series: Vec<chart::Series> =
        trees.iter().map(|&tree| (tree.to_owned(), groups.iter().map(|group| bar(tree, group)).collect())).collect();
    let varies = |axis: &usize| groups.iter().any(|group| group[*axis] != groups[0][*axis]);
    let varying: Vec<usize> = (0..5).filter(varies).collect();
    let label = |group: &[String; 5]| varying.iter().map(|&axis| group[axis].clone()).collect::<Vec<_>>().join(", ");
    let labels: Vec<String> = groups.iter().map(label).collect();
    let unit = figure.show.unit();
    let marks = "the paper's ratio to what it is compared with";
    chart::draw(&format!("{}, {}, {unit}", figure.id, figure.title), unit, marks, &labels, &series)
}
