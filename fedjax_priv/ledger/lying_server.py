"""What is left of a ledger if the server does not follow the protocol: the noise that a client adds alone.

Figures that rest on a sum, on unseen participation or on noise of the server hold only for an honest server. A client
that clips and adds noise is protected whatever it is told, since the server gets only its noisy upload.
"""

from collections.abc import Sequence

from fedjax_priv.ledger.entry import Entry, none
from fedjax_priv.systems.releases import DistributedNoise, NoisyUploads, Release, SketchedUploads

ALONE = {"everybody", "proposal"}
"""Views of what a client sends by itself, in any system."""


def entries(found: Sequence[Entry], release: Release | None, lies: Sequence[str]) -> list[Entry]:
    """The entries under these lies, of which there is at least one."""
    why = f"the server does not follow the protocol: {'; '.join(lies)}"

    def left(entry: Entry) -> Entry:
        if entry.view in ALONE:
            return entry
        if _is_of_one_upload(release):
            return entry._replace(note=why)
        return entry._replace(claimed=none(why), proved=none(why), note="")

    return [left(entry) for entry in found]


def _is_of_one_upload(release: Release | None) -> bool:
    """Whether figures are those of an upload that is seen alone, with its own noise."""
    noise = getattr(release, "noise", release)
    if isinstance(noise, DistributedNoise):
        return noise.group_size == 1
    return isinstance(noise, NoisyUploads | SketchedUploads)
