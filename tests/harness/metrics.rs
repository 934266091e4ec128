//! `/metrics`, parsed.

use std::collections::BTreeMap;

/// Every series and its value. The order of labels does not matter when one is asked for.
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    pub fn parse(text: &str) -> Self {
        let series = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                (canonical(name), value.parse().unwrap())
            });
        Self(series.collect())
    }

    /// The value of a series, as `aforo_requests_total{route="r",outcome="allowed"}`.
    #[track_caller]
    pub fn get(&self, series: &str) -> f64 {
        *self
            .0
            .get(&canonical(series))
            .unwrap_or_else(|| panic!("no {series} among {:#?}", self.0))
    }

    pub fn contains(&self, series: &str) -> bool {
        self.0.contains_key(&canonical(series))
    }

    /// The sum over all series of a metric.
    pub fn sum(&self, metric: &str) -> f64 {
        let of_metric = |name: &str| name.split('{').next() == Some(metric);
        self.0
            .iter()
            .filter(|(name, _)| of_metric(name))
            .map(|(_, value)| value)
            .sum()
    }

    /// The names of all series, labels included.
    pub fn series(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// The same series with its labels in alphabetical order.
fn canonical(series: &str) -> String {
    let Some((name, labels)) = series.split_once('{') else {
        return series.to_owned();
    };
    let mut labels: Vec<&str> = labels
        .trim_end_matches('}')
        .split(',')
        .map(str::trim)
        .collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}
