//! Redis frozen under load: it neither answers nor closes its connections, as a machine that
//! swaps or a network that drops packets.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Scale;
use super::accuracy::{self, DEMAND, LIMIT};
use super::client::{self, Answer, Flow};
use super::machine::Machine;
use super::peers::{Kind, OnFailure, Programs, Setup};
use super::server::Redis;

/// Load before and after.
const CALM: Duration = Duration::from_secs(3);
/// Asks for three times its limit.
const HUNGRY: &str = "hungry";
/// Asks for three fifths of its limit.
const MODEST: &str = "modest";
const MODEST_RATE: f64 = 0.6 * LIMIT.refill as f64;
/// Of the timeline.
pub const STEP: Duration = Duration::from_millis(200);

/// A proxy and what it does about it.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    pub kind: Kind,
    pub on_failure: OnFailure,
    pub name: &'static str,
}

const SUBJECTS: [Subject; 3] = [
    Subject {
        kind: Kind::Aforo,
        // Has its own ways.
        on_failure: OnFailure {
            timeout: 5,
            open: false,
        },
        name: "Aforo",
    },
    Subject {
        kind: Kind::NginxLua,
        on_failure: OnFailure {
            timeout: 1000,
            open: false,
        },
        name: "nginx + Lua, 1 s, then 503",
    },
    Subject {
        kind: Kind::NginxLua,
        on_failure: OnFailure {
            timeout: 5,
            open: true,
        },
        name: "nginx + Lua, 5 ms, then open",
    },
];

/// What one tenant got.
pub struct Tenant {
    /// Answers by status to what was asked while Redis was frozen; 0: none came.
    pub statuses: BTreeMap<u16, usize>,
    /// The longest wait of those.
    pub longest: Duration,
    /// The most that was let through beyond `C + r·T` in any window of the run, in requests.
    pub excess: f64,
}

/// What happened to one proxy's clients.
pub struct Row {
    pub subject: Subject,
    pub hungry: Tenant,
    pub modest: Tenant,
    /// Requests of the hungry tenant let through, each [`STEP`], by when they were answered.
    pub timeline: Vec<usize>,
}

/// When Redis stops answering, from the beginning of the load.
pub fn frozen_at() -> Duration {
    CALM
}

/// Freezes Redis under what is installed.
pub fn run(machine: &Machine, programs: &Programs, scale: Scale) -> Result<Vec<Row>, String> {
    let runtime = accuracy::runtime()?;
    let (origin, _running, _folder) = programs.origin(machine)?;
    let mut rows = Vec::new();
    for subject in SUBJECTS {
        if !programs.has(subject.kind) {
            continue;
        }
        let redis = Redis::start(machine)?;
        let setup = Setup {
            origin,
            redis: redis.address,
            limit: LIMIT,
            instances: 2,
            on_failure: subject.on_failure,
        };
        let failed = |error: String| format!("{}: {error}", subject.name);
        let one = programs
            .start(machine, subject.kind, &setup)
            .map_err(failed)?;
        let two = programs
            .start(machine, subject.kind, &setup)
            .map_err(failed)?;
        let flow = |tenant, proxy, rate: f64| Flow {
            tenant,
            proxy,
            rate: rate / 2.0,
        };
        let flows = [
            flow(HUNGRY, one.address, DEMAND),
            flow(HUNGRY, two.address, DEMAND),
            flow(MODEST, one.address, MODEST_RATE),
            flow(MODEST, two.address, MODEST_RATE),
        ];
        let time = CALM + scale.frozen + CALM;
        let answers = runtime.block_on(async {
            let freeze = async {
                tokio::time::sleep(CALM).await;
                redis.process.signal("STOP");
                tokio::time::sleep(scale.frozen).await;
                redis.process.signal("CONT");
            };
            tokio::join!(client::send(&flows, time), freeze).0
        });
        let row = Row {
            subject,
            hungry: judge(&answers, HUNGRY, scale.frozen),
            modest: judge(&answers, MODEST, scale.frozen),
            timeline: timeline(&answers, time),
        };
        eprintln!(
            "fault: {}: longest wait {:.1} ms",
            subject.name,
            row.hungry.longest.max(row.modest.longest).as_secs_f64() * 1e3
        );
        rows.push(row);
    }
    Ok(rows)
}

fn judge(answers: &[Answer], tenant: &str, frozen: Duration) -> Tenant {
    let mine: Vec<&Answer> = answers.iter().filter(|a| a.tenant == tenant).collect();
    let meanwhile = |answer: &&&Answer| answer.due >= CALM && answer.due < CALM + frozen;
    let mut statuses = BTreeMap::new();
    for answer in mine.iter().filter(meanwhile) {
        *statuses.entry(answer.status).or_default() += 1;
    }
    let waits = mine.iter().filter(meanwhile).map(|answer| answer.took);
    Tenant {
        statuses,
        longest: waits.max().unwrap_or_default(),
        excess: worst_excess(&mine),
    }
}

fn worst_excess(answers: &[&Answer]) -> f64 {
    let admitted = answers.iter().filter(|answer| answer.status == 200);
    let mut times: Vec<Duration> = admitted.map(|a| a.due + a.took).collect();
    times.sort_unstable();
    let (mut least, mut worst) = (f64::INFINITY, 0.0_f64);
    for (count, time) in times.into_iter().enumerate() {
        let ahead = count as f64 - f64::from(LIMIT.refill) * time.as_secs_f64();
        least = least.min(ahead);
        worst = worst.max(ahead + 1.0 - least - f64::from(LIMIT.capacity));
    }
    worst
}

fn timeline(answers: &[Answer], time: Duration) -> Vec<usize> {
    let step_of = |time: Duration| (time.as_millis() / STEP.as_millis()) as usize;
    let mut steps = vec![0; step_of(time)];
    let admitted = |answer: &&Answer| answer.tenant == HUNGRY && answer.status == 200;
    for answer in answers.iter().filter(admitted) {
        if let Some(step) = steps.get_mut(step_of(answer.due + answer.took)) {
            *step += 1;
        }
    }
    steps
}
