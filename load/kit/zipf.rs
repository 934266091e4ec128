//! Tenants as they are: the n-th busiest sends 1/n^s of what the busiest does.

/// The distribution over ranks 0, 1, ….
pub struct Zipf {
    /// Shares up to and including each rank.
    up_to: Vec<f64>,
}

impl Zipf {
    pub fn new(ranks: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut up_to: Vec<f64> = (1..=ranks)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        for share in &mut up_to {
            *share /= sum;
        }
        Self { up_to }
    }

    pub fn pick(&self, random: &mut fastrand::Rng) -> usize {
        let at = random.f64();
        let rank = self.up_to.partition_point(|share| *share <= at);
        rank.min(self.up_to.len() - 1)
    }

    /// The share of one rank.
    pub fn share(&self, rank: usize) -> f64 {
        self.up_to[rank] - rank.checked_sub(1).map_or(0.0, |before| self.up_to[before])
    }
}
