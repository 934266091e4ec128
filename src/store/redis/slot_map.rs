//! What a cluster says of itself (CLUSTER SLOTS), and which number each of its primaries gets.
//!
//! A primary keeps its number for as long as it is one. Where another one takes its slots over (its
//! replica, after a fail-over), that one takes the number too, so that what is known of the place
//! holds on: whether it was away, and that everybody comes back to it at once.

use ::redis::Value;

use super::slots::SLOTS;
use super::url::Address;
use crate::limit::watches::MAX_NODES;

#[cfg(test)]
mod tests;

/// A primary and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// Where it is.
    pub address: Address,
    /// Its slots, first and last of each range.
    pub ranges: Vec<(u16, u16)>,
    /// How many replicas the cluster counts for it.
    pub replicas: usize,
}

impl Primary {
    /// Every slot of its.
    pub fn slots(&self) -> impl Iterator<Item = u16> {
        self.ranges.iter().flat_map(|(first, last)| *first..=*last)
    }

    /// Whether a slot is one of its.
    pub fn holds(&self, slot: u16) -> bool {
        let within = |(first, last): &(u16, u16)| (*first..=*last).contains(&slot);
        self.ranges.iter().any(within)
    }
}

/// Reads the reply to CLUSTER SLOTS of the server at `asked`: its primaries in the order of their
/// first slots. None where it is not of that form, or nobody holds a slot.
pub fn read(reply: &Value, asked: &Address) -> Option<Vec<Primary>> {
    let Value::Array(ranges) = reply else {
        return None;
    };
    let mut primaries: Vec<Primary> = Vec::new();
    for range in ranges {
        let Value::Array(parts) = range else {
            return None;
        };
        let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = &parts[..] else {
            return None;
        };
        let slot = |number: &i64| {
            let slot = u16::try_from(*number).ok()?;
            (usize::from(slot) < SLOTS).then_some(slot)
        };
        let range = (slot(first)?, slot(last)?);
        // A node that does not know its own address yet is left out until it does.
        let Some(address) = address(primary, asked)? else {
            continue;
        };
        match primaries.iter_mut().find(|p| p.address == address) {
            Some(known) => known.ranges.push(range),
            None => primaries.push(Primary {
                address,
                ranges: vec![range],
                replicas: replicas.len(),
            }),
        }
    }
    primaries.sort_by_key(|primary| primary.slots().min());
    (!primaries.is_empty()).then_some(primaries)
}

/// The address of a node; `Some(None)` where it is not known.
fn address(node: &Value, asked: &Address) -> Option<Option<Address>> {
    let Value::Array(parts) = node else {
        return None;
    };
    let [host, Value::Int(port), ..] = &parts[..] else {
        return None;
    };
    let host = match host {
        // The one that was asked does not know under which address.
        Value::Nil => "",
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => return None,
    };
    let host = match host {
        "" => asked.host.clone(),
        "?" => return Some(None),
        host => host.to_owned(),
    };
    let port = u16::try_from(*port).ok()?;
    Some((port > 0).then_some(Address { host, port }))
}

/// The number of each of `primaries`, below [`MAX_NODES`]; none for those beyond that many. `seated`
/// is who has each number now, and `held` which number held a slot until now.
pub fn numbers(
    primaries: &[Primary],
    seated: &[Option<Address>],
    held: impl Fn(u16) -> Option<usize>,
) -> Vec<Option<usize>> {
    let stays = |number: usize| -> bool {
        let address = seated.get(number).and_then(Option::as_ref);
        address.is_some_and(|address| primaries.iter().any(|p| p.address == *address))
    };
    let own = |primary: &Primary| {
        let is = |seat: &Option<Address>| seat.as_ref() == Some(&primary.address);
        seated.iter().position(is)
    };
    let mut numbers: Vec<Option<usize>> = primaries.iter().map(own).collect();
    // Who takes slots of somebody that is gone, takes the number along; of several the one whose
    // part is the largest.
    let mut heirs: Vec<(usize, usize, usize)> = Vec::new();
    for (place, primary) in primaries.iter().enumerate() {
        if numbers[place].is_some() {
            continue;
        }
        let mut of_number = vec![0_usize; seated.len()];
        for slot in primary.slots() {
            if let Some(number) = held(slot).filter(|n| *n < seated.len() && !stays(*n)) {
                of_number[number] += 1;
            }
        }
        let parts = of_number.into_iter().enumerate();
        heirs.extend(
            parts
                .filter(|(_, part)| *part > 0)
                .map(|(number, part)| (part, number, place)),
        );
    }
    heirs.sort_by_key(|(part, number, place)| (std::cmp::Reverse(*part), *number, *place));
    for (_, number, place) in heirs {
        if numbers[place].is_none() && !numbers.contains(&Some(number)) {
            numbers[place] = Some(number);
        }
    }
    // Everybody else: the lowest number that is free.
    for place in 0..numbers.len() {
        if numbers[place].is_none() {
            numbers[place] = (0..MAX_NODES).find(|number| !numbers.contains(&Some(*number)));
        }
    }
    numbers
}
