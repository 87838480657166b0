//! The `process_*` metrics, read from `/proc` at every scrape.
//!
//! Names and meaning are those of Prometheus' own client libraries.

use std::{fmt, fs, io};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// Reads the numbers of this process.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        // Without /proc there are no process metrics; the others are worth having all the same.
        let Ok(sample) = Sample::read() else {
            return Ok(());
        };
        let cpu = ConstCounter::new(sample.cpu_seconds);
        let help = "Total user and system CPU time spent in seconds.";
        cpu.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            help,
            None,
            cpu.metric_type(),
        )?)?;

        let mut gauge = |name, help, value: u64| {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        gauge(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            sample.resident_bytes,
        )?;
        gauge(
            "process_virtual_memory_bytes",
            "Virtual memory size in bytes.",
            sample.virtual_bytes,
        )?;
        gauge(
            "process_open_fds",
            "Number of open file descriptors.",
            sample.open_fds,
        )?;
        gauge(
            "process_max_fds",
            "Maximum number of open file descriptors.",
            sample.max_fds,
        )?;

        let start = ConstGauge::new(sample.start_seconds);
        let help = "Start time of the process since unix epoch in seconds.";
        start.encode(encoder.encode_descriptor(
            "process_start_time_seconds",
            help,
            None,
            start.metric_type(),
        )?)
    }
}

/// The numbers at one moment.
#[derive(Debug, PartialEq)]
struct Sample {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    start_seconds: f64,
    open_fds: u64,
    max_fds: u64,
}

impl Sample {
    fn read() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        let stat = Stat::parse(&stat)
            .ok_or_else(|| io::Error::other("unknown form of /proc/self/stat"))?;
        let boot = boot_seconds(&fs::read_to_string("/proc/stat")?)
            .ok_or_else(|| io::Error::other("no boot time in /proc/stat"))?;
        Ok(Self {
            cpu_seconds: seconds(stat.cpu_ticks),
            resident_bytes: stat.resident_pages * page_size() as u64,
            virtual_bytes: stat.virtual_bytes,
            start_seconds: boot + seconds(stat.start_ticks),
            // The listing holds one descriptor itself.
            open_fds: (fs::read_dir("/proc/self/fd")?.count() as u64).saturating_sub(1),
            max_fds: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        })
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "exact for the first nine thousand years of uptime"
)]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

/// The fields of `/proc/self/stat` that are of use here.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses and may hold anything, parentheses included: count
        // from the last one. proc(5) numbers fields from 1, and what follows the name is field 3.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            start_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

fn boot_seconds(proc_stat: &str) -> Option<f64> {
    proc_stat
        .lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text =
            "4242 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 140 15 16 17 18 19 20 21 2200 2300 24 25";
        let expected = Stat {
            cpu_ticks: 155,
            start_ticks: 2200,
            virtual_bytes: 2300,
            resident_pages: 24,
        };
        assert_eq!(Stat::parse(text), Some(expected));
    }

    #[test]
    fn the_numbers_of_this_process_are_plausible() {
        let sample = Sample::read().unwrap();
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs_f64();
        assert!(
            (now - 3600.0..now + 2.0).contains(&sample.start_seconds),
            "{sample:?}, now {now}"
        );
        assert!(
            (100_000..1 << 30).contains(&sample.resident_bytes),
            "{sample:?}"
        );
        assert!(sample.virtual_bytes > sample.resident_bytes, "{sample:?}");
        assert!(
            sample.open_fds >= 3 && sample.open_fds < sample.max_fds,
            "{sample:?}"
        );
    }

    #[test]
    fn an_opened_file_is_counted() {
        let before = Sample::read().unwrap().open_fds;
        let files: Vec<_> = (0..50)
            .map(|_| fs::File::open("/proc/self/stat").unwrap())
            .collect();
        let after = Sample::read().unwrap().open_fds;
        drop(files);
        // Other tests of this process open and close files too.
        assert!(
            (before + 30..before + 70).contains(&after),
            "{before} before, {after} after"
        );
    }

    #[test]
    fn the_metrics_carry_the_names_of_prometheus_client_libraries() {
        let text = crate::Metrics::new().encode().unwrap();
        for line in [
            "# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total ",
            "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes ",
            "# TYPE process_virtual_memory_bytes gauge\nprocess_virtual_memory_bytes ",
            "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds ",
            "# TYPE process_open_fds gauge\nprocess_open_fds ",
            "# TYPE process_max_fds gauge\nprocess_max_fds ",
        ] {
            assert!(text.contains(line), "{line}\nis missing in\n{text}");
        }
    }
}
