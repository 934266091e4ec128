//! Replaces `${NAME}` and `${NAME:-default}` in the text of a file, before it is read as YAML and outside comments.
//!
//! Because this happens in the text, a value can hold any YAML; a value that may hold YAML's own characters belongs
//! in quotes. What it cannot do is change the lines: a value with a line break is refused, so that the line of every
//! later error is the line of the file. Columns are mapped back (`Text::place`), and values taken from the
//! environment are taken out of messages (`Text::hide`), since they are the likeliest secrets of all.

/// The shortest value that is searched for in a message. Shorter ones are no secrets, and would hit ordinary words.
const SHORTEST_HIDDEN: usize = 4;

/// A text whose variables are replaced, with what is needed to speak about the text as it was.
pub(super) struct Text {
    /// What YAML reads.
    pub(super) text: String,
    replaced: Vec<Replaced>,
}

impl std::fmt::Debug for Text {
    /// Leaves the text out: secrets are part of it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Text")
            .field("replaced", &self.replaced)
            .finish_non_exhaustive()
    }
}

/// One replacement. Columns are counted in characters, from 1.
struct Replaced {
    line: usize,
    /// Where it begins in the file.
    file_column: usize,
    /// How many characters it takes in the file.
    file_width: usize,
    /// Where it begins in the new text.
    column: usize,
    /// How many characters it takes in the new text.
    width: usize,
    /// The variable and its value, where that came from the environment.
    taken: Option<(String, String)>,
}

impl std::fmt::Debug for Replaced {
    /// Leaves the value out: it may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replaced")
            .field("line", &self.line)
            .field("name", &self.taken.as_ref().map(|(name, _)| name))
            .finish_non_exhaustive()
    }
}

/// A variable that could not be replaced.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) message: String,
}

/// What the scanner is in the middle of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A value may begin here, so that a quote opens a quoted one.
    Token,
    /// Inside or behind a value without quotes, where a quote is a character like others.
    Plain,
    /// Between single quotes.
    Single,
    /// Between double quotes.
    Double,
    /// In a comment, up to the end of the line.
    Comment,
}

/// Replaces all variables of a text.
///
/// # Errors
///
/// The first variable that is not set and has no default, is not well-formed, or holds a control character.
pub(super) fn replace(text: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Text, Failure> {
    let chars: Vec<char> = text.chars().collect();
    let mut scanner = Scanner {
        chars: &chars,
        at: 0,
        line: 1,
        file_column: 1,
        column: 1,
        state: State::Token,
        depth: 0,
        text: String::with_capacity(text.len()),
        replaced: Vec::new(),
    };
    while let Some(c) = scanner.peek(0) {
        if is_break(c) {
            scanner.end_line(c);
        } else if scanner.state == State::Comment {
            scanner.copy();
        } else if c == '$' && scanner.peek(1) == Some('$') && scanner.peek(2) == Some('{') {
            scanner.put("${", 3, None);
        } else if c == '$' && scanner.peek(1) == Some('{') {
            scanner.variable(env)?;
        } else {
            scanner.step(c);
        }
    }
    Ok(Text {
        text: scanner.text,
        replaced: scanner.replaced,
    })
}

/// A single pass over the text. It knows just enough YAML to tell a comment from a `#` in quotes or in a word.
struct Scanner<'a> {
    chars: &'a [char],
    at: usize,
    line: usize,
    file_column: usize,
    column: usize,
    state: State,
    /// How many `[` and `{` are open: inside them `,` and brackets end a value.
    depth: usize,
    text: String,
    replaced: Vec<Replaced>,
}

impl Scanner<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Copies one character.
    fn copy(&mut self) {
        if let Some(c) = self.peek(0) {
            self.text.push(c);
            self.at += 1;
            self.file_column += 1;
            self.column += 1;
        }
    }

    /// Copies a line's end. A quoted value may go on behind it, nothing else does.
    fn end_line(&mut self, c: char) {
        let one_of_two = c == '\r' && self.peek(1) == Some('\n');
        self.copy();
        if one_of_two {
            return;
        }
        self.line += 1;
        self.file_column = 1;
        self.column = 1;
        if !matches!(self.state, State::Single | State::Double) {
            self.state = State::Token;
        }
    }

    /// Writes `new` for the next `file_width` characters of the file.
    fn put(&mut self, new: &str, file_width: usize, name: Option<&str>) {
        let width = new.chars().count();
        self.replaced.push(Replaced {
            line: self.line,
            file_column: self.file_column,
            file_width,
            column: self.column,
            width,
            taken: name.map(|name| (name.to_owned(), new.to_owned())),
        });
        self.text.push_str(new);
        self.at += file_width;
        self.file_column += file_width;
        self.column += width;
        if self.state == State::Token {
            self.state = State::Plain;
        }
    }

    /// Replaces the variable that begins here.
    fn variable(&mut self, env: &dyn Fn(&str) -> Option<String>) -> Result<(), Failure> {
        let body: String = self.chars[self.at + 2..]
            .iter()
            .take_while(|c| **c != '}' && !is_break(**c))
            .collect();
        let width = body.chars().count() + 3;
        if self.peek(width - 1) != Some('}') {
            return Err(self.failure("`${` without its `}`; write `$${` for a literal `${`"));
        }
        let (name, default) = match body.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (body.as_str(), None),
        };
        if !is_name(name) {
            return Err(self.failure(&format!(
                "`${{{name}}}` names no variable, expected letters, digits and `_`; write `$${{` for a literal `${{`"
            )));
        }
        if default.is_some_and(|default| default.contains("${")) {
            return Err(self.failure(&format!(
                "the default of `${{{name}}}` cannot hold another variable"
            )));
        }
        match (env(name).filter(|value| default.is_none() || !value.is_empty()), default) {
            (Some(value), _) if value.chars().any(|c| c.is_control() || is_break(c)) => {
                Err(self.failure(&format!(
                    "the environment variable {name} holds a line break or another control character"
                )))
            }
            (Some(value), _) => {
                self.put(&value, width, Some(name));
                Ok(())
            }
            (None, Some(default)) => {
                self.put(default, width, None);
                Ok(())
            }
            (None, None) => Err(self.failure(&format!(
                "the environment variable {name} is not set; set it, or give a default as in `${{{name}:-default}}`"
            ))),
        }
    }

    fn failure(&self, message: &str) -> Failure {
        Failure {
            line: self.line,
            column: self.file_column,
            message: message.to_owned(),
        }
    }

    /// Copies an ordinary character and notes what it begins or ends.
    fn step(&mut self, c: char) {
        let before = self.at.checked_sub(1).and_then(|at| self.chars.get(at));
        let after_space = before.is_none_or(|c| is_blank(*c));
        let after_quote = before.is_some_and(|c| matches!(c, '"' | '\''));
        let next = self.peek(1);
        let before_space = next.is_none_or(is_blank);
        let in_flow = self.depth > 0;
        self.state = match (self.state, c) {
            (State::Double, '\\') if matches!(next, Some('"' | '\\')) => {
                self.copy();
                State::Double
            }
            (State::Single, '\'') if next == Some('\'') => {
                self.copy();
                State::Single
            }
            (State::Double, '"') | (State::Single, '\'') => State::Plain,
            (State::Double | State::Single | State::Comment, _) => self.state,
            (_, '#') if after_space => State::Comment,
            (State::Token, '"') => State::Double,
            (State::Token, '\'') => State::Single,
            (State::Token, '[' | '{') => self.open(),
            (State::Plain, '[' | '{') if in_flow => self.open(),
            (_, ']' | '}') if in_flow => {
                self.depth -= 1;
                State::Plain
            }
            (_, ',') if in_flow => State::Token,
            (State::Token, '-' | '?' | ':') if before_space => State::Token,
            (State::Token, c) if is_blank(c) => State::Token,
            (State::Plain, ':')
                if before_space
                    || in_flow
                        && (after_quote || matches!(next, Some(',' | '[' | ']' | '{' | '}'))) =>
            {
                State::Token
            }
            (State::Token | State::Plain, _) => State::Plain,
        };
        self.copy();
    }

    fn open(&mut self) -> State {
        self.depth += 1;
        State::Token
    }
}

impl Text {
    /// The place in the file of a place in the replaced text.
    pub(super) fn place(&self, line: usize, column: usize) -> (usize, usize) {
        let mut file_column = column;
        for replaced in self.replaced.iter().filter(|r| r.line == line) {
            if column >= replaced.column + replaced.width && column > replaced.column {
                file_column = file_column + replaced.file_width - replaced.width;
            } else if column > replaced.column {
                return (line, replaced.file_column);
            }
        }
        (line, file_column)
    }

    /// Takes values that came from the environment out of a message.
    pub(super) fn hide_values(&self, message: &str) -> String {
        let mut values: Vec<(&str, &str)> = self
            .replaced
            .iter()
            .filter_map(|replaced| replaced.taken.as_ref())
            .map(|(name, value)| (name.as_str(), value.trim()))
            .filter(|(_, value)| value.chars().count() >= SHORTEST_HIDDEN)
            .collect();
        // The longest first: one value may be a part of another.
        values.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        let mut hidden = message.to_owned();
        for (name, value) in values {
            let variable = format!("${{{name}}}");
            hidden = hidden
                .replace(value, &variable)
                .replace(&value.escape_debug().to_string(), &variable);
        }
        hidden
    }

    /// The same for a message about a place in the replaced text, which may quote a part of a value.
    pub(super) fn hide(&self, line: usize, column: usize, message: &str) -> String {
        let hidden = self.hide_values(message);
        if hidden != message {
            return hidden;
        }
        // The message may quote a part of a value (one that holds YAML of its own), which no search finds.
        let inside = self.replaced.iter().find(|replaced| {
            // One column earlier too: the quote around a value.
            let columns = replaced.column.saturating_sub(1)..replaced.column + replaced.width;
            replaced.line == line && columns.contains(&column)
        });
        match inside.and_then(|replaced| replaced.taken.as_ref()) {
            Some((name, _)) => {
                let expected = message.rfind(", expected ").map_or("", |at| &message[at..]);
                format!("what the environment variable {name} holds does not fit here{expected}")
            }
            None => hidden,
        }
    }
}

/// The characters that end a line in YAML 1.1, which is what the reader counts.
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t') || is_break(c)
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests;
