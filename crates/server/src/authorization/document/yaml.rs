//! YAML, from the events of a parser.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::super::mistake::Mistake;
use super::{DEPTH_MAX, Entry, MistakeAt, Node, Value};

/// Lists and tables that have begun, the innermost last.
#[derive(Debug, Default)]
struct Building {
    open: Vec<Open>,
    whole: Option<Node>,
    documents: usize,
}

#[derive(Debug)]
struct Open {
    line: usize,
    container: Container,
}

#[derive(Debug)]
enum Container {
    List(Vec<Node>),
    Table {
        entries: Vec<Entry>,
        /// The field whose value comes next.
        field: Option<(String, usize)>,
    },
}

/// Reads the one document of a file.
pub(super) fn parse(text: &str) -> Result<Node, MistakeAt> {
    let mut parser = Parser::new_from_str(text);
    let mut building = Building::default();
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| MistakeAt {
            line: Some(error.marker().line()),
            mistake: Mistake::Syntax(error.info().to_owned()),
        })?;
        let line = span.start.line();
        building.take(event, &span).map_err(|mistake| MistakeAt {
            line: Some(line),
            mistake,
        })?;
    }
    building.whole.ok_or(MistakeAt {
        line: None,
        mistake: Mistake::Nothing,
    })
}

impl Building {
    fn take(&mut self, event: Event<'_>, span: &Span) -> Result<(), Mistake> {
        let line = span.start.line();
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    Err(Mistake::Documents)
                } else {
                    Ok(())
                }
            }
            Event::Alias(_) => Err(Mistake::Alias),
            Event::Scalar(_, _, 1.., _) | Event::SequenceStart(1.., _) | Event::MappingStart(1.., _) => {
                Err(Mistake::Alias)
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Err(Mistake::Tag),
            Event::Scalar(text, style, ..) => self.scalar(text.into_owned(), style, line),
            Event::SequenceStart(..) => self.open(line, Container::List(Vec::new())),
            Event::MappingStart(..) => {
                let (entries, field) = (Vec::new(), None);
                self.open(line, Container::Table { entries, field })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
        }
    }

    fn scalar(&mut self, text: String, style: ScalarStyle, line: usize) -> Result<(), Mistake> {
        if let Some(Open {
            container: Container::Table {
                field: field @ None, ..
            },
            ..
        }) = self.open.last_mut()
        {
            *field = Some((text, line));
            return Ok(());
        }
        let value = match style {
            ScalarStyle::Plain => match &*text {
                "" | "~" | "null" | "Null" | "NULL" => Value::Null,
                _ => Value::Plain(text),
            },
            _ => Value::Text(text),
        };
        self.finish(line, value)
    }

    fn open(&mut self, line: usize, container: Container) -> Result<(), Mistake> {
        if let Some(Open {
            container: Container::Table { field: None, .. },
            ..
        }) = self.open.last()
        {
            return Err(Mistake::FieldName);
        }
        if self.open.len() == DEPTH_MAX {
            return Err(Mistake::Depth);
        }
        self.open.push(Open { line, container });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Mistake> {
        let Some(Open { line, container }) = self.open.pop() else {
            return Ok(());
        };
        self.finish(
            line,
            match container {
                Container::List(items) => Value::List(items),
                Container::Table { entries, .. } => Value::Table(entries),
            },
        )
    }

    fn finish(&mut self, line: usize, value: Value) -> Result<(), Mistake> {
        let node = Node {
            line: Some(line),
            value,
        };
        match self.open.last_mut().map(|open| &mut open.container) {
            None => self.whole = Some(node),
            Some(Container::List(items)) => items.push(node),
            Some(Container::Table { entries, field }) => {
                let (field, line) = field.take().ok_or(Mistake::FieldName)?;
                entries.push(Entry {
                    line: Some(line),
                    field,
                    node,
                });
            }
        }
        Ok(())
    }
}
