//! The results of a figure: rows, as a table, as JSON and as a picture.

use super::figures::{Figure, Show};
use super::page;
use super::plan::Plan;
use super::tree;
use crate::clock;
use crate::counts::PerOp;
use crate::out::{self, Outcome};
use bristlecone::arch::Flush;
use bristlecone::medium::LINE;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The place of a row on the axes of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) bytes: u32,
    pub(crate) n: u64,
    pub(crate) threads: u32,
    /// The extra nanoseconds per flushed line, where it is timed.
    pub(crate) slow: Option<u64>,
}

/// One contestant at one setting in one step.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) tree: &'static str,
    setting: Setting,
    mix: &'static str,
    /// What distinguishes the mix from others with the same name.
    percent: Option<(&'static str, f64)>,
    /// The number of the step, where the same step comes several times.
    pub(crate) part: Option<usize>,
    /// The figure's own number, for each repeat.
    pub(crate) series: Vec<f64>,
    /// Nanoseconds per operation, from start to end, for each repeat.
    pub(crate) wall: Vec<f64>,
    /// The geometric mean of single operations, for each repeat.
    pub(crate) geometric: Vec<f64>,
    pub(crate) counts: Option<PerOp>,
    /// Further numbers, by their JSON keys.
    pub(crate) more: Vec<(&'static str, f64)>,
    /// The ratio to the figure's subject.
    ratio: Option<f64>,
}

impl Row {
    pub(crate) fn new(
        tree: &'static str,
        setting: Setting,
        mix: &'static str,
        percent: Option<(&'static str, f64)>,
    ) -> Self {
        let (series, wall, geometric, more) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { tree, setting, mix, percent, part: None, series, wall, geometric, counts: None, more, ratio: None }
    }

    /// The lines per operation.
    pub(crate) fn lines(&self) -> f64 {
        self.counts.map_or(f64::NAN, |counts| counts.lines)
    }

    /// Whether both rows measure the same, apart from the contestant.
    fn is_beside(&self, other: &Self) -> bool {
        (self.setting, self.mix, self.percent, self.part) == (other.setting, other.mix, other.percent, other.part)
    }

    /// The mix, with what distinguishes it from others with the same name.
    pub(crate) fn mix(&self) -> String {
        let percent = self.percent.map_or_else(String::new, |(_, percent)| format!(" {percent} %"));
        let part = self.part.map_or_else(String::new, |part| format!(" #{part}"));
        format!("{}{percent}{part}", self.mix)
    }

    pub(crate) fn json(&self, figure: &Figure, plan: &Plan) -> Value {
        let mut object = Map::new();
        let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
        put("figure", figure.id.into());
        put("tree", self.tree.into());
        put("node_bytes", self.setting.bytes.into());
        put("n", self.setting.n.into());
        put("threads", self.setting.threads.into());
        put("mix", self.mix.into());
        put("flush", Flush::chosen().name().into());
        if plan.no_prefetch {
            put("prefetch", false.into());
        }
        put("repeat", plan.repeat.into());
        put("seed", plan.seed.into());
        if let Some(slow) = self.setting.slow {
            put("slow_ns", slow.into());
        }
        if let Some((key, percent)) = self.percent {
            put(key, percent.into());
        }
        if let Some(part) = self.part {
            put("part", part.into());
        }
        if let Some(PerOp { lines, fences, orders, bytes }) = self.counts {
            let counts = [("lines", lines), ("fences", fences), ("orders", orders), ("bytes", bytes)];
            for (what, count) in counts {
                put(&format!("{what}_per_op"), json!(out::rounded(count, 4)));
            }
            put("flushed_bytes_per_op", json!(out::rounded(lines * LINE as f64, 2)));
        }
        if !self.series.is_empty() {
            put(figure.show.key(), json!(out::rounded(clock::median(&self.series), 4)));
        }
        if self.series.len() > 1 {
            let clock::Runs { min, max, .. } = clock::Runs::of(&self.series);
            put("least", json!(out::rounded(min, 4)));
            put("greatest", json!(out::rounded(max, 4)));
        }
        if !self.wall.is_empty() {
            put("wall_ns_per_op", json!(out::rounded(clock::median(&self.wall), 2)));
        }
        if !self.geometric.is_empty() {
            put("geometric_ns_per_op", json!(out::rounded(clock::median(&self.geometric), 2)));
        }
        for (key, value) in &self.more {
            put(key, json!(out::rounded(*value, 4)));
        }
        if let Some(ratio) = self.ratio {
            put("ratio", json!(out::rounded(ratio, 4)));
        }
        Value::Object(object)
    }

    fn line(&self) -> String {
        let Setting { bytes, n, threads, slow } = self.setting;
        let slow = slow.map_or_else(|| "-".to_owned(), |slow| slow.to_string());
        let number = if self.series.is_empty() {
            format!("{:>10} {:21}", "-", "")
        } else {
            let clock::Runs { median, min, max } = clock::Runs::of(&self.series);
            format!("{median:10.2} ({min:9.2} {max:9.2})")
        };
        let ratio = self.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let counts = self.counts.map_or_else(String::new, |c| {
            format!("  {:7.2} {:7.2} {:7.2} {:8.1}", c.lines, c.fences, c.orders, c.bytes)
        });
        let more: String = self.more.iter().map(|(key, value)| format!("  {key} {value:.1}")).collect();
        format!(
            "{:17} {bytes:>5} {:>11} {threads:>3} {slow:>5}  {:24} {number} {ratio:>7}{counts}{more}",
            self.tree,
            out::count(n),
            self.mix(),
        )
    }
}

/// Compares each row with that of the subject at the same place, repeat by repeat, because they took turns.
pub(crate) fn compare(rows: &mut [Row], subject: &str) {
    let subjects: Vec<Row> = rows.iter().filter(|row| row.tree == subject).cloned().collect();
    for row in rows {
        let Some(beside) = subjects.iter().find(|subject| subject.is_beside(row)) else { continue };
        let ratios: Vec<f64> = row.series.iter().zip(&beside.series).map(|(number, of)| number / of).collect();
        row.ratio = Some(clock::median(&ratios)).filter(|ratio| ratio.is_finite());
    }
}

/// Computes the share of a part in the lines of the first of each pair, in percent, with the help of the second: see
/// [`Show::Inner`] and [`Show::Sorting`].
pub(crate) fn shares(rows: &mut [Row], pairs: &[(&str, &str)], part: impl Fn(&Row, &Row) -> f64) {
    let known = rows.to_vec();
    for row in rows {
        row.series.clear();
        let Some((_, leaves)) = pairs.iter().find(|(whole, _)| *whole == row.tree) else { continue };
        let beside = known.iter().find(|other| other.tree == *leaves && other.is_beside(row));
        let share = beside.map(|leaves| part(row, leaves) / row.lines() * 100.0);
        row.series.extend(share.filter(|share| share.is_finite()));
    }
}

/// Where the rows are printed.
pub(crate) struct Sink<'p> {
    plan: &'p Plan,
    file: Option<(&'p Path, File)>,
    /// Whether JSON replaces the tables.
    instead: bool,
}

impl<'p> Sink<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Outcome<Self> {
        let instead = plan.json.as_deref() == Some(Path::new("-"));
        let file = match plan.json.as_deref().filter(|_| !instead) {
            Some(path) => Some((path, File::create(path).map_err(|error| format!("{}: {error}", path.display()))?)),
            None => None,
        };
        Ok(Self { plan, file, instead })
    }

    fn json(&mut self, object: &Value) -> Outcome<()> {
        match &mut self.file {
            Some((path, file)) => writeln!(file, "{object}").map_err(|error| format!("{}: {error}", path.display()))?,
            None if self.instead => out::json(object)?,
            None => {}
        }
        Ok(())
    }

    fn text(&self, text: &str) -> Outcome<()> {
        if !self.instead {
            out::text(text)?;
        }
        Ok(())
    }

    /// Prints something that must not be overlooked.
    pub(crate) fn note(&self, note: &str) -> Outcome<()> {
        if self.instead {
            out::aside(&format!("bristlecone: {note}"));
            return Ok(());
        }
        self.text(note)
    }

    /// Reports which contestants do not take part.
    pub(crate) fn absent(&self, names: &[&str], bytes: Option<u32>) -> Outcome<()> {
        if names.is_empty() {
            return Ok(());
        }
        let with = bytes.map_or_else(String::new, |bytes| format!(" with nodes of {bytes} bytes"));
        self.note(&format!("not available{with}: {}", names.join(", ")))
    }

    /// Prints a figure in the list of all figures.
    pub(crate) fn list(&mut self, figure: &Figure) -> Outcome<()> {
        let Figure { id, title, claim, subject, trees, .. } = *figure;
        let absent: Vec<_> = trees.iter().filter(|name| tree::find(name).is_none()).collect();
        self.json(&json!({
            "figure": id, "title": title, "claim": claim, "subject": subject, "trees": trees, "not_available": absent,
        }))?;
        self.text(&format!("{id:14} {title}: {claim}"))
    }

    /// Prints what comes before the rows of a figure.
    pub(crate) fn head(&self, figure: &Figure) -> Outcome<()> {
        let Figure { id, title, claim, subject, show, .. } = *figure;
        self.text(&format!("{id}: {title}\nThe paper: {claim}"))?;
        if let Show::Nothing(_) = show {
            return Ok(());
        }
        let of = if subject.is_empty() { String::new() } else { format!("; ratio: to {subject}") };
        self.text(&format!(
            "{}, median of {}{of}; seed {}; lines, fences, order points and bytes stored: exact, per operation\n\n\
             {:17} {:>5} {:>11} {:>3} {:>5}  {:24} {:>10} {:>21} {:>7}    lines  fences  orders    bytes",
            show.unit(),
            out::counted(self.plan.repeat.into(), "repeat", "repeats"),
            self.plan.seed,
            "tree",
            "bytes",
            "keys",
            "thr",
            "slow",
            "mix",
            show.unit(),
            "(least greatest)",
            "ratio",
        ))
    }

    /// Compares the claims with what was found, where it was.
    pub(crate) fn judged(&self, figure: &Figure, rows: &[Value]) -> Outcome<()> {
        let judged = page::judged(figure, rows);
        for line in &judged {
            self.text(&line.text())?;
        }
        if judged.is_empty() { Ok(()) } else { self.text("") }
    }

    pub(crate) fn rows(&mut self, figure: &Figure, rows: &[Row]) -> Outcome<()> {
        for row in rows {
            self.json(&row.json(figure, self.plan))?;
            self.text(&row.line())?;
        }
        if rows.is_empty() { Ok(()) } else { self.text("") }
    }
}
