//! Plots of what load tests measured: SVG files, all in one style, on a background of their own, so
//! that they read alike on a white and on a dark page.
//!
//! Three forms: [`lines`] over anything, [`percentiles`] of durations, [`bars`] in groups. A load
//! test takes this file in with `#[path = "../plot.rs"] mod plot;`.
// Each load test uses its own part of this.
#![allow(dead_code)]

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;

type Drawn = Result<(), Box<dyn Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (860, 460);
const PAPER: RGBColor = RGBColor(250, 250, 247);
const INK: RGBColor = RGBColor(38, 38, 38);
const FAINT: RGBColor = RGBColor(222, 222, 216);
const GOAL: RGBColor = RGBColor(120, 120, 120);
/// Okabe and Ito's colours, which colour-blind people tell apart; the yellow, too bright here, left
/// out.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
const FONT: &str = "sans-serif";
const SMALL: u32 = 13;
/// What a letter of the small font takes, about: where text ends is the viewer's to know.
const LETTER: i32 = 7;

/// How numbers lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    /// Each decade is as long as the next; everything must be above zero.
    Log,
    /// Shares below 1: 90 %, 99 % and 99.9 % are equally far apart.
    Nines,
}

/// What is written on a plot.
#[derive(Clone, Debug)]
pub struct Axes<'a> {
    pub title: &'a str,
    /// What the axes are, each with its unit.
    pub x: &'a str,
    pub y: &'a str,
    pub x_scale: Scale,
    pub y_scale: Scale,
    /// Levels that are drawn across, with their names: what is to be reached, or what is ideal.
    pub goals: &'a [(f64, &'a str)],
}

impl<'a> Axes<'a> {
    /// Linear axes, no goals.
    pub fn new(title: &'a str, x: &'a str, y: &'a str) -> Self {
        Self {
            title,
            x,
            y,
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            goals: &[],
        }
    }
}

/// One curve.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    /// In the order in which they are joined.
    pub points: Vec<(f64, f64)>,
}

/// One colour of grouped bars.
#[derive(Clone, Debug)]
pub struct Bars {
    pub name: String,
    /// One for each group.
    pub values: Vec<f64>,
}

/// Curves over a common axis.
///
/// # Errors
///
/// Where the file cannot be written.
pub fn lines(path: &Path, axes: &Axes<'_>, lines: &[Line]) -> Drawn {
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::over(axes.x_scale, points().map(|(x, _)| *x));
    let goals = axes.goals.iter().map(|(level, _)| *level);
    let y = Axis::over(axes.y_scale, points().map(|(_, y)| *y).chain(goals)).widened();

    let root = paper(path)?;
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    let area = headed(&root, axes.title, &names)?;
    let mut chart = ChartBuilder::on(&area)
        .margin_left(8)
        .margin_right(36)
        .margin_bottom(6)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .label_style((FONT, SMALL).into_font().color(&INK))
        .x_labels(12)
        .y_labels(12)
        .x_label_formatter(&|at| axes.x_scale.label(*at))
        .y_label_formatter(&|at| axes.y_scale.label(*at))
        .x_desc(axes.x)
        .y_desc(axes.y)
        .draw()?;
    for (level, name) in axes.goals {
        let at = axes.y_scale.place(*level);
        let across = [(x.from, at), (x.to, at)];
        chart.draw_series(DashedLineSeries::new(across, 6, 4, GOAL.stroke_width(1)))?;
        let style = (FONT, SMALL - 1).into_font().color(&GOAL);
        let place = (x.from + (x.to - x.from) * 0.01, at);
        chart.draw_series([
            EmptyElement::at(place) + Text::new(name.to_string(), (0, -15), style)
        ])?;
    }
    for (number, line) in lines.iter().enumerate() {
        let place = |(x, y): &(f64, f64)| (axes.x_scale.place(*x), axes.y_scale.place(*y));
        let points: Vec<(f64, f64)> = line.points.iter().map(place).collect();
        let style = colour(number).stroke_width(2);
        // Few points are measurements that one wants to see; many are a curve.
        if points.len() <= 24 {
            let dots = points.iter().map(|at| Circle::new(*at, 3, style.filled()));
            chart.draw_series(dots)?;
        }
        chart.draw_series(LineSeries::new(points, style))?;
    }
    Ok(root.present()?)
}

/// Durations by the share of requests that took no longer, from the median on, both axes
/// logarithmic. `curves` are names and sorted durations in milliseconds.
///
/// # Errors
///
/// Where the file cannot be written.
pub fn percentiles(
    path: &Path,
    title: &str,
    goals: &[(f64, &str)],
    curves: &[(String, Vec<f64>)],
) -> Drawn {
    let axes = Axes {
        title,
        x: "share of requests",
        y: "ms",
        x_scale: Scale::Nines,
        y_scale: Scale::Log,
        goals,
    };
    let curves = curves.iter().filter(|(_, sorted)| !sorted.is_empty());
    let curves: Vec<Line> = curves
        .map(|(name, sorted)| Line {
            name: name.clone(),
            points: quantiles(sorted),
        })
        .collect();
    lines(path, &axes, &curves)
}

/// Bars side by side in groups, from zero up; `axes.x` and the scales are not used.
///
/// # Errors
///
/// Where the file cannot be written.
pub fn bars(path: &Path, axes: &Axes<'_>, groups: &[&str], bars: &[Bars]) -> Drawn {
    let values = bars.iter().flat_map(|bars| bars.values.iter().copied());
    let goals = axes.goals.iter().map(|(level, _)| *level);
    let y = Axis::over(Scale::Linear, values.chain(goals).chain([0.0])).widened();
    let width = groups.len().max(1) as f64;

    let root = paper(path)?;
    let names: Vec<&str> = bars.iter().map(|bars| bars.name.as_str()).collect();
    let area = headed(&root, axes.title, if bars.len() > 1 { &names } else { &[] })?;
    let groups_axis = Axis {
        scale: Scale::Linear,
        from: 0.0,
        to: width,
        ticks: (0..groups.len()).map(|group| group as f64 + 0.5).collect(),
    };
    let name_of = |at: &f64| groups.get(*at as usize).copied().unwrap_or_default();
    let mut chart = ChartBuilder::on(&area)
        .margin_left(8)
        .margin_right(36)
        .margin_bottom(10)
        .x_label_area_size(30)
        .y_label_area_size(66)
        .build_cartesian_2d(groups_axis, y.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .axis_style(INK)
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .label_style((FONT, SMALL).into_font().color(&INK))
        .x_labels(groups.len().max(1))
        .y_labels(12)
        .x_label_formatter(&|at| name_of(at).to_owned())
        .y_label_formatter(&|at| number(*at))
        .y_desc(axes.y)
        .draw()?;
    for (level, name) in axes.goals {
        let across = [(0.0, *level), (width, *level)];
        chart.draw_series(DashedLineSeries::new(across, 6, 4, GOAL.stroke_width(1)))?;
        let style = (FONT, SMALL - 1).into_font().color(&GOAL);
        chart
            .draw_series([EmptyElement::at((width * 0.01, *level))
                + Text::new(name.to_string(), (0, -15), style)])?;
    }
    let wide = 0.8 / bars.len().max(1) as f64;
    for (number_of, one) in bars.iter().enumerate() {
        for (group, value) in one.values.iter().enumerate() {
            let left = group as f64 + 0.1 + wide * number_of as f64;
            let corners = [(left, 0.0), (left + wide * 0.92, *value)];
            chart.draw_series([Rectangle::new(corners, colour(number_of).filled())])?;
            let text = number(*value);
            let above = if *value < 0.0 { 4 } else { -16 };
            let shift = (-(text.len() as i32) * LETTER / 2, above);
            let style = (FONT, SMALL - 1).into_font().color(&INK);
            let top = (left + wide * 0.46, *value);
            chart.draw_series([EmptyElement::at(top) + Text::new(text, shift, style)])?;
        }
    }
    Ok(root.present()?)
}

/// A number as people write it: three digits that count, thousands set apart.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size < 1e-12 {
        return "0".to_owned();
    }
    if size < 1_000.0 {
        let decimals = (2.0 - size.log10().floor()).clamp(0.0, 9.0) as usize;
        let text = format!("{value:.decimals$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    let digits = format!("{size:.0}");
    let mut text = if value < 0.0 { "-" } else { "" }.to_owned();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The curve of sorted values from the median up to one sample in ten of the last.
fn quantiles(sorted: &[f64]) -> Vec<(f64, f64)> {
    let last = sorted.len() - 1;
    let to = (sorted.len() as f64).log10().max(1.0);
    let from = Scale::Nines.place(0.5);
    (0..=120)
        .map(|step| from + (to - from) * f64::from(step) / 120.0)
        .map(|nines| 1.0 - 10_f64.powf(-nines))
        .map(|share| (share, sorted[(last as f64 * share).round() as usize]))
        .collect()
}

impl Scale {
    /// Where a value lies along the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(1e-12).log10(),
            Self::Nines => -(1.0 - value).max(1e-12).log10(),
        }
    }

    /// What is written at that place.
    fn label(self, at: f64) -> String {
        match self {
            Self::Linear => number(at),
            Self::Log => number(10_f64.powf(at)),
            Self::Nines => {
                let share = 100.0 - 100.0 * 10_f64.powf(-at);
                let text = format!("{share:.4}");
                format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }
}

/// A stretch of an axis, in places and not in values.
#[derive(Clone, Debug)]
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, at: &f64, limit: (i32, i32)) -> i32 {
        let share = (at - self.from) / (self.to - self.from);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

impl Axis {
    fn over(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let places = values.filter(|v| v.is_finite()).map(|v| scale.place(v));
        let (from, to) = places.fold((f64::MAX, f64::MIN), |(from, to), at| {
            (from.min(at), to.max(at))
        });
        let (from, to) = if from > to { (0.0, 1.0) } else { (from, to) };
        let to = if to > from { to } else { from + 1.0 };
        Self::new(scale, from, to)
    }

    fn new(scale: Scale, from: f64, to: f64) -> Self {
        let ticks = ticks(scale, from, to);
        Self {
            scale,
            from,
            to,
            ticks,
        }
    }

    /// With room around what is drawn; a linear axis begins at zero.
    fn widened(self) -> Self {
        let room = (self.to - self.from) * 0.08;
        let from = match self.scale {
            Scale::Linear if self.from >= 0.0 => 0.0,
            _ => self.from - room,
        };
        Self::new(self.scale, from, self.to + room)
    }
}

/// Where an axis is marked.
fn ticks(scale: Scale, from: f64, to: f64) -> Vec<f64> {
    let span = to - from;
    let all: Vec<f64> = match scale {
        Scale::Linear => {
            let raw = span / 6.0;
            let decade = 10_f64.powf(raw.log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * decade);
            let step = steps.into_iter().find(|step| *step >= raw);
            let step = step.unwrap_or(10.0 * decade);
            let first = (from / step).ceil() as i64;
            (0..=12).map(|n| (first + n) as f64 * step).collect()
        }
        Scale::Log => {
            let parts: &[f64] = if span > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let decades = from.floor() as i32..=to.ceil() as i32;
            decades
                .flat_map(|decade| parts.iter().map(move |n| f64::from(decade) + n.log10()))
                .collect()
        }
        Scale::Nines => [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
            .map(|share| scale.place(share))
            .to_vec(),
    };
    let within = |at: &f64| *at >= from - 1e-9 && *at <= to + 1e-9;
    all.into_iter().filter(within).collect()
}

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}

fn paper(path: &Path) -> Result<Area<'_>, Box<dyn Error>> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&PAPER)?;
    Ok(root)
}

/// Writes the title and the names of the curves, and gives what is left.
fn headed<'a>(root: &Area<'a>, title: &str, names: &[&str]) -> Result<Area<'a>, Box<dyn Error>> {
    let bold = (FONT, 17).into_font().style(FontStyle::Bold).color(&INK);
    root.draw(&Text::new(title, (16, 12), bold))?;
    let (mut x, mut y) = (16, 40);
    for (number, name) in names.iter().enumerate() {
        let wide = 30 + name.chars().count() as i32 * LETTER + 14;
        if x > 16 && x + wide > SIZE.0 as i32 {
            (x, y) = (16, y + 20);
        }
        let swatch = [(x, y + 5), (x + 20, y + 9)];
        root.draw(&Rectangle::new(swatch, colour(number).filled()))?;
        let style = (FONT, SMALL).into_font().color(&INK);
        root.draw(&Text::new(*name, (x + 26, y), style))?;
        x += wide;
    }
    let height = if names.is_empty() { 46 } else { y + 28 };
    let (_, rest) = root.split_vertically(height);
    Ok(rest)
}
