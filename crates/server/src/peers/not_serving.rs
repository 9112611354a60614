//! Answers for operators of a node that does not serve: its cluster is not formed yet, or it is rolled back.

use std::collections::BTreeMap;

use broker::ClusterAnswer;
use tokio::sync::mpsc;

use super::Peers;
use crate::admin::api::{Answered, Said};
use crate::admin::{AdminRequest, ClusterAnswered, Health};
use crate::condition::Condition;
use crate::metrics::Figures;

/// Answers all that is asked, as long as somebody can ask.
pub(crate) async fn answer_all(
    peers: &Peers,
    condition: &Condition,
    requests: &mut mpsc::Receiver<AdminRequest>,
) {
    while let Some(request) = requests.recv().await {
        answer(peers, condition, request);
    }
}

/// Answers with the condition that keeps the node from serving.
pub(super) fn answer(peers: &Peers, condition: &Condition, request: AdminRequest) {
    // Whoever asked may have gone.
    match request {
        AdminRequest::Metrics(answer) => {
            let figures = Figures {
                peers: peers.figures(),
                ..Figures::default()
            };
            let _ = answer.send(Box::new(figures));
        }
        AdminRequest::Health(answer) => {
            let not_ready = vec![condition.line()];
            let _ = answer.send(Health { not_ready });
        }
        AdminRequest::Cluster(_, answer) => {
            let _ = answer.send(ClusterAnswered {
                answer: ClusterAnswer::Refused(condition.line()),
                clocks_ahead_ms: BTreeMap::new(),
                conditions: Vec::new(),
            });
        }
        AdminRequest::Api(_, answer) => {
            let _ = answer.send(Answered {
                node: peers.shared.identity.node,
                said: Said::NotFormed(condition.line()),
            });
        }
    }
}
