//! What is in a journal, for people: `--list-intents`. Reads, and takes nothing over.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use kube::Client;

use super::document::{self, Unreadable};
use super::lease::IntentLease;
use super::{JournalError, Place};
use crate::intent::{Intent, Origin, seconds};
use crate::trust::{self, Distrust};

/// The intents in the text of a journal.
pub fn read(text: &str) -> Result<Vec<Intent>, Unreadable> {
    let intents = document::decode(text)?;
    Ok(intents.into_iter().map(|(intent, _)| intent).collect())
}

/// The intents in a journal, one per line under a heading. Works beside the process that writes them.
pub async fn list(
    client: Client,
    place: Place<'_>,
    cluster: Option<&str>,
    age_limit: Duration,
) -> Result<String, JournalError> {
    let mut lease = IntentLease::new(client, place);
    lease.read().await?;
    let now = seconds(SystemTime::now());
    let mut text = format!(
        "{:<44} {:<40} {:<20} {:>8}  {}\n",
        "VOLUME", "CLAIM", "CLASS", "AGE", "IF THE CLAIM IS GONE"
    );
    for kept in lease.entries()?.iter() {
        let (intent, origin) = (&kept.intent, kept.origin.as_ref());
        let claim = format!("{}/{}", intent.claim.namespace, intent.claim.name);
        let then = match trust::judge(origin, cluster, age_limit, now) {
            Ok(()) => "the volume is deleted".to_owned(),
            Err(distrust) => format!("waits for --force-intent: {distrust}"),
        };
        let _ = writeln!(
            text,
            "{:<44} {claim:<40} {:<20} {:>8}  {then}",
            intent.volume,
            intent.class.name,
            age(origin, now)
        );
    }
    Ok(text)
}

/// As kubectl shows it.
fn age(origin: Option<&Origin>, now: u64) -> String {
    let Some(origin) = origin else {
        return Distrust::UNKNOWN_AGE.to_owned();
    };
    trust::words(now.saturating_sub(origin.written))
}
