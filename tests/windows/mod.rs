//! What was let through in every window of time, from a record of requests.
//!
//! Of an admitted request one knows when it was asked and when it was answered; its tokens were
//! taken at some moment between the two. So what is counted here in a window is what was
//! **surely** taken in it: all that was answered by the window's end, less all that was asked
//! before its beginning. Whatever that is over is over the limit without doubt, however busy the
//! machine was, while counting by either moment alone would blame a limiter for a record that came
//! late: after a stall of 50 ms the answers of 50 ms come at once.

/// One request that passed. Times are nanoseconds of one monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    pub asked: u64,
    pub answered: u64,
    /// Tokens.
    pub cost: u32,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// The most that was taken in any window T beyond `refill × T`: the capacity of the smallest
    /// bucket that would have admitted as much.
    pub any_window: f64,
    /// The same, of windows that begin where the record does.
    pub from_the_start: f64,
}

/// Looks at all windows, in the time that it takes to sort the record.
///
/// With `E(t)` tokens answered by t and `S(s)` tokens asked before s, what is sought is the largest
/// `E(t) - S(s) - refill × (t - s)` of all `s ≤ t`. It falls into a part of t alone and one of s
/// alone, so that the smallest `S(s) - refill × s` so far is all that has to be remembered.
pub fn worst(record: &[Admission], refill: f64) -> Worst {
    let mut asked: Vec<(u64, u32)> = record.iter().map(|a| (a.asked, a.cost)).collect();
    let mut answered: Vec<(u64, u32)> = record.iter().map(|a| (a.answered, a.cost)).collect();
    asked.sort_unstable();
    answered.sort_unstable();
    let origin = asked.first().map_or(0, |(at, _)| *at);
    let by_right = |at: u64| refill * (at - origin) as f64 / 1e9;

    let mut worst = Worst {
        any_window: 0.0,
        from_the_start: 0.0,
    };
    let mut begun = asked.iter().peekable();
    let (mut so_far, mut before, mut least) = (0.0, 0.0, f64::INFINITY);
    for (at, cost) in &answered {
        // A window may begin at the moment at which it ends.
        while let Some((began, cost)) = begun.next_if(|(began, _)| began <= at) {
            least = f64::min(least, before - by_right(*began));
            before += f64::from(*cost);
        }
        so_far += f64::from(*cost);
        let beyond = so_far - by_right(*at);
        worst.any_window = worst.any_window.max(beyond - least);
        worst.from_the_start = worst.from_the_start.max(beyond);
    }
    worst
}
