"""The table of metrics: every key that a run records, with its unit, meaning and panel.

A key never changes, since users' scripts read it. One row here shows a new metric on a run's page and in a report.
`make docs` writes `docs/metrics.md` from this table.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Literal

_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Field:
    """The meaning of a `{name}` in a metric's key.

    Args:
        words: the meaning, one line.
        values: every value with its text in a legend; {}: any value that matches `pattern`.
        pattern: regular expression of a value, if there are no `values`.
        is_coloured: each value has its own colour, by its place among `values`, in every picture.
        is_id: a legend shows a value unchanged; otherwise with spaces for underscores.
    """

    words: str
    values: Mapping[str, str]
    pattern: str = r"[^/]+"
    is_coloured: bool = False
    is_id: bool = False

    def words_of(self, value: str) -> str:
        """Return a value's text in a legend."""
        return value if self.is_id else self.values.get(value, value).replace("_", " ")


FIELDS: dict[str, Field] = {
    "source": Field(
        "the source of a step of a batch: the learner's own actors, its own replayed experience, or that of other "
        "members of a sweep",
        {"online": "fresh", "own_replay": "own replay", "foreign_replay": "foreign replay"},
        is_coloured=True,
    ),
    "origin": Field("whether a batch's unrolls were fresh or replayed", {"online": "fresh", "replayed": "replayed"}),
    "quantile": Field(
        "10 % quantile, median, 90 % quantile and largest of the newest batches",
        {"p10": "10 %", "p50": "median", "p90": "90 %", "max": "largest"},
    ),
    "summary": Field(
        "10 % quantile, median, 90 % quantile, mean and standard deviation of the newest batches",
        {"p10": "10 %", "p50": "median", "p90": "90 %", "mean": "mean", "std": "standard deviation"},
    ),
    "stage": Field(
        "the present work of a thread of an actor or a learner",
        {
            name: name.replace("_", " ")
            for name in (
                "environment",
                "inference",
                "insert",
                "insert_wait",
                "decode",
                "learner_wait",
                "learner_step",
                "publish",
            )
        },
    ),
    "task": Field("id of a task", {}, r".+", is_id=True),
    "process": Field(
        "`main` or, on Ray, the name of a worker; with `/children` after it, the processes that this process started",
        {},
        r".+",
        is_id=True,
    ),
    "balance": Field(
        "the ledger: unrolls received, unrolls stored, or the online queue",
        {name: name for name in ("inserted", "online", "received")},
    ),
    "reason": Field("a word for the cause", {}),
    "item": Field(
        "a number that a loss computes for each replayed item: `td_error`, `abs_td_error`, `q`, `priority`", {}
    ),
    "part": Field("a part of the loss of an algorithm of your own", {}),
    "kl": Field("a name with `kl` among its words", {}, r"(?:[^/_]+_)*kl(?:_[^/_]+)*"),
}


@dataclass(frozen=True)
class Metric:
    """One row of the table.

    Args:
        name: the key in `metrics.db`, or a pattern with fields of `FIELDS`, as in `policy_lag/{source}/{quantile}`.
        unit: unit of the value; "" if it has none.
        words: the meaning, one line.
        panel: key of the picture or box of a run's page that shows it (see `launch.recording.metric_panels.PANELS`); ""
            for none.
        better: whether a higher or a lower value is better; "" for neither.
        label: text in the panel's legend, with `{name}` for a field's text; "": the fields' texts, or the key's last
            part.
        colour: number in the palette; by default the place in the panel.
        is_faint: drawn pale, behind the others; not drawn in a report.
        is_substitute: drawn only if the run has none of the panel's other metrics.
        tracked_as: the key in TensorBoard and Weights & Biases, if it does not follow the rule (`tracking_key`).
        only: the condition under which it is recorded; "" if every agent that has the metric records it within its
            first hundreds of steps.
    """

    name: str
    unit: str
    words: str
    panel: str = ""
    better: Literal["higher", "lower", ""] = ""
    label: str = ""
    colour: int | None = None
    is_faint: bool = False
    is_substitute: bool = False
    tracked_as: str = ""
    only: str = ""

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of the name, in order; () if the name is a single key."""
        return tuple(_FIELD.findall(self.name))

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = _FIELD.split(self.name)
        for place in range(1, len(parts), 2):
            field = FIELDS[parts[place]]
            one = "|".join(map(re.escape, field.values)) if field.values else field.pattern
            parts[place] = f"(?P<{parts[place]}>{one})"
        for place in range(0, len(parts), 2):
            parts[place] = re.escape(parts[place])
        return re.compile("".join(parts))

    def match(self, key: str) -> dict[str, str] | None:
        """Return the values of the fields in a key, or None if the key is not of this metric."""
        found = self._pattern.fullmatch(key)
        return None if found is None else found.groupdict()

    def keys(self, known: Collection[str]) -> list[str]:
        """Return the known keys of this metric, in the order of their fields' `values`, or else sorted."""

        def place(key: str) -> tuple[list[int], str]:
            found = (self.match(key) or {}).items()
            return [list(FIELDS[name].values).index(value) for name, value in found if FIELDS[name].values], key

        return sorted((key for key in known if metric_of(key) is self), key=place)


_BUCKETS = (
    "of the newest complete bucket of training episodes, as papers draw curves: a twentieth of the run, on Atari 1M "
)
_BUCKETS += "frames, on DeepMind Lab 10M, or bucket-frames"
_HAPPENED = "once it has happened"

SECTIONS: dict[str, tuple[Metric, ...]] = {
    "Returns": (
        Metric(
            "charts/episodic_return",
            "return",
            "mean of the training episodes that ended since the last row",
            "return",
            "higher",
            "episodes of a second",
            0,
            is_faint=True,
        ),
        Metric(
            "charts/mean_return",
            "return",
            "mean of the last 20 training episodes; in lockstep recorded at every 250th of the run, and at least every "
            "5,000 env steps, so that a repeated run has the same curve",
            "return",
            "higher",
            "last 20 episodes",
            0,
        ),
        Metric(
            "charts/mean_return_100",
            "return",
            "mean of the last 100 training episodes, the score that papers on Atari report",
            better="higher",
        ),
        Metric(
            "evaluation/mean_return", "return", "mean of an evaluation's episodes", "return", "higher", "evaluation", 1
        ),
        Metric(
            "charts/episodic_length",
            "env steps",
            "mean length of the training episodes that ended since the last row",
            "length",
            label="training",
        ),
        Metric(
            "evaluation/mean_length",
            "env steps",
            "mean length of an evaluation's episodes",
            "length",
            label="evaluation",
        ),
        Metric(
            "tasks/{task}/mean_return",
            "return",
            "mean of the last 20 training episodes of a task, if there are several",
            "tasks",
            "higher",
        ),
        Metric(
            "evaluation/{task}/mean_return", "return", "mean of an evaluation's episodes of a task", better="higher"
        ),
        *(
            Metric(
                f"{prefix}/normalised_{name}",
                "1 = human",
                f"{over} over tasks of the normalised returns, {of}; if every task has reference scores",
                better="higher",
            )
            for prefix, of in (
                ("tasks", "of the last 20 training episodes of each"),
                ("evaluation", "of an evaluation"),
                ("buckets", "of the newest bucket"),
            )
            for name, over in (("median", "median"), ("mean", "mean"), ("mean_capped", "mean, each at most 1,"))
        ),
        Metric("buckets/mean_return", "return", f"mean return over tasks {_BUCKETS}", better="higher"),
        Metric("buckets/{task}/mean_return", "return", "the same for one task, if there are several", better="higher"),
        Metric("buckets/return_p20", "return", "20th percentile of the returns in it, if there is one task"),
        Metric("buckets/return_p80", "return", "80th percentile of the returns in it, if there is one task"),
        Metric("buckets/ends_at", "frames", "the end of the newest complete bucket"),
        Metric("buckets/fewest_episodes", "episodes", "those of the task that ended the fewest in its newest bucket"),
    ),
    "Speed": (
        Metric(
            "charts/SPS",
            "env steps/s",
            "steps that the actors take, over the last ten seconds",
            "throughput",
            "higher",
            "acting",
            is_substitute=True,
        ),
        Metric(
            "charts/learner_steps_per_second",
            "1/s",
            "updates, over the last ten seconds",
            "learner",
            "higher",
            "learner steps",
        ),
        Metric("throughput/acting", "env steps/s", "steps that the actors take", "throughput", "higher"),
        Metric("throughput/inserting", "env steps/s", "steps that the replay stores", "throughput", "higher"),
        Metric("throughput/sampling", "env steps/s", "steps drawn from the replay", "throughput", "higher"),
        Metric("throughput/learning", "env steps/s", "steps that the learner learns from", "throughput", "higher"),
        Metric("busy/{stage}", "threads", "threads at this stage, mean over the last ten seconds", "busy"),
        Metric("totals/time/{stage}", "s", "time at this stage, over all threads"),
        Metric("bottleneck", "", "the bottleneck of the run, in words; a note, not a number"),
        Metric(
            "process/{process}/cpu_percent",
            "% of a core",
            "use of the processor, every five seconds",
            "cpu",
            only="in a run of at least five seconds",
        ),
        Metric(
            "process/{process}/memory_bytes",
            "bytes",
            "resident memory, every five seconds",
            "memory",
            only="in a run of at least five seconds",
        ),
        Metric(
            "process/{process}/gpu_percent",
            "% of the time",
            "share of the last second in which the process's GPU computed for anybody, every five seconds",
            "gpu",
            only="on a GPU, with nvidia-ml-py installed",
        ),
        Metric(
            "process/{process}/gpu_memory_bytes",
            "bytes",
            "memory of the GPU that torch holds in this process, every five seconds",
            "gpu_memory",
            only="on a GPU",
        ),
    ),
    "Losses and policies": (
        Metric("advantage_loss", "", "squared error of the advantages, halved", "losses"),
        Metric("critic_loss", "", "loss of the action values: their squared errors, or their cross-entropy", "losses"),
        Metric("loss", "", "total that is minimised", "losses", label="total", tracked_as="losses/total_loss"),
        Metric("pg_loss", "", "policy gradient loss", "losses", tracked_as="losses/policy_loss"),
        Metric(
            "pixel_control_loss", "", "loss of the auxiliary task of pixel control", "losses", only="with pixel control"
        ),
        Metric("value_loss", "", "squared error of the values, halved", "losses"),
        Metric(
            "{part}_loss", "", "a part of the loss of an algorithm of your own", "losses", only="if yours records it"
        ),
        Metric("policy_objective", "", "PPO's clipped objective, which is maximised", better="higher"),
        Metric(
            "entropy",
            "nats",
            "entropy of the policy; negative for a narrow continuous policy",
            "entropy",
            label="policy",
        ),
        Metric(
            "implied_kl_{source}",
            "nats",
            "divergence from the policy that V-trace's clipped ratios imply, mean over the steps of a source",
            "kl",
            "lower",
            "to the implied policy, {source}",
        ),
        Metric("implied_kl", "nats", "the same divergence, mean over all steps", "kl", "lower", is_substitute=True),
        Metric("kl_from_average", "nats", "divergence from the average of earlier policies", "kl", is_substitute=True),
        Metric("kl_from_behaviour", "nats", "divergence from the policies that acted", "kl", is_substitute=True),
        Metric(
            "{kl}",
            "nats",
            "a divergence of an algorithm of your own",
            "kl",
            is_substitute=True,
            only="if yours records it",
        ),
        Metric(
            "explained_variance",
            "share",
            "part of the value targets' variance that the values explain",
            "value",
            "higher",
        ),
        Metric("value_mean", "return", "mean of the values", "values"),
        Metric("value", "return", "mean of the values of single steps", "values"),
        Metric("values", "return", "mean of PPO's values", "values"),
        Metric("q_value", "return", "mean value of the actions taken", "values"),
        Metric("q_of_policy", "return", "mean value of the actions that the policy would take", "values"),
        Metric("abs_td_error", "return", "mean size of the temporal-difference errors", "values", "lower"),
        Metric("action_gap", "return", "value of the best action less that of another one", "values"),
        Metric("abs_mean_action", "", "mean size of the policy's mean action", "actions"),
        Metric("abs_action", "", "mean size of the policy's action, 1 at its bound", "actions"),
        Metric(
            "clone_distance",
            "",
            "mean squared distance of the policy's action from the stored one",
            "actions",
            only="with `algorithm.clone-cost`",
        ),
        Metric("std", "", "mean standard deviation of a continuous policy", "actions"),
        Metric("temperature", "", "SAC's weight of the entropy", "temperature"),
        Metric("epsilon", "share", "part of the actions that DQN chooses at random", "epsilon"),
        Metric("reward_scale", "", "divisor of the rewards"),
        Metric(
            "behaviour_surprise",
            "nats",
            "mean -log of the probability that Reactor's model gave to the actions taken",
            better="lower",
            only="if the behaviour is learned",
        ),
    ),
    "Far from the policy": (
        Metric(
            "accept_fraction_{source}",
            "share",
            "part of a source's steps that the trust region accepts",
            "acceptance",
            "higher",
        ),
        Metric("num_steps_{source}", "steps", "valid steps of a batch from a source, mean over updates"),
        Metric(
            "projected_fraction",
            "share",
            "part of the steps whose gradient the trust region projected",
            "projected",
            label="of all steps",
        ),
        Metric(
            "far_fraction",
            "share",
            "part of a batch's steps that are far from the policy, by ReF-ER's bound",
            "far",
            "lower",
            "of a batch",
        ),
        Metric(
            "stored_far_fraction",
            "share",
            "the same part, of all stored steps",
            "far",
            "lower",
            "of stored steps",
        ),
        Metric("refer_beta", "share", "ReF-ER's weight of the loss against the pull to the behaviour"),
        Metric("refer_c_max", "", "ReF-ER's bound: importance ratios between 1 / c_max and c_max are near"),
        Metric("clip_fraction", "share", "part of the steps whose importance ratio PPO clips", "clipped"),
        Metric(
            "truncated_fraction_{source}",
            "share",
            "part of a source's steps whose importance ratio ACER truncates",
            "clipped",
        ),
        Metric(
            "abs_log_rho_{source}",
            "nats",
            "mean size of the log importance ratios of a source's steps",
            "ratios",
            "lower",
        ),
        Metric("rho", "", "mean importance ratio"),
        Metric(
            "policy_lag/{source}/{quantile}",
            "versions",
            "parameter versions between a step's policy and the learner's newest; for foreign steps, versions of "
            "their own member, behind its newest version that was drawn",
            "lag",
            "lower",
        ),
        Metric(
            "totals/policy_lag_given_up",
            "times",
            "times that actors continued with old parameters after waiting for new ones in vain",
            better="lower",
            only=_HAPPENED,
        ),
    ),
    "Updates": (
        Metric("gradient_norm", "", "norm of the gradient, before it is clipped", "gradient", label="gradient"),
        Metric(
            "updates_applied",
            "share",
            "part of the updates whose gradient was finite; the others were skipped",
            better="higher",
        ),
        Metric("charts/learning_rate", "", "the optimiser's learning rate, by its learning-rate schedule", "rate"),
        Metric("parameter_version", "versions", "number of the newest published parameters"),
        Metric("column_writes_pending", "calls", "writes of the learner to stored steps that wait or are under way"),
    ),
    "Replay": (
        Metric(
            "replay/fraction",
            "share",
            "part of the steps learned from that were replayed",
            "fraction",
            label="replayed",
        ),
        Metric(
            "replay/log_share",
            "share",
            "part of the replayed steps learned from that were of a log",
            "fraction",
            label="replayed: of a log",
            only="if the replay began with a log",
        ),
        Metric(
            "replay/log_share_set",
            "share",
            "part of the replayed items that is drawn from a log, by its settings; where there is nothing of a log, "
            "or nothing else, the part is another",
            "fraction",
            label="of a log, by its settings",
            is_faint=True,
            only="with `--replay.log-share`",
        ),
        Metric(
            "replay/samples_per_insert",
            "",
            "steps drawn per step inserted, since the run began",
            "samples_per_insert",
            label="realised",
        ),
        Metric(
            "replay_age/{quantile}",
            "env steps",
            "steps inserted after the replayed step",
            "age",
            label="replayed",
            colour=1,
        ),
        Metric("start/updates", "updates", "the first updates since the start or resumption, which were measured"),
        Metric("start/share/{source}", "share", "part of the steps of the first updates that came from a source"),
        Metric(
            "start/age/{source}",
            "versions",
            "mean age of these steps: published versions since their policy's; for foreign steps, since their own "
            "member's newest one that was drawn",
            better="lower",
        ),
        Metric(
            "start/accepted/{source}", "share", "part of these steps that the trust region accepts", better="higher"
        ),
        Metric("replay/num_steps", "env steps", "steps that the replay stores", "fill", label="stored"),
        Metric(
            "replay/capacity_steps",
            "env steps",
            "steps that the replay has room for",
            "fill",
            label="capacity",
            colour=6,
        ),
        Metric("replay/num_unrolls", "unrolls", "unrolls that the replay stores"),
        Metric("replay/num_episodes", "episodes", "episodes that the replay stores, whole or in part"),
        Metric("replay/memory_bytes", "bytes", "memory of all shards of the replay", "bytes", label="total"),
        Metric("replay/frame_bytes", "bytes", "compressed frames", "bytes", label="frames"),
        Metric(
            "replay/frame_capacity_bytes",
            "bytes",
            "room for compressed frames",
            "bytes",
            label="room for frames",
            colour=6,
        ),
        Metric("replay/online_queued", "unrolls", "fresh unrolls that wait for the learner"),
        Metric("replay/waiting_inserts", "calls", "inserts that wait for the rate limiter or for room"),
        Metric("replay/waiting_samples", "calls", "draws that wait for experience or for the rate limiter"),
        Metric(
            "replay/limiter_difference",
            "steps",
            "inserted times samples per insert, less sampled: the number that the limiter bounds",
        ),
        Metric("replay/shards_alive", "shards", "shards that answer"),
        Metric("streams/alive", "streams", "episode streams, for recurrent agents"),
        Metric(
            "streams/restarted",
            "streams",
            "episode streams begun anew, since their set was unknown or a request was missing",
            only=_HAPPENED,
        ),
        Metric("streams/cut", "streams", "episode streams ended early, for room", better="lower", only=_HAPPENED),
        Metric(
            "streams/expired",
            "streams",
            "episode streams ended, since no learner drew from them",
            better="lower",
            only=_HAPPENED,
        ),
    ),
    "Samplers": (
        Metric(
            "effective_draws",
            "share",
            "(sum w)^2 / (N sum w^2) of the weights w = 1 / P of a batch; 1 for uniform draws",
        ),
        Metric("times_replayed/{quantile}", "times", "number of draws of each drawn item so far"),
        Metric("sampled_{item}/{summary}", "", "the number over the items drawn"),
        Metric(
            "stored_{item}/{summary}", "", "the number over all items in the replay, estimated from the items drawn"
        ),
        Metric("sampler/replay_reward", "return", "improvement of the agent, which a learned sampler maximises"),
        Metric("sampler/updates", "updates", "updates of a learned sampler's network"),
        Metric(
            "sampler/updates_refused",
            "updates",
            "updates of a learned sampler's network that were skipped, since they were not finite",
            better="lower",
        ),
        Metric("sampler/score_mean", "", "mean of NERS's scores"),
        Metric("sampler/score_std", "", "standard deviation of NERS's scores"),
        Metric("sampler/steps_learned_from", "steps", "steps in NERS's newest update"),
        Metric("sampler/keep_mean", "share", "mean probability with which ERO keeps a step"),
        Metric("sampler/kept_fraction", "share", "part of the stored steps that ERO kept"),
        Metric(
            "totals/sampler_lessons_failed",
            "times",
            "reads of the replay for a learned sampler that failed",
            better="lower",
            only=_HAPPENED,
        ),
    ),
    "Ledgers": (
        Metric(
            "ledger/received",
            "unrolls",
            "unrolls that reached the replay = inserted + duplicates + rejected + failed + waiting",
            "ledger",
        ),
        Metric("ledger/waiting", "unrolls", "unrolls that wait to be inserted; 0 at the end of a run"),
        Metric(
            "ledger/inserted",
            "unrolls",
            "unrolls that were ever stored = stored + removed + not saved + died",
            "ledger",
        ),
        Metric("ledger/stored", "unrolls", "unrolls that are stored now", "ledger"),
        Metric("ledger/removed", "unrolls", "unrolls that were removed", "ledger"),
        Metric(
            "ledger/not_saved",
            "unrolls",
            "unrolls that were stored when the run stopped and continued without its replay",
            "lost",
        ),
        Metric(
            "ledger/died",
            "unrolls",
            "unrolls that were stored in shards that died, and that their successors lack",
            "lost",
        ),
        Metric("ledger/sampled", "items", "items drawn from the replay", "ledger"),
        Metric("ledger/duplicates", "unrolls", "unrolls that had been stored before, by a repeated call", "ledger"),
        Metric("ledger/online/handed_out", "unrolls", "unrolls given to the learner fresh", "ledger"),
        Metric(
            "ledger/online/inserted",
            "unrolls",
            "unrolls that joined the online queue = handed out + queued + dropped",
            "ledger",
        ),
        Metric("ledger/online/queued", "unrolls", "unrolls in the online queue now", "ledger"),
        Metric(
            "ledger/stale_rows", "rows", "rows of column writes dropped because their page had been reused", "ledger"
        ),
        Metric("ledger/rejected", "unrolls", "unrolls refused, for any reason", better="lower"),
        Metric(
            "ledger/rejected/{reason}", "unrolls", "unrolls refused for this reason", "lost", "lower", only=_HAPPENED
        ),
        Metric(
            "ledger/failed",
            "unrolls",
            "unrolls whose insert failed before it changed anything, for any reason",
            better="lower",
        ),
        Metric(
            "ledger/failed/{reason}",
            "unrolls",
            "unrolls whose insert failed for this reason",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric("ledger/lost", "unrolls", "unrolls that an actor had numbered and that never arrived", "lost", "lower"),
        Metric(
            "ledger/online/dropped", "unrolls", "unrolls dropped from the online queue, for any reason", better="lower"
        ),
        Metric(
            "ledger/online/dropped/{reason}",
            "unrolls",
            "unrolls dropped from the online queue for this reason",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "ledger/imbalance/{balance}", "unrolls", "difference in a ledger: 0, or there is an error", better="lower"
        ),
    ),
    "Totals": (
        Metric("totals/episodes", "episodes", "training episodes that ended"),
        Metric("totals/rows", "rows", "rows made by actors: env steps, and the rows between two episodes"),
        Metric(
            "totals/unrolls", "unrolls", "unrolls made by actors", "ledger", label="made by actors", is_substitute=True
        ),
        Metric(
            "totals/unrolls_learned/{origin}",
            "unrolls",
            "unrolls learned from",
            "ledger",
            label="learned from, {origin}",
            is_substitute=True,
        ),
        Metric("totals/steps_learned/{origin}", "steps", "steps learned from"),
        Metric(
            "totals/column_writes_failed", "calls", "writes of the learner to stored steps that failed", "lost", "lower"
        ),
        Metric(
            "totals/column_writes_lost/died",
            "calls",
            "writes of learners that died which had not arrived, by their last reports",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/updates_lost/died",
            "updates",
            "updates of learners that died since their newest checkpoints, as far as they were reported or published",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/rejected/{reason}",
            "unrolls",
            "unrolls that the replay refused, as counted by the actors",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/dropped_rows/{reason}",
            "rows",
            "rows of unfinished unrolls when an environment failed",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/dropped_rows_at_most/died",
            "rows",
            "rows of unfinished unrolls in actors that died, at most",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/unrolls_lost/died",
            "unrolls",
            "unrolls that never arrived from actors that died",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/dropped_rows_at_most/stopped",
            "rows",
            "rows of unfinished unrolls in actors that were still at work when the run ended, at most",
            "lost",
            only=_HAPPENED,
        ),
        Metric(
            "totals/unrolls_lost/stopped",
            "unrolls",
            "unrolls that had not arrived from actors that were still at work when the run ended",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/dropped_rows_at_most/moved",
            "rows",
            "rows of unfinished unrolls in actors that moved to another node, at most",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/unrolls_lost/moved",
            "unrolls",
            "unrolls that never arrived from actors that moved to another node",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/unrolls_lost/not_saved",
            "unrolls",
            "unrolls that were on their way when the newest checkpoint of a killed run was written",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/unrolls_unreported/moved",
            "unrolls",
            "unrolls that arrived from actors that moved to another node before reporting them",
            only=_HAPPENED,
        ),
        Metric(
            "totals/unrolls_unreported/not_saved",
            "unrolls",
            "unrolls that had arrived and were not reported when the newest checkpoint of a killed run was written",
            only=_HAPPENED,
        ),
        Metric(
            "totals/unrolls_unreported/stopped",
            "unrolls",
            "unrolls that arrived from actors that were still at work when the run ended and had not reported them",
            only=_HAPPENED,
        ),
        Metric("totals/unrolls_lost/shard", "unrolls", "unrolls in shards that died", "lost", "lower", only=_HAPPENED),
        Metric(
            "totals/unrolls_unreported/died",
            "unrolls",
            "unrolls that arrived from actors that died before reporting them",
            only=_HAPPENED,
        ),
        Metric(
            "totals/shards_lost",
            "shards",
            "shards that died, with all their unrolls",
            "lost",
            "lower",
            only="on Ray, once it has happened",
        ),
        Metric(
            "totals/restarts/{reason}",
            "times",
            "replacements of workers or environments",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/close_failed",
            "times",
            "failed environments that could not be closed",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/evaluations_failed/{reason}",
            "evaluations",
            "evaluations that failed for this reason",
            "lost",
            "lower",
            only=_HAPPENED,
        ),
        Metric(
            "totals/videos_failed", "videos", "evaluations that could not be filmed", better="lower", only=_HAPPENED
        ),
        Metric(
            "tracking/num_dropped",
            "rows",
            "rows and videos that were dropped, since a tracker was too slow",
            better="lower",
            only=_HAPPENED,
        ),
    ),
}
"""All rows, in the order of `docs/metrics.md`; the lines of a panel have the same order."""

RETURN, EVALUATION, RATE = "charts/mean_return", "evaluation/mean_return", "charts/SPS"
SCORE = "charts/mean_return_100"
"""Keys of the numbers that lists of runs show."""

METRICS: tuple[Metric, ...] = tuple(metric for section in SECTIONS.values() for metric in section)


@cache
def _by_name() -> dict[str, Metric]:
    return {metric.name: metric for metric in METRICS}


@lru_cache(maxsize=10_000)
def metric_of(key: str) -> Metric | None:
    """Return the row of a recorded key, a fixed name before the first pattern that matches; None if there is none."""
    return _by_name().get(key) or next(
        (metric for metric in METRICS if metric.fields and metric.match(key) is not None), None
    )


def known_key(key: str) -> str:
    """Return a key that code reads, or a row's pattern, after a check that the table has it.

    Raises:
        KeyError: no row has the key, so no run records it.
    """
    if key not in _by_name() and metric_of(key) is None:
        raise KeyError(f"no row of the table of metrics is {key!r}; correct it, or add a row")
    return key


def values_by_field(name: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return the recorded values of a pattern with one field, by that field's value.

    Args:
        name: name of a row, such as `totals/restarts/{reason}`.
        values: recorded values by key.

    Raises:
        KeyError: no row has this name.
    """
    metric = _by_name()[known_key(name)]
    (field,) = metric.fields
    return {(metric.match(key) or {})[field]: values[key] for key in metric.keys(values)}


def label_of(key: str, metric: Metric, without: str = "") -> str:
    """Return a key's text in a legend, without the field `without`."""
    found = {name: value for name, value in (metric.match(key) or {}).items() if name != without}
    values = {name: FIELDS[name].words_of(value) for name, value in found.items()}
    if metric.label:
        return metric.label.format(**values)
    if values:
        return ", ".join(values.values())
    return key.rpartition("/")[2].removesuffix("_loss").replace("_", " ")


def rows_of(panel: str) -> Iterable[Metric]:
    """Return the rows of one panel or box, in order."""
    return (metric for metric in METRICS if metric.panel == panel)
