//! A trie over path segments with the routes of one host.
//!
//! A search tries the literal branch, then `{param}`, then `*`, and comes back when a branch ends
//! without a leaf that is wanted. It enters each node at most once, for a node's depth decides which
//! part of the path it is compared with; so no path costs more than the routes it could match. It
//! allocates nothing.

use http::Method;

use super::pattern::{Pattern, Segment};

/// A request's path, cut for the search.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'p> {
    /// Without the slash before it and the trailing one.
    segments: &'p str,
    /// Whether there was a trailing slash. `/` itself has none.
    slash: bool,
}

impl<'p> Target<'p> {
    pub(super) fn new(path: &'p str) -> Self {
        let path = path.strip_prefix('/').unwrap_or(path);
        match path.strip_suffix('/') {
            Some(segments) => Self {
                segments,
                slash: true,
            },
            None => Self {
                segments: path,
                slash: false,
            },
        }
    }
}

/// The routes of one host.
#[derive(Debug, Default)]
pub(super) struct Tree {
    root: Node,
}

#[derive(Debug, Default)]
struct Node {
    /// Sorted by segment.
    literals: Vec<(Box<str>, Node)>,
    param: Option<Box<Node>>,
    /// Of paths that end here.
    end: Leaf,
    /// Of paths that go on with `/*`.
    rest: Leaf,
}

/// The routes of one host and path, by method. It is empty where no path ends.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    /// The route that admits all methods. Then there is no other.
    all: Option<usize>,
    some: Vec<(Method, usize)>,
}

/// Two routes want the same requests.
#[derive(Debug)]
pub(super) struct Clash {
    /// The route that was first.
    pub(super) with: usize,
    /// A method that both admit; none: all.
    pub(super) method: Option<Method>,
}

impl Tree {
    /// The leaf of a route's path.
    pub(super) fn leaf_mut(&mut self, pattern: &Pattern) -> &mut Leaf {
        let mut node = &mut self.root;
        for segment in &pattern.segments {
            node = match segment {
                Segment::Param => node.param.get_or_insert_default(),
                Segment::Literal(text) => {
                    let at = match node.literals.binary_search_by(|(key, _)| key.cmp(text)) {
                        Ok(at) => at,
                        Err(at) => {
                            node.literals.insert(at, (text.clone(), Node::default()));
                            at
                        }
                    };
                    &mut node.literals[at].1
                }
            };
        }
        if pattern.rest {
            &mut node.rest
        } else {
            &mut node.end
        }
    }

    /// Shows `visit` the leaves that match a path, the most specific first, until it wants one.
    pub(super) fn search<'t, T>(
        &'t self,
        target: Target<'_>,
        visit: &mut impl FnMut(&'t Leaf) -> Option<T>,
    ) -> Option<T> {
        if target.segments.is_empty() {
            // `/` ends with a slash that cannot be dropped: it is a path of its own, which `/*` has too.
            return visit(&self.root.end).or_else(|| visit(&self.root.rest));
        }
        self.root.search(target, visit)
    }
}

impl Node {
    fn search<'t, T>(
        &'t self,
        target: Target<'_>,
        visit: &mut impl FnMut(&'t Leaf) -> Option<T>,
    ) -> Option<T> {
        if target.segments.is_empty() {
            // `/orders/` belongs to `/orders/*` if there is one, and is `/orders` otherwise.
            let below = if target.slash {
                visit(&self.rest)
            } else {
                None
            };
            return below.or_else(|| visit(&self.end));
        }
        let (segment, segments) = target
            .segments
            .split_once('/')
            .unwrap_or((target.segments, ""));
        let next = Target { segments, ..target };
        if let Ok(at) = self
            .literals
            .binary_search_by(|(key, _)| (**key).cmp(segment))
            && let Some(wanted) = self.literals[at].1.search(next, visit)
        {
            return Some(wanted);
        }
        if let Some(param) = &self.param
            && !segment.is_empty()
            && let Some(wanted) = param.search(next, visit)
        {
            return Some(wanted);
        }
        visit(&self.rest)
    }
}

impl Leaf {
    /// Lets a route have these methods here; none: all. GET brings HEAD.
    pub(super) fn admit(&mut self, methods: &[Method], route: usize) -> Result<(), Clash> {
        if let Some(with) = self.all {
            return Err(Clash {
                with,
                method: methods.first().cloned(),
            });
        }
        if methods.is_empty() {
            if let Some((method, with)) = self.some.first() {
                return Err(Clash {
                    with: *with,
                    method: Some(method.clone()),
                });
            }
            self.all = Some(route);
            return Ok(());
        }
        let head = methods.contains(&Method::GET).then_some(&Method::HEAD);
        for method in methods.iter().chain(head) {
            match self.some.iter().find(|(known, _)| known == method) {
                Some((_, with)) if *with != route => {
                    return Err(Clash {
                        with: *with,
                        method: Some(method.clone()),
                    });
                }
                Some(_) => {}
                None => self.some.push((method.clone(), route)),
            }
        }
        Ok(())
    }

    /// The route that admits a method.
    pub(super) fn route(&self, method: &Method) -> Option<usize> {
        let some = || {
            self.some
                .iter()
                .find(|(known, _)| known == method)
                .map(|(_, route)| *route)
        };
        self.all.or_else(some)
    }

    /// The methods that routes name here.
    pub(super) fn methods(&self) -> impl Iterator<Item = &Method> {
        self.some.iter().map(|(method, _)| method)
    }
}
