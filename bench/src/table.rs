//! What was found, as a plain table: the figure, what it is compared with in the same run, and the goal.

use std::fmt;

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
}

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    what: String,
    figure: f64,
    beside: Option<(String, f64)>,
    goal: Option<Goal>,
}

/// Figures that belong together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    title: String,
    rows: Vec<Row>,
}

impl Row {
    /// A figure; its unit is part of `what`.
    pub fn new(what: impl Into<String>, figure: f64) -> Self {
        Self {
            what: what.into(),
            figure,
            beside: None,
            goal: None,
        }
    }

    /// What it is compared with. A goal is then one of the ratio of the two.
    pub fn beside(mut self, what: impl Into<String>, figure: f64) -> Self {
        self.beside = Some((what.into(), figure));
        self
    }

    /// What it should be.
    pub fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// What was measured.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What came out.
    pub fn figure(&self) -> f64 {
        self.figure
    }

    fn ratio(&self) -> Option<f64> {
        let (_, other) = self.beside.as_ref()?;
        Some(self.figure / other)
    }

    /// Whether the goal is met, if there is one.
    pub fn is_met(&self) -> Option<bool> {
        let judged = self.ratio().unwrap_or(self.figure);
        self.goal.map(|goal| match goal {
            Goal::AtLeast(least) => judged >= least,
            Goal::AtMost(most) => judged <= most,
        })
    }
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a figure.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Its figures.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, ">= {least}"),
            Self::AtMost(most) => write!(f, "<= {most}"),
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |cells: [&str; 5]| {
            let [what, figure, beside, ratio, goal] = cells;
            let line = format!("{what:<46} {figure:>9}  {beside:<36} {ratio:>6}  {goal}");
            line.trim_end().to_owned()
        };
        let title = self.title.as_str();
        write!(f, "{}", line([title, "figure", "beside", "ratio", "goal"]))?;
        for row in &self.rows {
            let beside = row.beside.as_ref();
            let beside = beside.map(|(what, figure)| format!("{} {what}", short(*figure)));
            let ratio = row.ratio().map(|ratio| format!("{ratio:.2}"));
            let goal = row.goal.map(|goal| match row.is_met() {
                Some(true) => format!("{goal}: met"),
                _ => format!("{goal}: MISSED"),
            });
            let what = format!("  {}", row.what);
            let cells = [
                what.as_str(),
                &short(row.figure),
                &beside.unwrap_or_default(),
                &ratio.unwrap_or_default(),
                &goal.unwrap_or_default(),
            ];
            write!(f, "\n{}", line(cells))?;
        }
        Ok(())
    }
}

/// Three digits or so are all that a measurement is good for.
fn short(figure: f64) -> String {
    match figure.abs() {
        many if many >= 100.0 => format!("{figure:.0}"),
        some if some >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_one_of_the_ratio_where_there_is_something_beside() {
        let row = Row::new("PVs per second", 500.0).beside("bare client", 1000.0);
        assert_eq!(row.clone().goal(Goal::AtLeast(0.4)).is_met(), Some(true));
        assert_eq!(row.clone().goal(Goal::AtLeast(0.6)).is_met(), Some(false));
        assert_eq!(row.is_met(), None);
    }

    #[test]
    fn a_goal_is_one_of_the_figure_where_there_is_nothing_beside() {
        let row = Row::new("MB resident", 15.1).goal(Goal::AtMost(15.0));
        assert_eq!(row.is_met(), Some(false));
    }

    #[test]
    fn a_table_is_read_at_a_glance() {
        let mut table = Table::new("1000 claims");
        let row = Row::new("PVs per second", 123.4).beside("bare client", 1234.5);
        table.add(row.goal(Goal::AtLeast(0.4)));
        table.add(Row::new("MB resident", 9.87));
        let told = table.to_string();
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].starts_with("1000 claims "), "{told}");
        assert!(lines[1].contains("123  1234 bare client"), "{told}");
        assert!(lines[1].ends_with("0.10  >= 0.4: MISSED"), "{told}");
        assert!(lines[2].ends_with("9.87"), "{told}");
    }
}
