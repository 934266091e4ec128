use super::*;
use proptest::prelude::*;

fn written(text: Text) -> String {
    text.value().to_str().unwrap().to_owned()
}

#[test]
fn the_longest_values_fit() {
    let longest = Text::new()
        .text("\"default\";q=")
        .number(u64::MAX)
        .text(";w=")
        .number(u64::MAX);
    assert_eq!(
        written(longest),
        format!("\"default\";q={0};w={0}", u64::MAX)
    );
    let address = "2001:db8:1111:2222:3333:4444:5555:6666";
    assert_eq!(
        written(Text::new().address(address.parse().unwrap())),
        address
    );
    let mapped = "::ffff:192.168.111.222";
    assert_eq!(
        written(Text::new().address(mapped.parse().unwrap())),
        mapped
    );
}

#[test]
fn what_does_not_fit_is_left_out_whole() {
    let most = "x".repeat(ROOM - 2);
    assert_eq!(written(Text::new().text(&most).number(100)), most);
    assert_eq!(
        written(Text::new().text(&most).number(10)),
        format!("{most}10")
    );
}

proptest! {
    #[test]
    fn numbers_and_addresses_are_written_as_the_library_writes_them(
        number: u64,
        small in 0_u64..1000,
        address: IpAddr,
    ) {
        for number in [number, small] {
            prop_assert_eq!(written(Text::new().number(number)), number.to_string());
            prop_assert_eq!(written(Text::new().hex(number)), format!("{number:016x}"));
        }
        prop_assert_eq!(written(Text::new().address(address)), address.to_string());
    }
}
