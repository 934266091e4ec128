//! What load tests share: their report, what the machine says of CPU and memory, and arrivals that
//! come when they are due, whatever becomes of those before them.
// Each load test uses its own part of this.
#![allow(dead_code)]

pub mod machine;
pub mod open_loop;
pub mod process;
pub mod report;
pub mod zipf;

pub use report::Report;

/// The value below which this share of sorted values lies; 0 where there are none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let last = sorted.len().saturating_sub(1) as f64;
    let place = (last * share).round() as usize;
    sorted.get(place).copied().unwrap_or_default()
}

/// Sorts, for [`quantile`].
pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The value in the middle.
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values.to_vec()), 0.5)
}

/// The number after `--name` among the arguments, or what is usual.
pub fn argument(name: &str, usual: f64) -> f64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    match (arguments.next(), arguments.next()) {
        (Some(_), Some(value)) => value
            .parse()
            .unwrap_or_else(|_| panic!("{name} wants a number, not {value}")),
        (Some(_), None) => panic!("{name} wants a number"),
        (None, _) => usual,
    }
}

/// Whether `--name` is among the arguments.
pub fn flag(name: &str) -> bool {
    std::env::args().any(|argument| argument == name)
}
