//! What `run.sh` measured, as plots: `edge-pictures FOLDER` reads lines of
//! `proxy,µs of CPU per request,requests a second,what is spoken` and draws `cpu.svg` and
//! `throughput.svg`.

use std::error::Error;
use std::io;
use std::path::Path;

#[path = "../plot.rs"]
mod plot;

use plot::{Axes, Bars};

struct Row {
    proxy: String,
    cpu: f64,
    rate: f64,
    spoken: String,
}

impl Row {
    fn parse(line: &str) -> Result<Self, Box<dyn Error>> {
        let fields: Vec<&str> = line.splitn(4, ',').collect();
        let [proxy, cpu, rate, spoken] = fields[..] else {
            return Err(format!("not a row: {line}").into());
        };
        Ok(Self {
            proxy: proxy.to_owned(),
            cpu: cpu.parse()?,
            rate: rate.parse()?,
            spoken: spoken.to_owned(),
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args()
        .nth(1)
        .ok_or("usage: edge-pictures FOLDER")?;
    let rows = io::stdin()
        .lines()
        .map(|line| Row::parse(&line?))
        .collect::<Result<Vec<_>, _>>()?;
    let folder = Path::new(&folder);
    let axes = Axes::new("One core, 64 connections: CPU time", "", "µs per request");
    draw(&rows, &folder.join("cpu.svg"), &axes, |row| row.cpu)?;
    let axes = Axes::new("One core, 64 connections: throughput", "", "requests/s");
    draw(&rows, &folder.join("throughput.svg"), &axes, |row| row.rate)
}

fn draw(
    rows: &[Row],
    path: &Path,
    axes: &Axes<'_>,
    value: impl Fn(&Row) -> f64,
) -> Result<(), Box<dyn Error>> {
    let (mut spoken, mut bars) = (Vec::new(), Vec::<Bars>::new());
    for row in rows {
        if !spoken.contains(&row.spoken.as_str()) {
            spoken.push(row.spoken.as_str());
        }
        // Each proxy has a row for each, in one order.
        match bars.iter_mut().find(|bar| bar.name == row.proxy) {
            Some(bar) => bar.values.push(value(row)),
            None => bars.push(Bars {
                name: row.proxy.clone(),
                values: vec![value(row)],
            }),
        }
    }
    plot::bars(path, axes, &spoken, &bars)
}
