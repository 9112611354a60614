//! A lock that waits for its turn and renews itself.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::hlc::Hlc;
use protocol::state_store::ErrorText;
use tokio::sync::{oneshot, watch};

use crate::clock;
use crate::core::OperationError;
use crate::core::lock::{Action, Answer, Contender, Event};
use crate::state_store::{Deletion, SetOptions, SetOutcome, StateStore, StoreError};
use crate::watch::{Watch, WatchEvent};

pub use crate::core::lock::Loss as Lost;

/// How to take a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockOptions {
    lease: Duration,
    holder: Option<Bytes>,
    wait: Option<Duration>,
}

/// Why a lock was not had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Another had it all the time.
    #[error("the lock was not free in time")]
    NotInTime,
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A lock that is held, and renewed in the background until it is released or dropped.
///
/// Holding it is a belief: a process that sleeps for longer than the lease wakes up believing. What has to be
/// safe carries the [token](Lock::token): `store.set(key, value, SetOptions::new().fencing(lock.token()))`.
///
/// A lock that is released or dropped, or an attempt that is given up, is withdrawn from the store. Without a
/// connection that happens as soon as there is one again, for one lease at most, after which the store has ended the
/// lock by itself; with a [holder](LockOptions::holder) of your own for the client's timeout only. The client stays
/// until then, also if its handles are dropped.
///
/// ```no_run
/// use std::time::Duration;
/// use statehold_client::{Client, Lock, LockOptions, Options, SetOptions};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Client::connect(Options::new("127.0.0.1:1883")).await?.state_store();
/// let lock = Lock::acquire(&store, "pump", LockOptions::new(Duration::from_secs(10))).await?;
/// tokio::select! {
///     lost = lock.lost() => eprintln!("stopped: {lost}"),
///     result = store.set("pump/speed", "7", SetOptions::new().fencing(lock.token())) => { result?; }
/// }
/// lock.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Lock {
    status: watch::Receiver<Status>,
    release: Option<oneshot::Sender<()>>,
    key: Bytes,
    holder: Bytes,
}

#[derive(Debug, Clone)]
enum Status {
    Waiting,
    Held { token: Hlc, until: Instant },
    Lost(Lost),
    Failed(StoreError),
    Released(Result<(), StoreError>),
}

impl LockOptions {
    /// Waits for the lock for ever, and holds it for `lease` at a time.
    pub fn new(lease: Duration) -> Self {
        Self {
            lease,
            holder: None,
            wait: None,
        }
    }

    /// The value of the lock's key. Two that use the same have the lock together; by default it is made of the
    /// client id and a number.
    #[must_use]
    pub fn holder(mut self, holder: impl Into<Bytes>) -> Self {
        self.holder = Some(holder.into());
        self
    }

    /// Waits no longer than this. Zero: one attempt, which ends with [`LockError::Store`] if there is no answer. Such
    /// an attempt may have had the lock; it is withdrawn (see [`Lock`]).
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }
}

impl Lock {
    /// Waits until the lock is free, and takes it.
    pub async fn acquire(
        store: &StateStore,
        key: impl Into<Bytes>,
        options: LockOptions,
    ) -> Result<Self, LockError> {
        let key = key.into();
        let is_shared = options.holder.is_some();
        let holder = options.holder.unwrap_or_else(|| unique_holder(store));
        let (status_sender, status) = watch::channel(Status::Waiting);
        let (release, released) = oneshot::channel();
        let keeper = Keeper {
            store: store.clone(),
            key: key.clone(),
            holder: holder.clone(),
            lease: options.lease,
            contender: Contender::new(options.lease),
            watch: None,
            request: None,
            status: status_sender,
            is_single_attempt: options.wait.is_some_and(|wait| wait.is_zero()),
            is_shared,
            release_reported_by: None,
        };
        tokio::spawn(keeper.run(released));
        // From here on the lock is released when this future is dropped.
        let mut lock = Self {
            status,
            release: Some(release),
            key,
            holder,
        };
        let decided = lock.decided();
        let status = match options.wait {
            Some(wait) if !wait.is_zero() => tokio::time::timeout(wait, decided)
                .await
                .map_err(|_| LockError::NotInTime)?,
            _ => decided.await,
        };
        match status {
            Status::Held { .. } => Ok(lock),
            Status::Failed(error) => Err(error.into()),
            Status::Waiting | Status::Lost(_) | Status::Released(_) => Err(LockError::NotInTime),
        }
    }

    /// The fencing token of the newest renewal: greater than that of every earlier holder.
    pub fn token(&self) -> Hlc {
        match &*self.status.borrow() {
            Status::Held { token, .. } => token.clone(),
            // Lower than any: what carries it is refused.
            _ => Hlc {
                wall: 0,
                counter: 0,
                node: protocol::Text::from_static("lost"),
            },
        }
    }

    /// True while the lock is held, as far as this side can know.
    pub fn is_held(&self) -> bool {
        matches!(&*self.status.borrow(), Status::Held { until, .. } if clock::now().instant < *until)
    }

    /// Returns when the lock is lost.
    pub async fn lost(&self) -> Lost {
        let mut status = self.status.clone();
        let is_over = |status: &Status| !matches!(status, Status::Held { .. } | Status::Waiting);
        match status.wait_for(is_over).await.map(|status| status.clone()) {
            Ok(Status::Lost(lost)) => lost,
            _ => Lost::Expired,
        }
    }

    /// Returns when the lease ends within this time because it was not renewed, or when the lock is lost: time to stop what must not go on
    /// without it.
    pub async fn lease_ends_within(&self, left: Duration) {
        let mut status = self.status.clone();
        loop {
            let due = match &*status.borrow_and_update() {
                Status::Held { until, .. } => until.checked_sub(left),
                _ => return,
            };
            let Some(due) = due else { return };
            tokio::select! {
                changed = status.changed() => if changed.is_err() { return },
                () = until(Some(due)) => return,
            }
        }
    }

    /// The key of the lock.
    pub fn key(&self) -> &Bytes {
        &self.key
    }

    /// What the key is set to.
    pub fn holder(&self) -> &Bytes {
        &self.holder
    }

    /// Gives the lock back. An error means that others have to wait until the client reaches the store again, or
    /// until the lease is over.
    pub async fn release(mut self) -> Result<(), StoreError> {
        if let Some(release) = self.release.take() {
            let _ = release.send(());
        }
        let is_over = |status: &Status| !matches!(status, Status::Held { .. } | Status::Waiting);
        match self.status.wait_for(is_over).await.map(|status| status.clone()) {
            Ok(Status::Released(result)) => result,
            Ok(Status::Failed(error)) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn decided(&mut self) -> Status {
        let is_decided = |status: &Status| !matches!(status, Status::Waiting);
        let ended = StoreError::Operation(OperationError::Ended);
        self.status
            .wait_for(is_decided)
            .await
            .map_or(Status::Failed(ended), |status| status.clone())
    }
}

/// Runs a [`Contender`]: sends its requests and tells it the time.
struct Keeper {
    store: StateStore,
    key: Bytes,
    holder: Bytes,
    lease: Duration,
    contender: Contender,
    watch: Option<Watch>,
    request: Option<Pin<Box<dyn Future<Output = Finished> + Send>>>,
    status: watch::Sender<Status>,
    is_single_attempt: bool,
    /// The holder's name was given: another lock may have the same.
    is_shared: bool,
    /// Who waits for the release is told then that there is no answer, while the request goes on.
    release_reported_by: Option<Instant>,
}

/// How a request of the contender ended.
enum Finished {
    Set(Result<SetOutcome, StoreError>),
    Watch(Result<Watch, StoreError>),
    Delete(Result<Deletion, StoreError>),
}

impl Keeper {
    async fn run(mut self, mut released: oneshot::Receiver<()>) {
        let mut actions = Vec::new();
        let mut is_released = false;
        self.contender
            .step(clock::now().instant, Event::Start, &mut actions);
        loop {
            for action in actions.drain(..) {
                if self.execute(action) {
                    return;
                }
            }
            let deadline = self.contender.deadline();
            let event = tokio::select! {
                finished = pending(&mut self.request) => self.finished(finished),
                event = change(&mut self.watch) => event,
                // The sender is dropped with the lock: that releases it too.
                _ = &mut released, if !is_released => {
                    is_released = true;
                    Some(Event::Release)
                }
                () = until(deadline) => Some(Event::Timeout),
                () = until(self.release_reported_by) => {
                    self.report_release(Err(OperationError::TimedOut.into()));
                    continue;
                }
            };
            match event {
                Some(event) => self.contender.step(clock::now().instant, event, &mut actions),
                None => return,
            }
        }
    }

    /// True if it is over.
    fn execute(&mut self, action: Action) -> bool {
        let (store, key, holder) = (self.store.clone(), self.key.clone(), self.holder.clone());
        match action {
            Action::Set { timeout } => {
                let options = SetOptions::new().if_absent_or_equal().expires_in(self.lease);
                let timeout = timeout.min(store.client().timeout());
                self.request = Some(Box::pin(async move {
                    Finished::Set(store.set_within(timeout, key, holder, options).await)
                }));
            }
            Action::Watch if self.is_single_attempt => {
                self.status.send_replace(Status::Released(Ok(())));
                return true;
            }
            Action::Watch => {
                self.request = Some(Box::pin(async move { Finished::Watch(store.watch(key).await) }));
            }
            Action::Unwatch => self.watch = None,
            Action::Delete { timeout } => self.delete(timeout),
            Action::Held { token, until } => {
                self.status.send_replace(Status::Held { token, until });
            }
            Action::Lost(lost) => {
                self.status.send_replace(Status::Lost(lost));
            }
            Action::Ended => return true,
        }
        false
    }

    /// What the end of a request means to the contender; `None`: give up.
    fn finished(&mut self, finished: Finished) -> Option<Event> {
        self.request = None;
        match finished {
            Finished::Set(Ok(SetOutcome::Stored { version })) => {
                Some(Event::Answered(Answer::Stored(version)))
            }
            Finished::Set(Ok(SetOutcome::NotApplied { .. })) => Some(Event::Answered(Answer::Refused)),
            // It may have been stored: what nobody will hold is given back.
            Finished::Set(Err(error)) if self.is_only_attempt() && is_passing(&error) => {
                self.fail(error);
                Some(Event::Release)
            }
            Finished::Set(Err(error)) if is_passing(&error) => Some(Event::Answered(Answer::Unknown)),
            Finished::Watch(Ok(watch)) => {
                self.watch = Some(watch);
                Some(Event::Watching)
            }
            // Without a watch the contender looks again from time to time.
            Finished::Watch(Err(error)) if is_passing(&error) => Some(Event::Watching),
            Finished::Set(Err(error)) | Finished::Watch(Err(error)) => {
                self.fail(error);
                None
            }
            Finished::Delete(result) => {
                // Another lock of this holder may have been taken since, which a second VDEL would delete.
                let is_again = !self.is_shared && result.as_ref().is_err_and(is_passing);
                self.report_release(result.map(drop));
                Some(if is_again {
                    Event::NotDeleted
                } else {
                    Event::Deleted
                })
            }
        }
    }

    /// Begins the VDEL, which waits in the queue of the client for longer than anybody waits for the release.
    ///
    /// Not so if the holder's name is shared: another client may take the lock for it meanwhile.
    fn delete(&mut self, timeout: Duration) {
        let (store, key, holder) = (self.store.clone(), self.key.clone(), self.holder.clone());
        let reported_after = store.client().timeout();
        self.release_reported_by = Some(clock::now().instant + reported_after);
        let timeout = if self.is_shared {
            reported_after
        } else {
            timeout.max(reported_after)
        };
        self.request = Some(Box::pin(async move {
            Finished::Delete(store.vdel_within(timeout, key, holder).await)
        }));
    }

    fn report_release(&mut self, result: Result<(), StoreError>) {
        self.release_reported_by = None;
        let is_waiting = matches!(&*self.status.borrow(), Status::Waiting | Status::Held { .. });
        if is_waiting {
            self.status.send_replace(Status::Released(result));
        }
    }

    /// Whether the lock is wanted now or not at all, and is not held.
    fn is_only_attempt(&self) -> bool {
        self.is_single_attempt && matches!(&*self.status.borrow(), Status::Waiting)
    }

    fn fail(&mut self, error: StoreError) {
        let was_held = matches!(&*self.status.borrow(), Status::Held { .. });
        self.status.send_replace(if was_held {
            Status::Lost(Lost::Expired)
        } else {
            Status::Failed(error)
        });
    }
}

/// Whether the same request may go well in a moment.
fn is_passing(error: &StoreError) -> bool {
    match error {
        StoreError::Refused(error) => *error == ErrorText::Unavailable,
        StoreError::Operation(error) => matches!(error, OperationError::TimedOut | OperationError::QueueFull),
    }
}

async fn pending(request: &mut Option<Pin<Box<dyn Future<Output = Finished> + Send>>>) -> Finished {
    match request {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

/// The next thing that may have freed the key.
async fn change(watch: &mut Option<Watch>) -> Option<Event> {
    while let Some(open) = watch {
        match open.recv().await {
            Some(WatchEvent::Set { .. }) => {}
            Some(WatchEvent::Deleted { .. } | WatchEvent::Gap) => return Some(Event::Freed),
            None => *watch = None,
        }
    }
    std::future::pending().await
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// The client id tells clients apart, the number the locks of one client, also across restarts.
fn unique_holder(store: &StateStore) -> Bytes {
    let client = store.client();
    Bytes::from(format!(
        "{}/{:016x}/{}",
        client.client_id(),
        client.seed(),
        client.next_number()
    ))
}
