//! What a measurement says: the JSON line, the process's CPU time, and the statistics taken inside one
//! process.

use std::fmt::Write as _;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) type Outcome = Result<Report, String>;

pub(crate) struct Report {
    pub(crate) topic: &'static str,
    pub(crate) row: String,
    pub(crate) arm: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    pub(crate) cpu_seconds: f64,
    /// Further numbers of the same run, such as the 99th percentile beside the median.
    pub(crate) also: Vec<(&'static str, f64)>,
}

impl Report {
    pub(crate) fn json(&self) -> String {
        let Report { topic, row, arm, value, unit, cpu_seconds, also } = self;
        let mut line = format!(r#"{{"topic":"{topic}","row":"{row}","impl":"{arm}","value":{value:.3}"#);
        let _ = write!(line, r#","unit":"{unit}","cpu_seconds":{cpu_seconds:.6}"#);
        for (key, number) in also {
            let _ = write!(line, r#","{key}":{number:.3}"#);
        }
        line.push('}');
        line
    }
}

/// CPU time of all threads of this process since its start: what `getrusage` adds up, at the clock's full
/// resolution.
pub(crate) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

/// The nearest-rank percentile, `percent` in 1..=100. Zero of nothing.
pub(crate) fn percentile(samples: &mut [Duration], percent: usize) -> Duration {
    samples.sort_unstable();
    let rank = (samples.len() * percent).div_ceil(100).max(1);
    samples.get(rank - 1).copied().unwrap_or_default()
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let mut samples: Vec<Duration> = (1..=200).rev().map(Duration::from_micros).collect();
        assert_eq!(percentile(&mut samples, 50), Duration::from_micros(100));
        assert_eq!(percentile(&mut samples, 99), Duration::from_micros(198));
        assert_eq!(percentile(&mut samples, 100), Duration::from_micros(200));
        assert_eq!(percentile(&mut [], 99), Duration::ZERO);
    }

    #[test]
    fn the_line_is_one_object_with_the_further_numbers_at_its_end() {
        let report = Report {
            topic: "wakeup",
            row: "sparse".to_owned(),
            arm: "tokio".to_owned(),
            value: 7.5,
            unit: "us",
            cpu_seconds: 0.25,
            also: vec![("p99", 21.0)],
        };
        let head = r#"{"topic":"wakeup","row":"sparse","impl":"tokio","value":7.500,"#;
        let tail = r#""unit":"us","cpu_seconds":0.250000,"p99":21.000}"#;
        assert_eq!(report.json(), format!("{head}{tail}"));
    }
}
