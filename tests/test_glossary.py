"""Words keep to `docs/glossary.md`: what it names exists, and nobody uses the phrases it retires."""

import ast
import importlib
import pathlib
import re

import pytest

import fedjax_priv

PACKAGE = pathlib.Path(fedjax_priv.__file__).parent
ROOT = PACKAGE.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
TERMS, _, AFTER = GLOSSARY.partition("## Retired phrases")
DEFINED, RETIREMENTS = (re.findall(r"^\| (.+?) \|(.*)\|$", part, re.MULTILINE)[1:] for part in (TERMS, AFTER))
RETIRED = {phrase: say.strip() for phrases, say in RETIREMENTS for phrase in phrases.split(", ")}
PAGES = [
    *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "notebooks").glob("*.md"), *(ROOT / "notebooks").glob("*.py"), *(ROOT / "experiments").rglob("*.md"),
]  # fmt: skip
PLACES = {str(page.relative_to(ROOT)): [page] for page in PAGES} | {
    f"fedjax_priv/{room.name}": sorted(room.rglob("*.py")) if room.is_dir() else [room]
    for room in PACKAGE.iterdir()
    if room.suffix == ".py" or (room / "__init__.py").exists()
}


def words_of(file):
    """What a reader sees: a page without its code, the strings of a module."""
    text = file.read_text()
    if file.name == "glossary.md":
        text = TERMS
    if file.suffix == ".md":
        return re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    if file.parent.name == "notebooks":
        return "\n".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    strings = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return "\n".join(string for string in strings if isinstance(string, str))


def retired(text):
    """The retired phrases in a text, also those broken over two lines; "of its own clients" is none."""
    text = " ".join(text.lower().split())
    return [phrase for phrase in RETIRED if re.search(rf"\b{phrase}\b" + r"(?! \w)" * phrase.endswith("own"), text)]


def resolved(name):
    """The module, class, function or field of that dotted name; `AttributeError` if there is none."""
    found = fedjax_priv
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError:
                raise AttributeError(f"fedjax_priv.{name} is not there") from None
    return found


@pytest.mark.parametrize(("term", "meaning"), DEFINED, ids=[term for term, _ in DEFINED])
def test_what_the_glossary_names_exists(term, meaning):
    names = re.findall(r"`([\w.]+)`", meaning.rpartition("|")[2])
    assert names, f"{term} names no place in the code"
    for name in names:
        resolved(name)


@pytest.mark.parametrize("place", PLACES)
def test_retired_phrases_are_not_used(place):
    found = {str(file.relative_to(ROOT)): retired(words_of(file)) for file in PLACES[place]}
    used = {file: {phrase: RETIRED[phrase] for phrase in phrases} for file, phrases in found.items() if phrases}
    assert not used, f"see the retired phrases in docs/glossary.md: {used}"


def test_a_retired_phrase_and_a_wrong_name_are_caught():
    assert retired("The rule bears\n3 rows.") == ["bears"] and retired("Noise of its\n own.") == ["of its own"]
    assert retired("A forbearing rule of its own clients tolerates 3 besides.") == []
    assert len(RETIRED) > 10 and len(DEFINED) > 20
    with pytest.raises(AttributeError, match="is not there"):
        resolved("base.Cohort.no_such_field")
