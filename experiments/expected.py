"""The verdicts at scale `quick`, by card and id of a claim: a change that moves one must be noticed."""

from experiments.claims import Open

AT_QUICK: dict[str, dict[str, bool | Open]] = {
    "anchors.bucketing": {"Avg s = 1": Open.NOT_RUN, "buckets CM": True},
    "anchors.heat_map": {"TM gamma 0 f 2": Open.NOT_RUN, "map": Open.NOT_RUN},
    "anchors.lr_mnist": {"accuracy": Open.NOT_RUN, "cpu-seconds": Open.REPORTED},
    "anchors.mcmahan_2nn": {"rounds IID, B = 10, C = 0.1": Open.NOT_RUN},
    "anchors.mcmahan_causes": {"pixels from -0.5 to 0.5": Open.NOT_RUN},
    "anchors.mcmahan_cnn": {"rounds IID, B = 10, C = 0.1": Open.NOT_RUN},
    "anchors.niid_bench_mnist": {"FedAvg IID": Open.NOT_RUN, "harder": Open.UNDECIDED},
    "asynchronous.virtual_time": {"staleness": True, "flushes": True, "faster": True, "spread": True, "jobs": True},
    "asynchronous.concurrency": {
        "staleness": True, "earlier": True, "wider": True, "more": True, "cost": True,
    },
    "atlas.atlas": {
        "runs-or-is-refused": Open.NOT_RUN, "some-rule-keeps": True, "skips-as-predicted": True, "audits-stand": True,
        "twins-are-caught": True,
    },
    "audit.all_systems": {
        "FedAvg: server: unbounded": True,
        "CDP-FL: server: proved": Open.UNTESTABLE,
        "CDP-FL: everybody: proved": True,
        "CDP-FL: server, an upload alone: proved": True,
        "CDP-FL, counterexample (i): server: claimed": False,
        "CDP-FL, counterexample (i): server: proved": True,
    },
    "audit.private_training": {
        "DP-FTRL, bands: a client, zero-out: proved": True,
        "DP-FTRL, bands, separation not kept: a client, zero-out: caught": True,
    },
    "cdp_fl.fig3": {"cost-training_loss-added": Open.UNDECIDED, "faster": True, "falls-then-rises": False},
    "cdp_fl.fig4": {"cost-gradient_norm-paper": Open.UNDECIDED},
    "cdp_fl.fig5": {"faster-at-start": True, "lower-training_loss": True},
    "cdp_fl.fig7": {"grows-with": True},
    "cdp_fl.fig8": {"above-proved": False},
    "cdp_fl.counterexamples": {
        "i": False, "ii": False, "iii": False, "audit-3-theorem-1": False, "audit-3-proved": True,
    },
    "correlated_noise.error": {
        "streams": True, "logarithm": True, "trees": True, "optimal": True, "optimal-bands": True, "buffers": True,
        "many-rounds": True, "gain": False,
    },
    "distributed_noise.mean_estimation": {
        "as-predicted": True, "price": True, "near-prediction": True, "bits": True, "wraps": True,
    },
    "fedrep.fig1": {"CClip-flat": Open.UNDECIDED},
    "fedrep.fig2": {"comparable": Open.UNTESTABLE, "better-under-alie": Open.UNTESTABLE, "equal-bytes": True},
    "fedrep.fig3": {"unsteady": Open.NOT_RUN},
    "fedrep.fig4": {"bytes": True},
    "fedrep.fig5": {"CClip": Open.UNTESTABLE},
    "fedrep.fig7": {"best-rate": Open.NOT_RUN},
    "fedrep.fig8": {"loses-0.017": Open.NOT_RUN, "above-share": Open.UNTESTABLE},
    "fedrep.fig12": {"less-dissimilar": False, "above-share": Open.UNTESTABLE},
    "fedrep.table1": {"RCGD-EF": Open.UNTESTABLE, "FedREP": Open.UNTESTABLE},
    "fedrep.grid": {"robust-rules-keep": True, "mean-fails": True, "heterogeneous-is-harder": True},
    "input_validation.norm_bound": {"keeps": True, "inside": True, "rejected": True},
    "lying_server.three_lies": {
        "few": True, "check": True, "floor": True, "stripped": True, "bound": True, "replay": True,
        "refuse": True, "nudge": True, "price": True, "detector": True, "detector-bound": True, "detector-all": True,
    },
    "private_training.opacus_eps_3": {
        "printed-epsilon": True, "our-epsilon": True, "accuracy": Open.NOT_RUN, "learns": True,
    },
    "private_training.tf_privacy_eps_10": {"printed-epsilon": False, "our-epsilon": True},
    "sparse_secagg.fig2": {"random": True, "top-above-random": True},
    "sparse_secagg.fig3": {"bytes-a-round": True, "rounds-grow-with-n": Open.NOT_RUN},
    "sparse_secagg.fig4": {
        "linear": True, "mean": True, "floor": False, "revealed-formula": True, "revealed-digits": True,
    },
    "sparse_secagg.fig5": {"bytes-a-round": True, "rounds": Open.UNDECIDED},
    "sparse_secagg.fig6": {"bytes-a-round": True, "rounds": Open.UNDECIDED},
    "sparse_secagg.table1": {"ratio": False, "secagg-upload": True, "sparse-upload": False, "selected": True},
    "sparse_secagg.statements": {
        "naive-rand-k": True, "pairs-cancel": True, "corollary-2": True, "theorem-3-server": True,
        "theorem-3-user": False,
    },
    "sparse_secagg.convergence": {"bound": Open.UNTESTABLE, "rate": False, "rounding-settles": True},
    "sparse_secagg.repair": {"sums-over-t": False, "repair-reads-nothing": True, "equal-bytes": True},
    "sparse_secagg.thresholded": {
        "hardly-alone": True, "law": True, "bytes": True, "thresholded: accuracy": Open.UNDECIDED,
        "thresholded, top-K: accuracy": Open.UNDECIDED,
    },
    "wireless.fig2": {
        "order: orthogonal, all users": True, "order: orthogonal, sampled": True, "order: wireless, all users": True,
        "order: wireless, sampled": True, "sampled-wireless-least": True, "falls-with-k": True, "guarantee": False,
    },
    "wireless.fig3": {"bound": False, "accuracy": Open.UNDECIDED},
    "wireless.fig4": {
        "a-between": Open.UNDECIDED, "a-participants channel-aware": True, "a-eps_l uniform p = 0.3": True,
        "a-eps_c uniform p = 0.9": True, "b-eps_c channel-aware": True, "a-lemma-2": False, "a-eq-13": False,
        "b-eq-13": True, "b-accuracy channel-aware": Open.NOT_RUN,
    },
    "wireless.fig5": {
        "a-eps_l channel-aware": True, "b-eps_c uniform p = 0.3": True, "a-accuracy channel-aware": Open.NOT_RUN,
    },
    "wireless.fig6": {"rises-with-p": False, "best-p-by-c": False},
    "wireless.fig7": {"falls-with-noise": Open.UNDECIDED},
    "wireless.time_variant": {
        "eq-18-bounds": False, "variation-saves-eps": True, "variation-costs-accuracy": Open.UNDECIDED,
    },
    "wireless.thresholds": {
        "m": True, "v": True, "few-suffice": Open.UNDECIDED, "eps-l-falls": True, "eps-c-bounds": True,
        "removal": True, "shards-moving": Open.UNDECIDED,
    },
    "wireless.access": {"leaks-less": True},
    "wireless.power_control": {
        "same-bits": True, "limit-bites": True, "figures": True, "heard": True, "within-limit": True,
        "bound-is-as-good": True, "signal-leaks-less": True,
    },
    "wireless.participation": {
        "more-accurate": True, "for-noise": True, "order: Lemma 2": True, "order: analytic": False,
        "order: exact": False, "exact-falls": False,
    },
    "wireless.accountants": {
        "replacement": True, "removal": False, "removal-audit": False, "exact-removal-audit": True,
        "exact-replacement-audit": True, "known-participants": False,
    },
    "wireless.analog_or_digital": {
        "level": True, "at-equal-uses": True, "distortions": True, "equal": True, "analog-ahead": True,
    },
    "wireless.errata": {
        "with-n0": True, "one-rule": True, "lemma-2": False, "eq-13": False, "removal": False, "unknown-number": False,
    },
    "wireless.privacy_for_free": {
        "allocated": True, "equal-eps": True, "same-energy": True, "budget": True, "orthogonal": True,
    },
}  # fmt: skip
