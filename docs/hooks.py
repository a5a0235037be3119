"""Fills pages from sources (systems, cited tests, verdicts), and checks that the reference has every public name."""

import ast
import json
import logging
import pathlib
import re
import sys
import textwrap
import zlib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYSTEM = re.compile(r"^<!-- \{\{ (\w+) \}\} -->$", re.MULTILINE)  # a comment, which other readers of a page do not see
MACHINERY, VERDICTS, PUBLISHED, BY_TURNS = (
    f"<!-- {{{{ {name} }}}} -->" for name in ("machinery", "verdicts", "published", "lr_mnist_by_turns")
)
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
log = logging.getLogger("mkdocs.hooks")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Replace `<!-- {{ secagg }} -->` by the expression of that system, a test's name by a link to it, and so on."""
    if page.file.src_uri == "cited.md":
        pages = sorted(pathlib.Path(config.docs_dir).glob("*.md"))
        return markdown + sources({test for page in pages for test in TEST.findall(page.read_text())})
    if MACHINERY in markdown:
        return markdown.replace(MACHINERY, machinery(pathlib.Path(config.docs_dir) / "api"))
    if PUBLISHED in markdown:
        markdown = markdown.replace(PUBLISHED, published())
    if BY_TURNS in markdown:
        markdown = markdown.replace(BY_TURNS, by_turns())
    markdown = markdown.replace(VERDICTS, contradicted())
    markdown = SYSTEM.sub(lambda found: fenced(system(found[1])), markdown)
    return TEST.sub(lambda found: f"[`{found[2]}`](cited.md#{found[2]})", markdown)


def on_post_build(config: Any, **_: Any) -> None:
    """Warn about public names that the reference does not have; a warning fails a strict build."""
    known = inventory(pathlib.Path(config.site_dir) / "objects.inv")
    for file in sorted((ROOT / "fedjax_priv").rglob("__init__.py")):
        package = ".".join(file.parent.relative_to(ROOT).parts)
        for name, path in exported(file, package).items():
            module = (ROOT / path.replace(".", "/")).is_dir()
            if not known & {f"{package}.{name}", path} and not module:
                log.warning("%s.%s is public and not in the reference", package, name)


def system(name: str) -> str:
    """The source of what the factory of a system returns."""
    (file,) = (ROOT / "fedjax_priv" / "systems").rglob(f"{name}.py")
    returned = [node for node in defined(file, name).body if isinstance(node, ast.Return)]
    return segment(file, returned[-1])


def machinery(folder: pathlib.Path) -> str:
    """Directives for those modules of engine, runs and cli that no other page of the reference mentions."""
    named = re.findall(r"^::: (\S+)", "\n".join(page.read_text() for page in folder.glob("*.md")), re.MULTILINE)
    files = [file for room in ("engine", "runs", "cli") for file in sorted((ROOT / "fedjax_priv" / room).rglob("*.py"))]
    modules = [".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for file in files]
    elsewhere = lambda module: any(f"{name}.".startswith(f"{module}.") for name in named)
    return "\n\n".join(f"::: {module}" for module in modules if not elsewhere(module))


def contradicted() -> str:
    """A table of the four papers' own claims whose verdict is false at the paper's own setting."""
    lines = ["| paper | run | claim | printed | found |", "|---|---|---|---|---|"]
    for paper in ("sparse_secagg", "wireless", "fedrep", "cdp_fl"):
        for file in sorted((ROOT / "experiments" / "results" / paper).glob("*/verdicts.json")):
            for one in json.loads(file.read_text()):
                if one["verdict"] is False and one["source"] == "paper" and not one["differs"]:
                    cells = paper, file.parent.name, one["text"], one["expected"], one["found"]
                    lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join(lines)


def published() -> str:
    """Values that others print, with ours."""
    sys.path.insert(0, str(ROOT))
    from experiments import trust

    return f"{trust.summary()}\n\n{trust.table()}"


def by_turns() -> str:
    """Seconds of the same run by Flower and by this package."""
    sys.path.insert(0, str(ROOT))
    from experiments.benchmarks.lr_mnist_turns import table

    return table.committed()


def sources(tests: set[tuple[str, str]]) -> str:
    """The source of the tests, file by file."""
    text, before = "", ""
    for file, name in sorted(tests):
        text += f"\n## {file}\n" * (file != before)
        text += f"\n### {name} {{#{name}}}\n\n{fenced(segment(ROOT / file, defined(ROOT / file, name)))}\n"
        before = file
    return text


def defined(file: pathlib.Path, name: str) -> ast.FunctionDef:
    """The function of that name in a file."""
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise ValueError(f"{file} must define {name}")


def segment(file: pathlib.Path, node: Any) -> str:
    """The lines of a function, decorators included."""
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
    return textwrap.dedent("\n".join(file.read_text().splitlines()[first - 1 : node.end_lineno]))


def fenced(code: str) -> str:
    """A block of code."""
    return f"```python\n{code}\n```"


def exported(file: pathlib.Path, package: str) -> dict[str, str]:
    """Names in `__all__`, and where each is defined."""
    tree = ast.parse(file.read_text())
    origin = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    names = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    ]
    return {name: origin.get(name, f"{package}.{name}") for name in (names[0] if names else ())}


def inventory(file: pathlib.Path) -> set[str]:
    """The names in the reference: mkdocstrings writes one per line, compressed, after four lines of text."""
    *_, packed = file.read_bytes().split(b"\n", 4)
    return {line.split(" ")[0] for line in zlib.decompress(packed).decode().splitlines()}
