//! Tables and lists of fields.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

/// Width that a table must fit where the screen does not say another.
const WIDTH: u16 = 100;

/// A column: its title, the field it shows, and whether it is for `wide` only.
pub struct Column {
    title: &'static str,
    path: &'static str,
    wide: bool,
}

impl Column {
    /// A column that is always shown. `path` walks objects by `.`; a list shows its parts by comma.
    pub const fn new(title: &'static str, path: &'static str) -> Column {
        Column { title, path, wide: false }
    }

    /// A column that `-o wide` and csv add.
    pub const fn wide(title: &'static str, path: &'static str) -> Column {
        Column { title, path, wide: true }
    }
}

/// The table.
pub fn render(rows: &[Value], columns: &[Column], wide: bool) -> String {
    let shown: Vec<&Column> = columns.iter().filter(|column| wide || !column.wide).collect();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(shown.iter().map(|column| column.title));
    if !wide {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    }
    for row in rows {
        table.add_row(shown.iter().map(|column| field(row, column.path)));
    }
    let text = table.to_string();
    text.lines().fold(String::new(), |text, line| text + line.trim() + "\n")
}

/// Comma-separated, with every column.
pub fn csv(rows: &[Value], columns: &[Column]) -> String {
    let quote = |cell: String| {
        let needs = cell.contains([',', '"', '\n', '\r']);
        if needs { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell }
    };
    let head: Vec<String> = columns.iter().map(|column| column.title.to_lowercase()).collect();
    let mut out = head.join(",") + "\n";
    for row in rows {
        let cells: Vec<String> = columns.iter().map(|column| quote(field(row, column.path))).collect();
        out += &(cells.join(",") + "\n");
    }
    out
}

/// The text of a field; `-` where it is unknown. Control characters never reach a terminal.
pub fn field(row: &Value, path: &str) -> String {
    let mut value = row;
    for part in path.split('.') {
        if let Value::Array(items) = value {
            let rest: Vec<String> = items.iter().map(|item| field(item, part)).collect();
            return joined(rest);
        }
        value = value.get(part).unwrap_or(&Value::Null);
    }
    text(value)
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.chars().filter(|c| !c.is_control()).collect(),
        Value::Array(items) => joined(items.iter().map(text).collect()),
        Value::Object(map) => {
            joined(map.iter().map(|(key, value)| format!("{key}={}", text(value))).collect())
        }
    }
}

fn joined(parts: Vec<String>) -> String {
    if parts.is_empty() { "-".to_owned() } else { parts.join(",") }
}

/// Fields of one thing, one a line.
pub fn fields(value: &Value, shown: &[(&str, &str)]) -> String {
    let width = shown.iter().map(|(title, _)| title.len()).max().unwrap_or(0);
    shown
        .iter()
        .fold(String::new(), |out, (title, path)| out + &format!("{title:width$}  {}\n", field(value, path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_walked() {
        let row = json!({"a": {"b": 1}, "list": [{"id": "x"}, {"id": "y"}], "none": null, "yes": true,
            "evil": "a\u{1b}[2Jb", "map": {"k": "v"}, "empty": []});
        let check = |path, expected: &str| assert_eq!(field(&row, path), expected, "{path}");
        check("a.b", "1");
        check("list.id", "x,y");
        check("none", "-");
        check("missing.deep", "-");
        check("yes", "yes");
        check("evil", "a[2Jb");
        check("map", "k=v");
        check("empty", "-");
    }

    #[test]
    fn a_table_fits_a_hundred_columns() {
        let rows = vec![json!({"name": "gpu001", "text": "word ".repeat(60)})];
        let columns =
            [Column::new("NAME", "name"), Column::new("TEXT", "text"), Column::wide("MORE", "text")];
        let table = render(&rows, &columns, false);
        assert!(table.lines().count() > 3, "the long text wraps:\n{table}");
        assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let rows = vec![json!({"name": "a,b", "text": "say \"no\""})];
        let columns = [Column::new("NAME", "name"), Column::new("TEXT", "text")];
        assert_eq!(csv(&rows, &columns), "name,text\n\"a,b\",\"say \"\"no\"\"\"\n");
    }
}
