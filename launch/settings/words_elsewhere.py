"""Settings as other systems call them, and LASER's own keys for them."""

from __future__ import annotations

from collections.abc import Collection

# By the word without hyphens and underscores, the keys that may be meant, the likeliest first. From CleanRL,
# Stable-Baselines3, RLlib and Sample Factory.
_OURS: dict[str, tuple[str, ...]] = {
    "advnorm": ("algorithm.normalize-advantages", "algorithm.standardize-advantages"),
    "anneallr": ("algorithm.learning-rate-schedule",),
    "bs": ("algorithm.batch-size",),
    "buffersize": ("replay.capacity-steps",),
    "checkpointfreq": ("learner.checkpoint-interval-s",),
    "clipcoef": ("algorithm.clip",),
    "clipparam": ("algorithm.clip",),
    "cliprange": ("algorithm.clip",),
    "cuda": ("device",),
    "ende": ("algorithm.epsilon",),
    "entcoef": ("algorithm.entropy-cost", "algorithm.temperature"),
    "entropycoeff": ("algorithm.entropy-cost", "algorithm.temperature"),
    "envid": ("env",),
    "envname": ("env",),
    "epochs": ("algorithm.num-epochs",),
    "evalfreq": ("evaluation.interval",),
    "evaluationinterval": ("evaluation.interval",),
    "explorationfinaleps": ("algorithm.epsilon",),
    "explorationfraction": ("algorithm.epsilon-updates",),
    "explorationinitialeps": ("algorithm.epsilon-start",),
    "gae": ("algorithm.gae-lambda", "algorithm.trace-lambda"),
    "gaelambda": ("algorithm.gae-lambda", "algorithm.trace-lambda"),
    "gamma": ("algorithm.discount",),
    "gradclip": ("algorithm.max-gradient-norm",),
    "learningstarts": ("replay.min-steps",),
    "lr": ("algorithm.learning-rate",),
    "lrschedule": ("algorithm.learning-rate-schedule",),
    "maxgradnorm": ("algorithm.max-gradient-norm",),
    "maxconcurrenttrials": ("concurrent",),
    "minibatchsize": ("algorithm.batch-size",),
    "nenvs": ("num-envs",),
    "nepochs": ("algorithm.num-epochs",),
    "netarch": ("network.hidden-sizes",),
    "njobs": ("concurrent", "num-actors"),
    "nminibatches": ("algorithm.num-minibatches",),
    "normadv": ("algorithm.normalize-advantages", "algorithm.standardize-advantages"),
    "normalize": ("algorithm.normalize-observations",),
    "normalizeinput": ("algorithm.normalize-observations",),
    "normobs": ("algorithm.normalize-observations",),
    "nsteps": ("unroll-length",),
    "ntrials": ("sample",),
    "numenvrunners": ("num-actors",),
    "numenvsperenvrunner": ("num-envs",),
    "numenvsperworker": ("num-envs",),
    "numminibatches": ("algorithm.num-minibatches",),
    "numrolloutworkers": ("num-actors",),
    "numsamples": ("sample",),
    "numtimesteps": ("steps",),
    "numworkers": ("num-actors",),
    "observationfilter": ("algorithm.normalize-observations",),
    "policykwargs": ("network.hidden-sizes",),
    "replaybuffersize": ("replay.capacity-steps",),
    "rollout": ("unroll-length",),
    "rolloutfragmentlength": ("unroll-length",),
    "starte": ("algorithm.epsilon-start",),
    "targetnetworkfrequency": ("algorithm.target-period",),
    "targetupdateinterval": ("algorithm.target-period",),
    "tau": ("algorithm.target-rate",),
    "timesteps": ("steps",),
    "totaltimesteps": ("steps",),
    "trainbatchsize": ("algorithm.batch-size",),
    "trainbatchsizeperlearner": ("algorithm.batch-size",),
    "trainforenvsteps": ("steps",),
    "updateepochs": ("algorithm.num-epochs",),
    "valuelosscoeff": ("algorithm.baseline-cost",),
    "vfcoef": ("algorithm.baseline-cost",),
    "vflosscoeff": ("algorithm.baseline-cost",),
    "wandbprojectname": ("track",),
    "withwandb": ("track",),
}


def our_key(word: str, keys: Collection[str]) -> str | None:
    """Return the one of `keys` that another system calls `word`, or None.

    Args:
        word: a key, with or without its section, hyphens and underscores alike.
        keys: the keys that there are.
    """
    plain = word.rpartition(".")[2].replace("-", "").replace("_", "").lower()
    return next((key for key in _OURS.get(plain, ()) if key in keys), None)
