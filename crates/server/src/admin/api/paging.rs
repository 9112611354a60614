//! Pages, made of the pieces that the node gives.

use broker::inspection::Piece;
use cluster::NodeId;

use super::{Answered, Failure, Question, Said, ask, beside_the_point};
use crate::admin::pages::Pages;

/// A page of a list.
pub(super) struct Page<T, P> {
    pub(super) node: NodeId,
    pub(super) found: Vec<T>,
    pub(super) next: Option<P>,
    pub(super) total: usize,
}

/// Pieces that one page is made of, at most: then it ends where it is, and has fewer.
const PIECES_MAX: usize = 32;

/// Asks for pieces until a page is full. `from`: where it begins; `question` asks for so many from a place on.
pub(super) async fn page<T, P: Clone>(
    pages: &Pages,
    (from, limit): (P, usize),
    question: impl Fn(P, usize) -> Question,
    read: impl Fn(Said) -> Option<Piece<T, P>>,
) -> Result<Page<T, P>, Failure> {
    let mut page: Option<Page<T, P>> = None;
    let mut place = from;
    for _ in 0..PIECES_MAX {
        let missing = limit - page.as_ref().map_or(0, |page| page.found.len());
        // Whether a full page is the last one is seen when there is something behind it.
        let Answered { node, said } = ask(pages, question(place, missing.max(1))).await?;
        let piece = read(said).ok_or_else(beside_the_point)?;
        let is_more = missing == 0 && !piece.found.is_empty();
        let page = page.get_or_insert(Page {
            node,
            found: Vec::new(),
            next: None,
            total: 0,
        });
        if is_more {
            break;
        }
        page.total = piece.total;
        page.found.extend(piece.found);
        if missing > 0 || piece.next.is_none() {
            page.next.clone_from(&piece.next);
        }
        match piece.next {
            Some(next) => place = next,
            None => break,
        }
    }
    page.ok_or_else(beside_the_point)
}
