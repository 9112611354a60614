//! A Rust source file, taken apart as far as the rules need it: code, comments, and which lines are tests.
//!
//! This is a lexer for comments and literals, no more: it does not know macros or syntax.

/// A Rust source file.
#[derive(Debug, Clone)]
pub struct Source {
    /// Relative to the repository, with `/`.
    pub path: String,
    /// As it is.
    pub text: String,
    /// Without comments and without what is inside string and character literals; each line keeps its number.
    pub code: String,
    /// Line, counted from one, and text of each line of a comment that is no doc comment.
    pub comments: Vec<(usize, String)>,
    /// For each line, whether it belongs to an item under `#[cfg(test)]`.
    test_lines: Vec<bool>,
    is_test_file: bool,
}

impl Source {
    /// Takes `text` apart.
    pub fn parse(path: &str, text: &str) -> Self {
        let (code, comments) = Lexer::new(text).run();
        let test_lines = test_lines(&code);
        let folders = path
            .split('/')
            .any(|part| matches!(part, "tests" | "benches" | "examples"));
        let is_test_file = folders || path.ends_with("/tests.rs");
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            comments,
            test_lines,
            is_test_file,
        }
    }

    /// Number, counted from one, and code of each line.
    pub fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
    }

    /// As [`Source::code_lines`], without tests.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code_lines().filter(|(number, _)| !self.is_test(*number))
    }

    /// Whether the line belongs to a test.
    pub fn is_test(&self, line: usize) -> bool {
        self.is_test_file || self.test_lines.get(line - 1).copied().unwrap_or(false)
    }
}

/// Splits code from comments, character by character.
struct Lexer {
    letters: Vec<char>,
    at: usize,
    line: usize,
    code: String,
    comments: Vec<(usize, String)>,
}

impl Lexer {
    fn new(text: &str) -> Self {
        Self {
            letters: text.chars().collect(),
            at: 0,
            line: 1,
            code: String::new(),
            comments: Vec::new(),
        }
    }

    fn run(mut self) -> (String, Vec<(usize, String)>) {
        while let Some(letter) = self.peek(0) {
            let before = self.code.chars().next_back().unwrap_or(' ');
            let in_word = before.is_alphanumeric() || before == '_';
            match letter {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                'r' if !in_word || matches!(before, 'b' | 'c') => self.raw_string_or_word(),
                '\'' => self.character_or_lifetime(),
                _ => self.keep(),
            }
        }
        (self.code, self.comments)
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.letters.get(self.at + ahead).copied()
    }

    fn keep(&mut self) {
        if let Some(letter) = self.peek(0) {
            self.line += usize::from(letter == '\n');
            self.code.push(letter);
            self.at += 1;
        }
    }

    /// Leaves a letter out, but keeps the end of a line.
    fn skip(&mut self) {
        if let Some(letter) = self.peek(0) {
            if letter == '\n' {
                self.code.push('\n');
                self.line += 1;
            }
            self.at += 1;
        }
    }

    fn line_comment(&mut self) {
        let start = self.at;
        while self.peek(0).is_some_and(|letter| letter != '\n') {
            self.at += 1;
        }
        let text: String = self.letters[start..self.at].iter().collect();
        self.comment(self.line, &text);
    }

    fn block_comment(&mut self) {
        let (start, line) = (self.at, self.line);
        let mut depth = 0;
        while self.peek(0).is_some() {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => depth += 1,
                (Some('*'), Some('/')) => depth -= 1,
                _ => {
                    self.skip();
                    continue;
                }
            }
            self.skip();
            self.skip();
            if depth == 0 {
                break;
            }
        }
        let text: String = self.letters[start..self.at].iter().collect();
        for (index, part) in text.lines().enumerate() {
            self.comment(line + index, part);
        }
    }

    fn comment(&mut self, line: usize, text: &str) {
        let doc = ["///", "//!", "/**", "/*!"]
            .iter()
            .any(|opening| text.starts_with(opening));
        if !doc {
            self.comments
                .push((line, text.trim_start_matches(['/', '*']).to_owned()));
        }
    }

    fn string(&mut self) {
        self.keep();
        while let Some(letter) = self.peek(0) {
            match letter {
                '"' => return self.keep(),
                '\\' => {
                    self.skip();
                    self.skip();
                }
                _ => self.skip(),
            }
        }
    }

    fn raw_string_or_word(&mut self) {
        let hashes = (1..).take_while(|ahead| self.peek(*ahead) == Some('#')).count();
        if self.peek(1 + hashes) != Some('"') {
            return self.keep();
        }
        (0..hashes + 2).for_each(|_| self.keep());
        while self.peek(0).is_some() {
            if self.peek(0) == Some('"') && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#')) {
                return (0..=hashes).for_each(|_| self.keep());
            }
            self.skip();
        }
    }

    fn character_or_lifetime(&mut self) {
        let is_character = self.peek(1) == Some('\\') || self.peek(2) == Some('\'');
        self.keep();
        if !is_character {
            return;
        }
        while let Some(letter) = self.peek(0) {
            match letter {
                '\'' => return self.keep(),
                '\\' => {
                    self.skip();
                    self.skip();
                }
                _ => self.skip(),
            }
        }
    }
}

/// From each `#[cfg(test)]` to the end of the item after it: its closing brace, or a `;` before any brace.
fn test_lines(code: &str) -> Vec<bool> {
    let mut marked = vec![false; code.lines().count()];
    let mut from = 0;
    while let Some(found) = code[from..].find("#[cfg(test)]") {
        let start = from + found;
        let end = item_end(&code[start..]).map_or(code.len(), |length| start + length);
        let first = code[..start].matches('\n').count();
        let last = code[..end].matches('\n').count();
        let lines = marked.iter_mut().take(last + 1).skip(first);
        lines.for_each(|line| *line = true);
        from = end;
    }
    marked
}

fn item_end(code: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, letter) in code.char_indices() {
        match letter {
            ';' if depth == 0 => return Some(offset),
            '{' => depth += 1,
            '}' if depth <= 1 => return Some(offset),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let source = Source::parse(
            "crates/a/src/a.rs",
            "let a = \"// no \\\" TODO\"; // yes one\n/* two\n three */ let b = r#\"x \" y\"#; let c = '\"'; let d: &'a str;\n/// doc\nfn e() {}",
        );
        assert_eq!(
            source.code,
            "let a = \"\"; \n\n let b = r#\"\"#; let c = ''; let d: &'a str;\n\nfn e() {}"
        );
        let comments: Vec<_> = source
            .comments
            .iter()
            .map(|(line, text)| (*line, text.trim()))
            .collect();
        assert_eq!(comments, [(1, "yes one"), (2, "two"), (3, "three */")]);
    }

    #[test]
    fn escapes_and_raw_names_do_not_confuse() {
        let source = Source::parse(
            "a.rs",
            "let a = '\\''; let b = b\"\\\\\"; let r#type = br\"\\\"; let c = 'x';",
        );
        assert_eq!(
            source.code,
            "let a = ''; let b = b\"\"; let r#type = br\"\"; let c = '';"
        );
    }

    #[test]
    fn test_items_are_told_from_the_product() {
        let source = Source::parse(
            "crates/a/src/a.rs",
            "fn a() {}\n#[cfg(test)]\nfn b() {\n  { c(); }\n}\nfn d() {}\n#[cfg(test)]\nmod tests;\nfn e() {}\n",
        );
        let product: Vec<_> = source.product_lines().map(|(number, _)| number).collect();
        assert_eq!(product, [1, 6, 9]);
    }

    #[test]
    fn files_of_tests_are_tests() {
        for path in [
            "crates/a/tests/it/main.rs",
            "crates/a/src/b/tests.rs",
            "crates/a/benches/c.rs",
        ] {
            assert!(Source::parse(path, "fn a() {}").is_test(1), "{path}");
        }
    }
}
