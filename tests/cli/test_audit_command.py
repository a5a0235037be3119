"""The command `audit`: its verdicts, its exit status, and that it knows what to do with every system."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from fedjax_priv import systems
from fedjax_priv.audit import Finding, Worlds, ledger_entries, masked_uploads, worlds
from fedjax_priv.audit.canaries import no_samples, sending
from fedjax_priv.audit.worlds import watched
from fedjax_priv.cli import audit_command, main
from fedjax_priv.cli.options import REQUIRED

GIVEN = {int: 2, float: 0.5}  # for an option without a default
PRIVATE = ["--sample-clip", 1.0, "--gradient-noise", 0.03, "--batch-size", 20, "--learning-rate", 0.1]

FOUND = Finding("anybody", "a label", "label [b] :fire:", None, None, 0.0, 1e-4, 0.95, 4.7, "", [], [], {})


def call(monkeypatch, *arguments):
    """The exit status."""
    monkeypatch.setattr("sys.argv", ["fedjax-priv", "audit", *map(str, arguments)])
    try:
        main.main()
    except SystemExit as stopped:
        return stopped.code
    return 0


def made(n=10):
    """A run as a ledger reads it."""
    each, shape = ("round", "client"), (1, n)
    variables = {
        "client_id": (each, np.arange(n)[None]), "counted": (each, np.ones(shape, bool)), "status": ("round", [0]),
        "join_probability": (each, np.ones(shape)), "gain": (each, np.ones(shape)),
        "antenna_gains": ((*each, "place"), np.full((*shape, 32), 0.2)),
        "up_bytes": (("round", "phase", "client"), np.ones((1, 1, n))),
    }  # fmt: skip
    return xr.Dataset(variables, {"phase": ["upload"]}, attrs={"num_params": 650, "interrupted": 0})


class Rounds:
    """Traces the whole round of a command's first canary, and of any other what it changes: updates and scores."""

    seen = None

    def scored(self, make, canary, score, key, params, rounds):
        """Shapes of the scores."""
        shapes = lambda given: jax.eval_shape(lambda: given)
        first, second = map(shapes, canary.inputs)
        assert first == second  # so one trace is that of both
        of_variant = lambda given: given if canary.variants is None else jax.tree.map(lambda rows: rows[0], given)
        if self.seen is None:
            one = watched(make, canary.local, canary.data, self.kept(score), params, rounds)
            return jax.eval_shape(lambda given: one(key, of_variant(given)), first)
        jax.eval_shape(lambda given: updates(make, canary, params, key, of_variant(given)), first)
        return jax.eval_shape(score, self.seen)

    def kept(self, score):
        def noting(seen):
            self.seen = jax.eval_shape(lambda: seen)
            return score(seen)

        return noting


def updates(make, canary, params, key, given):
    training, samples = canary.local(given), canary.data(given)
    system = make(training, None)
    return worlds._updates(system, training, key, system.init(key, params, samples), samples)


@pytest.fixture
def traced(monkeypatch):
    """Rounds are traced and not run; the scores of the two inputs, of which few are kept, are far apart in order."""
    monkeypatch.setattr(audit_command, "simulate", lambda *_, **__: made())
    monkeypatch.setattr(ledger_entries, "DELTAS", (1e-6, 0.1))
    traces = Rounds()

    def scores(make, family, score, keys, *, params, trials, rounds, at_once):
        (first, *others) = (jax.eval_shape(lambda given: given, one.inputs) for one in family)
        assert all(one == first for one in others)  # so one trace is that of all
        first = traces.scored(make, family[0], score, keys[0], params, rounds)
        assert all(each.dtype == np.float32 and each.ndim < 2 for each in first)
        few = lambda each: tuple(min(size, 3) for size in each.shape)
        full = lambda value: tuple(np.full((trials, *few(each)), value) for each in first)
        return [Worlds(full(1.0), full(0.0))] * len(family)

    def pads(make, unmasked, key, *, params, num_clients, trials, protocol):
        """Of uploads in the clear; which coordinates a client sends is read by the name of the mask layer."""
        del unmasked, protocol
        size, data = sum(leaf.size for leaf in jax.tree.leaves(params)), no_samples(num_clients)
        system = make(sending(jnp.zeros((num_clients, size))), lambda view: view.clear)
        step = lambda: system.step(key, system.init(key, params, data), data)[1].observed
        assert "mask" in jax.eval_shape(step)
        words = np.zeros((trials, 2, num_clients, 4), np.uint32)
        return masked_uploads.Pads(words, words, words, np.zeros(trials, bool))

    monkeypatch.setattr(ledger_entries, "scores_of_family", scores)
    monkeypatch.setattr(ledger_entries, "scores_of_draws", lambda *_, **__: None)
    monkeypatch.setattr(ledger_entries, "check_sent", lambda *_, **__: None)
    monkeypatch.setattr(masked_uploads, "pads", pads)


@pytest.fixture
def asked(traced, monkeypatch):
    """What is to be audited, of each command; nothing is."""
    calls = []

    def asking(subject, entries, *_, **how):
        calls.append((subject, entries, how))
        return []

    monkeypatch.setattr(audit_command, "findings", asking)
    monkeypatch.setattr(audit_command, "show", lambda *_: None)
    return calls


def required(system):
    for options in audit_command.parts_of(system).values():
        for name, option in options.items():
            if option.default is REQUIRED:
                yield from (f"--{name.replace('_', '-')}", GIVEN[option.type])


def parts_of_system(system):
    return audit_command.parts_of(system)["system"]


@pytest.mark.parametrize("system", systems.__all__)
def test_every_system_can_be_audited(system, traced, monkeypatch, capsys, tmp_path):
    """Without noise there is no guarantee to contradict; over the air there is one."""
    place = tmp_path / "table.json"
    status = call(monkeypatch, system, *required(system), "--trials", 100, "--json", place)
    rows = json.loads(place.read_text())
    assert len(rows) >= 1 and all(row["at_least"] == row["limit"] > 2 for row in rows)
    assert status == (1 if any(row["contradicts"] for row in rows) else 0)
    assert "at least" in capsys.readouterr().out
    looks = {row["look"].split(",")[0] for row in rows} - {"masked upload"}
    assert looks <= ({"label"} if system in ("cdp_fl", "dp_sgd") else {"direction", "proposal"})
    masked = [row["contradicts"] for row in rows if row["view"] == "upload"]
    options = parts_of_system(system)  # in the clear, as `traced` has it, or because the system has to be told
    assert masked == ([["proved"]] if "elide" in options and "secure" not in options else [])


def test_ctrl_c_during_the_run_of_the_ledger_ends_the_audit(monkeypatch):
    nothing = made().isel(round=[]).assign_attrs(interrupted=1)
    monkeypatch.setattr(audit_command, "simulate", lambda *_, **__: nothing)
    assert call(monkeypatch, "cdp_fl", *PRIVATE) == 130


@pytest.mark.parametrize("adversary", ["server", "device", "coalition", "everybody", "outsider"])
def test_an_adversary_is_chosen(adversary, asked, monkeypatch):
    colluding = 2 if adversary == "coalition" else 0
    call(monkeypatch, "cdp_fl", *PRIVATE, "--adversary", adversary, "--colluding", colluding, "--trials", 100)
    ((_, (entry,), how),) = asked
    view = "server" if adversary == "outsider" else adversary  # who sees more
    said = {"server": "the server or", "device": "a client", "coalition": "2 clients", "everybody": "every local step"}
    assert entry.adversary.startswith(said[view]) or entry.adversary.startswith(f"one who sees {said[view]}")
    assert entry.view == view and how["outsider"] == (adversary == "outsider") and how["colluding"] == colluding
    assert (entry.claimed.epsilon is not None) == (view == "server")  # the paper's figure is about the sum


def test_an_outsider_sees_the_sum_and_may_be_tried_with_one_kind_of_canary(traced, monkeypatch, tmp_path):
    place = tmp_path / "table.json"
    chosen = ["--adversary", "outsider", "--trials", 100, "--canary", "sample", "--json", place]
    call(monkeypatch, "cdp_fl", *PRIVATE, *chosen)
    (row,) = json.loads(place.read_text())
    assert row["adversary"].startswith("an outsider, who sees less than the server or") and row["look"] == "sample"


def test_an_outsider_is_held_to_what_everybody_sees_where_the_server_has_no_entry(asked, monkeypatch):
    for adversary in ("outsider", "everybody"):
        call(monkeypatch, "robust_fedavg", *PRIVATE, "--adversary", adversary, "--trials", 100)
    (_, (outsider,), how), (_, (everybody,), _) = asked
    assert how["outsider"] and outsider.view == "everybody"
    assert outsider.proved.epsilon.max() == everybody.proved.epsilon.max()


@pytest.mark.parametrize(("constant", "sharper"), [(1.0, True), (1e9, False)])
def test_a_lipschitz_constant_is_taken_where_one_can_prove_more(constant, sharper, asked, monkeypatch):
    """A sample is used at most once: two steps on half of the samples each. A large constant proves nothing more."""
    monkeypatch.setattr(audit_command, "upload_finding", lambda *_, **__: FOUND)
    for given in ([], ["--lipschitz", constant]):
        assert call(monkeypatch, "cdp_fl", *PRIVATE, "--batch-size", 10, "--trials", 100, *given) == 0
    (_, (plain, *_), _), (_, (known, *_, everybody), how) = asked
    assert (known.proved.epsilon < plain.proved.epsilon).all() == sharper
    assert known.view == "server" and everybody.view == "everybody", "whose figure knows no constant"
    again, *_ = how["at"](1e-4)
    assert again.proved.epsilon.tolist() == known.proved.epsilon.tolist(), "the curve has the constant, too"


def test_users_that_collude_on_the_air_are_left_out(asked, monkeypatch):
    call(monkeypatch, "wireless", "--colluding", 3, "--trials", 100, "--noise-variance", 20)
    ((_, (server, coalition), _),) = asked
    assert server.proved.epsilon < coalition.proved.epsilon


def test_trials_on_the_air_have_the_gains_of_the_run_and_the_figure_of_its_client_0(asked, monkeypatch, capsys):
    """The made-up run has gains that no fading draws."""
    assert call(monkeypatch, "wireless", "--noise-variance", 20, "--trials", 100) == 0
    assert "trials have the gains of one run" in capsys.readouterr().out
    ((subject, (entry,), _),) = asked
    system, key = subject.make(subject.local, None), jax.random.key(9)
    state = system.init(key, subject.params, subject.data)
    drawn, _ = system.draw(key, state.draw, state.round, subject.data.count)
    np.testing.assert_array_equal(drawn.gain, made().gain[0])
    assert isinstance(entry.proved.epsilon, float)


def test_masks_bound_to_a_model_are_elided_in_an_audit_in_which_all_have_the_same(asked, monkeypatch):
    monkeypatch.setattr(audit_command, "upload_finding", lambda *_, **__: FOUND)
    call(monkeypatch, "secagg", "--bind-model", "--trials", 100)
    ((subject, *_),) = asked
    caveats = lambda make: any("elided" in caveat for caveat in make(subject.local, None).caveats)
    assert subject.unmasked and caveats(subject.unmasked) and not caveats(subject.make)


def test_a_run_in_which_nobody_came_has_no_figure_to_try(traced, monkeypatch, capsys):
    monkeypatch.setattr(
        audit_command, "simulate", lambda *_, **__: made().assign(counted=(("round", "client"), [[False] * 10]))
    )
    assert call(monkeypatch, "dp_fedavg", "--sampling-rate", 0.1, "--noise-multiplier", 1) == 2
    assert "seed must be of a run in which an upload is counted, whose eps is tried, got 0" in capsys.readouterr().err


def test_over_the_air_it_is_the_canarys_owner_who_must_be_heard(asked, monkeypatch, capsys):
    """Trials have the gains of the run: where client 0 was too weak, it is silent in all of them; coins fall anew."""
    each, others = ("round", "client"), (np.arange(10) > 0)[None]
    for able, refused in ((others, True), (others | True, False)):
        run = made().assign(counted=(each, others), join_probability=(each, able.astype(float)))
        monkeypatch.setattr(audit_command, "simulate", lambda *_, run=run, **__: run)
        assert (call(monkeypatch, "over_the_air_vote", "--trials", 100) == 2) == refused
    assert capsys.readouterr().err.count("client 0, whose eps is tried, can send at its gains, got 0") == 1


def test_a_contradiction_is_exit_status_1(traced, monkeypatch, capsys, tmp_path):
    """100 trials can contradict the figures of DP-SGD on whole batches with little noise, and not an eps of 50."""
    for epsilon, noise, status in ((50, 0.003, 0), (0.1, 0.1, 1)):
        place = tmp_path / f"{epsilon}.json"
        options = [*PRIVATE, "--gradient-noise", noise, "--adversary", "server", "--delta", 1e-3, "--canary", "label"]
        options += ["--trials", 100, "--epsilon", epsilon, "--json", place]
        assert call(monkeypatch, "dp_sgd", *options) == status
        (row,) = json.loads(place.read_text())
        assert row["gaussian"] and (row["at_least"] > max(row["proved"], row["claimed"])) == bool(status)
        assert row["contradicts"] == (["claimed", "proved", "held"] if status else [])
        assert list(row["untestable"]) == ([] if status else ["claimed", "proved", "held"])
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("testable", "trials", "contradicts", "(Gaussian)"))


def test_more_samples_than_clients_have_are_all_of_them(asked, monkeypatch):
    monkeypatch.setattr(audit_command, "simulate", lambda *_, **__: made())
    assert call(monkeypatch, "fedavg", "--samples", 2**40, "--trials", 100) == 0
    ((subject, _, _),) = asked
    assert subject.data.count.sum() == 1437, "the training set of digits"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fedavg", "--trials", 3], "trials must be an integer >= 4, got 3"),
        (["fedavg", "--trials", 2**40], "trials must be at most 16777216, got 1099511627776"),
        (["fedavg", "--delta", 0], "delta must be a number in (0, 1), got 0.0"),
        (["fedbuff", "--rounds", 2], "rounds must be 1 where rounds are asynchronous, got 2"),
        (["fedavg", "--epsilon", -1], "epsilon must be a finite number >= 0, got -1.0"),
        (["secagg", "--cohort-size", 3, "--rounds", 2], "rounds must be 1 with cohort_size, got 2"),
        (["fedrep", "--rounds", 2], "rounds must be 1 for proposals, whose eps is that of one round, got 2"),
        (["fedrep", "--num-byzantine", 1], "num_byzantine must be 0, since client 0 has the canary, got 1"),
        (["fedrep", "--attack", "foe"], "attack must not be given, since nobody is Byzantine in an audit, got foe"),
        (["dp_sgd", *PRIVATE, "--dropout", 0.1], "dropout must be 0 with noise, whose eps depends on who is lost"),
        (
            ["dp_fedavg", "--noise-multiplier", 1, "--dropout", 0.5, "--rounds", 2],
            "dropout must be 0 with noise, whose",
        ),
        (["distributed_dp_fedavg", "--dropout", 0.1, "--noise-multiplier", 1], "dropout must be 0 with noise"),
        (["wireless", "--adversary", "coalition"], "colluding must be an integer >= 1, got 0"),
        (
            ["cdp_fl", *PRIVATE, "--adversary", "device", "--colluding", 2],
            "colluding must be 0 where no coalition is audited, only device, got 2",
        ),
        (["wireless", "--adversary", "outsider", "--colluding", 1], "colluding must be 0 where no coalition"),
        (["fedrep", "--colluding", 3], "colluding must be 0 where no coalition is audited, only proposal, server, got"),
        (["cdp_fl", *PRIVATE, "--adversary", "everybody", "--lipschitz", 1], "lipschitz must not be given where no"),
        (["dp_fedavg", "--lipschitz", 0.5], "lipschitz must not be given where no audited figure"),
        (["dp_sgd", *PRIVATE, "--lipschitz", -1], "lipschitz must be a finite number >= 0, got -1.0"),
        (
            ["fedrep", "--adversary", "proposal", "--canary", "label"],
            "canary must not be given where only proposals are audited, got label",
        ),
        (["wireless", "--adversary", "device"], "adversary must be one of outsider, server for this system, got"),
        (["cdp_fl", *PRIVATE, "--canary", "direction"], "canary must be 'sample' or 'label' where the noise is in"),
        (["fedavg", "--json", "missing/table.json"], "json must be a file in a folder that exists"),
    ],
)
def test_bad_input_is_one_line(arguments, message, traced, monkeypatch, capsys):
    assert call(monkeypatch, *arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"fedjax-priv: {message}") and said.count("\n") == 1


def test_an_entry_without_a_proof_says_why(capsys):
    one = FOUND
    audit_command.show("audit", [one, one._replace(proved=1.0), one._replace(unproved="batches are not whole")])
    said = capsys.readouterr().out
    assert said.count("label [b] :fire:") == 3
    assert said.count("nothing proved") == 1 and "nothing proved: batches are not whole." in said
