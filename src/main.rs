//! The `aforo` binary: the gateway that does what its configuration says.

use std::process::ExitCode;

use aforo::YamlPolicy;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    aforo::cli::main(YamlPolicy)
}
