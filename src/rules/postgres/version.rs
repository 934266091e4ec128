//! Which changes are known, so that a missed one is noticed.
//!
//! Every change has a number, and they are committed in the order of their numbers without a gap
//! (see `migrations/0004_rule_version.sql`). So who knows everything up to 16, and hears of 18,
//! has missed 17.

#[cfg(test)]
mod tests;

/// What an announced change is to someone who knows some already.
#[derive(Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is known.
    Known,
    /// It is the next one.
    Next,
    /// There were others before it.
    Missed,
}

/// The number up to which every change is known. None: none are, the table of the number is
/// empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version(Option<i64>);

impl Version {
    /// Everything up to what was read together with all rules is known.
    pub fn loaded(n: Option<i64>) -> Self {
        Self(n)
    }

    /// A change is announced. Where it is the next one it is known from then on.
    pub fn announced(&mut self, n: i64) -> Seen {
        match self.0 {
            Some(known) if n <= known => Seen::Known,
            Some(known) if n == known + 1 => {
                self.0 = Some(n);
                Seen::Next
            }
            _ => Seen::Missed,
        }
    }

    /// Whether nothing was missed, going by what a poll finds.
    pub fn is(&self, polled: Option<i64>) -> bool {
        self.0 == polled
    }

    /// Whether what a poll found is known by now.
    pub fn reached(&self, polled: Option<i64>) -> bool {
        self.0.is_some() && self.0 >= polled
    }

    /// Whether the database has gone back, as after a backup was restored: what is known may not
    /// be so any more.
    pub fn is_beyond(&self, polled: Option<i64>) -> bool {
        self.0 > polled
    }
}
