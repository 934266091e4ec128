//! How a tenant is known, and told of.

use super::*;

#[test]
fn tenants() {
    each_is_refused(&[
        (
            "tenant: { header: \"X Api\" }",
            "tenant.header: `X Api` is no header name, use one such as X-Api-Key",
        ),
        (
            "tenant: { header: \"\" }",
            "tenant.header: `` is no header name, use one such as X-Api-Key",
        ),
        (
            "tenant: { header: Host }",
            "tenant.header: `Host` belongs to HTTP itself, use a header such as X-Api-Key",
        ),
        (
            "tenant: { forward: \"X:\" }",
            "tenant.forward: `X:` is no header name, use one such as X-Api-Key",
        ),
        (
            "tenant: { forward: x-api-key }",
            "tenant.forward: must be another header than tenant.header (`x-api-key`): it is removed from what clients send",
        ),
    ]);
    each_is_accepted(&[
        "tenant: { header: Authorization, keys: open, forward: X-Tenant-Id, strip_key: true }",
    ]);
}

#[test]
fn the_tenant_is_not_told_in_a_header_that_says_something_else() {
    for name in ["X-Forwarded-For", "x-request-id", "RateLimit", "Via"] {
        assert_eq!(
            problems(&[&format!("tenant: {{ forward: {name} }}")]),
            [format!(
                "tenant.forward: `{name}` is written by Aforo itself, use a header such as X-Tenant-Id"
            )]
        );
    }
}
