//! Keys whose feature does not exist yet: each is refused, unless its value is what happens anyway.
//!
//! Whoever builds a feature deletes its lines here. What the value must be like is checked in `validate` all the same.

use super::error::Problems;
use super::model::{Keys, TenantInLog};
use super::raw::File;

/// Notes every key that asks for what does not exist yet.
pub(super) fn refuse(file: &File, problems: &mut Problems) {
    let mut refuse = |path: String, instead: &str| {
        problems.add(path, format!("not supported yet; {instead}"));
    };
    if let Some(token) = file.admin.as_ref().and_then(|admin| admin.token.as_ref())
        && !token.expose().is_empty()
    {
        refuse("admin.token".to_owned(), "leave it out or empty");
    }
    if let Some(log) = &file.log
        && !matches!(log.tenant, None | Some(TenantInLog::Plain))
    {
        refuse("log.tenant".to_owned(), "plain is");
    }
    if file.timeouts.as_ref().is_some_and(|t| t.header.is_some()) {
        refuse(
            "timeouts.header".to_owned(),
            "leave it out, idle and body are",
        );
    }
    if file
        .trusted_proxies
        .as_ref()
        .is_some_and(|list| !list.is_empty())
    {
        refuse(
            "trusted_proxies".to_owned(),
            "an empty list is, nobody's X-Forwarded-For is believed",
        );
    }
    if file
        .tenant
        .as_ref()
        .is_some_and(|t| t.keys == Some(Keys::Registry))
    {
        refuse("tenant.keys".to_owned(), "open is");
    }
    if let Some(limits) = &file.limits {
        for (index, rule) in limits.rules.iter().flatten().enumerate() {
            let path = |key: &str| format!("limits.rules[{index}].{key}");
            if rule.concurrency.is_some() {
                refuse(path("concurrency"), "leave it out");
            }
        }
    }
}
