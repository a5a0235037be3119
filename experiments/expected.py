"""The verdicts at scale `quick`, by card and id of a claim: a change that moves one must be noticed."""

from experiments.claims import Open

AT_QUICK: dict[str, dict[str, bool | Open]] = {
    "audit.all_systems": {
        "FedAvg: server: unbounded": True,
        "CDP-FL: server: proved": True,
        "CDP-FL: everybody: claimed": False,
        "CDP-FL: everybody: proved": True,
        "CDP-FL, counterexample (i): server: proved": True,
    },
    "cdp_fl.fig3": {"cost-training_loss-added": True, "faster": True, "falls-then-rises": False},
    "cdp_fl.fig4": {"cost-gradient_norm-paper": Open.UNDECIDED},
    "cdp_fl.fig5": {"better": True, "as-many-steps": False},
    "cdp_fl.fig7": {"grows-with": True},
    "cdp_fl.counterexamples": {
        "i": False, "ii": False, "iii": False, "audit-3-theorem-1": False, "audit-3-proved": True,
    },
    "fedrep.fig3": {"unsteady": Open.NOT_RUN},
    "fedrep.fig8": {"loses-0.017": Open.NOT_RUN},
    "sparse_secagg.fig2": {"random": True, "top-above-random": True},
    "sparse_secagg.fig3": {"bytes-a-round": True, "rounds-grow-with-n": Open.NOT_RUN},
    "sparse_secagg.fig4": {"linear": True, "mean": True, "floor": False, "revealed-formula": True},
    "sparse_secagg.fig5": {"bytes-a-round": True, "rounds": False},
    "sparse_secagg.fig6": {"bytes-a-round": True, "rounds": False},
    "sparse_secagg.table1": {"ratio": True, "secagg-upload": True, "selected": True},
    "sparse_secagg.convergence": {"bound": True, "rate": False, "rounding-settles": True},
    "sparse_secagg.repair": {"sums-over-t": False, "repair-reads-nothing": True, "equal-bytes": True},
    "wireless.fig2": {
        "order: orthogonal, all users": True, "order: orthogonal, sampled": False, "order: wireless, all users": True,
        "order: wireless, sampled": True, "sampled-wireless-least": False, "falls-with-k": True, "guarantee": False,
    },
    "wireless.fig3": {"bound": False},
    "wireless.fig4": {"a-between": True, "a-participants": Open.NOT_RUN},
    "wireless.fig5": {"a-accuracy": Open.NOT_RUN, "b-frozen-channel": False},
    "wireless.fig6": {"rises-with-p": False, "best-p-by-c": False},
    "wireless.fig7": {"falls-with-noise": True},
    "wireless.accountants": {
        "replacement": True, "removal": False, "removal-audit": False, "exact-removal-audit": True,
        "exact-replacement-audit": True, "known-participants": False,
    },
    "wireless.errata": {
        "participants": True, "lemma-2 II(a), p = 0.3": False, "eq-13 II(a), p = 0.9": False, "removal": False,
        "unknown-number": False,
    },
}  # fmt: skip
