//! Slots of a cluster: which one a key is in, and which node holds each.

use std::sync::atomic::{AtomicU16, Ordering};

use crc::{CRC_16_XMODEM, Crc};

/// How many slots a cluster has.
pub const SLOTS: usize = 16_384;

/// No node is known to hold the slot.
const NOBODY: u16 = u16::MAX;

/// CRC16 as the cluster specification has it.
const CRC16: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a key: of what is between its first `{` and the `}` behind that, if there is
/// anything, and otherwise of all of it (Redis cluster specification, "Hash tags").
pub fn slot_of(key: &str) -> u16 {
    let tag = key
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'))
        .map(|(tag, _)| tag)
        .filter(|tag| !tag.is_empty());
    CRC16.checksum(tag.unwrap_or(key).as_bytes()) % SLOTS as u16
}

/// The lowest number that, as a hash tag, lies in a slot for which `holds` is true.
pub fn number_in(holds: impl Fn(u16) -> bool) -> Option<usize> {
    // Every slot has a number well below this.
    (0..1_000_000).find(|number: &usize| {
        let slot = CRC16.checksum(number.to_string().as_bytes()) % SLOTS as u16;
        holds(slot)
    })
}

/// Which node, by its number, holds each slot. Single slots change while requests read.
pub struct SlotTable(Box<[AtomicU16]>);

impl Default for SlotTable {
    fn default() -> Self {
        Self::new()
    }
}

impl SlotTable {
    /// Nobody holds anything.
    pub fn new() -> Self {
        Self((0..SLOTS).map(|_| AtomicU16::new(NOBODY)).collect())
    }

    /// The number of the node that holds a slot, where that is known.
    pub fn get(&self, slot: u16) -> Option<usize> {
        let place = self.0.get(usize::from(slot))?;
        let node = place.load(Ordering::Relaxed);
        (node != NOBODY).then_some(usize::from(node))
    }

    /// From now on this node holds the slot, or nobody does.
    pub fn set(&self, slot: u16, node: Option<usize>) {
        let node = node.and_then(|node| u16::try_from(node).ok());
        if let Some(place) = self.0.get(usize::from(slot)) {
            place.store(node.unwrap_or(NOBODY), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The specification's test vector, and what CLUSTER KEYSLOT says of the others.
        assert_eq!(CRC16.checksum(b"123456789"), 0x31C3);
        for (key, slot) in [
            ("foo", 12182),
            ("rl:{foo}:create-order", 12182),
            ("a{foo}{bar}", 12182),
            ("123456789", 12739),
        ] {
            assert_eq!(slot_of(key), slot, "{key}");
        }
        assert_eq!(slot_of("a{}b{foo}"), CRC16.checksum(b"a{}b{foo}") % 16_384);
        assert_eq!(slot_of("{foo"), CRC16.checksum(b"{foo") % 16_384);
    }

    #[test]
    fn every_slot_has_a_number_to_probe_its_node_with() {
        for slot in (0..16_384).step_by(97) {
            let number = number_in(|s| s == slot).expect("a number");
            assert_eq!(slot_of(&format!("x:{{{number}}}")), slot);
        }
        assert_eq!(number_in(|_| true), Some(0));
    }

    #[test]
    fn the_table_knows_who_holds_what() {
        let table = SlotTable::new();
        assert_eq!(table.get(5), None);
        table.set(5, Some(3));
        assert_eq!((table.get(5), table.get(6)), (Some(3), None));
        table.set(5, None);
        assert_eq!((table.get(5), table.get(u16::MAX)), (None, None));
    }
}
