"""The documentation is tested like code: what the code has, the docs name; what the docs show, works."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
import pytest
import yaml
from neuronfit import fleets, params, provenance, record, served, system
from neuronfit.cli import group
from neuronfit.decide import GATES, HEADLINES
from neuronfit.units import METRICS
from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[1]
LIB = ROOT / "lib" / "neuronfit"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def sections(name: str) -> dict[str, str]:
    """Heading (backticks removed) -> the text below it, up to the next heading of any level."""
    parts = re.split(r"^#+ (.+)$", without_code(text_of(name)), flags=re.MULTILINE)
    return dict(zip((part.replace("`", "").strip() for part in parts[1::2]), parts[2::2]))


def without_code(text: str) -> str:
    """Comments in code blocks are not headings; the code itself is kept."""
    return re.sub(r"^ *```.*?^ *```", lambda block: block[0].replace("\n#", "\n "), text, flags=re.DOTALL | re.MULTILINE)


def code_blocks(text: str) -> list[str]:
    return re.findall(r"^ *```\w*\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE)


def quoted(text: str) -> set[str]:
    """Everything in backticks."""
    return set(re.findall(r"`([^`\n]+)`", text))


def rows(text: str) -> list[list[str]]:
    """Cells of every table row, heads and rules left out."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [number for number, row in enumerate(cells) if all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    return [row for number, row in enumerate(cells) if number not in rules and number + 1 not in rules]


def tool(name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def modules() -> dict[str, ast.Module]:
    return {str(path.relative_to(LIB)): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(LIB.rglob("*.py"))}


# -- commands ---------------------------------------------------------------------------------


def commands(node: click.Command = group, name: str = "neuronfit") -> Iterator[tuple[str, click.Command]]:
    for child, command in getattr(node, "commands", {}).items():
        yield f"{name} {child}", command
        yield from commands(command, f"{name} {child}")


def test_every_command_has_a_section_that_names_its_options_and_arguments():
    documented = sections("docs/commands.md")
    for name, command in commands():
        assert name in documented, f"docs/commands.md has no section `{name}`"
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                wanted = max(parameter.opts, key=len)
                assert f"`{wanted}`" in documented[name], f"`{wanted}` of {name} is not in docs/commands.md"
                assert wanted in documented[name].split("```")[1], f"{wanted} is not in the usage of {name}"
            else:
                assert parameter.name.upper() in documented[name], f"{parameter.name.upper()} of {name} is not in docs/commands.md"
    known = {name for name, _ in commands()}
    assert {name for name in documented if name.startswith("neuronfit ")} == known, "a command in the docs does not exist"


def test_an_option_in_the_docs_exists():
    for name, command in commands():
        options = {opt for parameter in command.params for opt in parameter.opts} | {"--help"}
        written = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", sections("docs/commands.md")[name]))
        others = {opt for _, other in commands() for parameter in other.params for opt in parameter.opts}
        assert written <= options | others, f"{name}: {sorted(written - options - others)}"
        table = {cell[0].strip("`") for cell in rows(sections("docs/commands.md")[name]) if cell[0].startswith("`--")}
        assert table <= options, f"{name} has no {sorted(table - options)}"


def test_the_readme_lists_every_command():
    listed = {words.split()[1] for words in quoted(text_of("README.md")) if re.match(r"neuronfit [a-z]+", words)}
    assert set(group.commands) <= listed
    assert listed <= set(group.commands), f"README names commands that do not exist: {sorted(listed - set(group.commands))}"


def test_every_exit_status_is_explained():
    from neuronfit import cli, errors

    statuses = {str(kind.exit_status) for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_status")}
    statuses |= {"0", str(cli.INTERRUPTED)}
    assert statuses <= {row[0] for row in rows(sections("docs/commands.md")["Exit status"])}


def command_lines() -> list[tuple[str, str]]:
    """Every line of a code block, and every backticked text, that starts with neuronfit."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [line.strip() for block in code_blocks(text) for line in block.splitlines()]
        lines += [words for words in quoted(text) if " -" in words]
        found += [(page.name, line) for line in lines if line.startswith("neuronfit ")]
    return found


@pytest.mark.parametrize(("page", "line"), command_lines())
def test_a_command_shown_in_the_docs_is_one_that_is_understood(page, line):
    if re.search(r"\[.*\]|\.\.\.|COMMAND", line):
        return  # a usage line, compared option by option above
    words = shlex.split(re.split(r"\s{2,}|\s#", line)[0])[1:]
    command: click.Command = group
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        assert words[0] in command.commands, f"{page}: no command {words[0]!r} in {line!r}"
        command = command.commands[words.pop(0)]
    context = click.Context(command)
    command.make_parser(context).parse_args(args=words)


# -- the params file --------------------------------------------------------------------------


def test_the_params_page_is_what_the_tool_writes():
    assert text_of("docs/params.md") == tool("params_doc").document(), "docs/params.md is stale: python tools/params_doc.py"


def test_every_key_has_a_meaning_and_every_number_a_unit():
    generator = tool("params_doc")
    page = sections("docs/params.md")
    for key, field in generator.keys():
        section, _, rest = key.partition(".")
        if not rest or not generator._is_leaf(field):
            assert section in page
            continue
        assert f"| `{rest}` |" in page[section], f"{key} is not in docs/params.md"
        assert generator.meaning(key, field)
        if generator._is_number(field.annotation):
            assert generator.unit(key, field) not in ("", generator.NO_UNIT), f"{key} has no unit"
    assert set(generator.SECTION_TEXT) == set(params.SECTIONS)


def test_no_meaning_or_unit_is_kept_for_a_key_that_is_gone():
    generator = tool("params_doc")
    keys = dict(generator.keys())
    for kept in (*generator.MEANING, *generator.UNIT_OF, *generator.NOT_JUDGED):
        assert kept in keys, f"tools/params_doc.py speaks of {kept}, which is no key"


def test_keys_called_not_judged_are_read_by_no_step():
    generator = tool("params_doc")
    names = {key.rpartition(".")[2] for key in generator.NOT_JUDGED}
    for path, tree in modules().items():
        read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert path.startswith("params/") or not read & names, (
            f"{path} reads {sorted(read & names)}: take it out of NOT_JUDGED in tools/params_doc.py"
        )


def test_the_params_files_in_the_docs_are_valid():
    found = 0
    for page in PAGES:
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE):
            data = yaml.safe_load(block)
            if "baseline" in data:
                params.parse(data, where=page.name)
                found += 1
    assert found


# -- metrics, records, verdicts, gates --------------------------------------------------------


def test_the_metrics_table_is_the_registry():
    table = {row[0].strip("`"): row[1:] for row in rows(text_of("docs/metrics.md"))}
    assert list(table) == list(METRICS)
    for name, entry in METRICS.items():
        unit, better, shown, meaning = table[name]
        assert (unit, better, shown) == (entry.unit, entry.better or "neither", entry.shown_unit), name
        assert meaning, f"{name} has no meaning"


def test_numbers_in_the_metrics_page_are_those_of_the_code():
    from neuronfit.params import HOURS_PER_MONTH
    from neuronfit.stats import samples_needed

    page = text_of("docs/metrics.md")
    assert f"{samples_needed(0.99)} calls at 95 % confidence" in page
    assert f"a month of {HOURS_PER_MONTH:.0f} hours" in page


def test_every_record_kind_has_a_section_that_names_its_fields():
    page = sections("docs/records.md")
    table = {row[0].strip("`"): row[1] for row in rows(page["Records"])}
    assert set(table) == set(record.KINDS)
    for step, (_, kind) in record.STEPS.items():
        assert table[kind] == str(step)
    inherited = {field.alias or name for name, field in record.Record.model_fields.items()}
    assert inherited <= quoted(page["Header"])
    for kind, model in record.KINDS.items():
        own = [name for name in model.model_fields if (model.model_fields[name].alias or name) not in inherited | {"schema"}]
        for name in own:
            if name == "bottom_line":
                continue
            assert name in quoted(page[kind]), f"`{name}` is not in the section {kind} of docs/records.md"


def named_in(model: type[BaseModel]) -> Iterator[tuple[type[BaseModel], str, Any]]:
    for name, field in model.model_fields.items():
        yield model, field.alias or name, field.annotation


PARTS = [
    model
    for module in (record, served, fleets, provenance, system)
    for model in vars(module).values()
    if isinstance(model, type)
    and issubclass(model, BaseModel)
    and model.__module__.startswith(module.__name__)
    and not model.__name__.startswith("_")
]


def test_every_field_and_every_allowed_word_of_a_record_is_in_the_docs():
    page = text_of("docs/records.md")
    said = quoted(page)
    for part in PARTS:
        for model, name, annotation in named_in(part):
            assert name in said or name == "grade", f"{model.__name__}.{name} is not in docs/records.md"
            for option in literals(annotation):
                if isinstance(option, str) and "/" not in option:
                    assert option in said, f"{option!r} of {model.__name__}.{name} is not in docs/records.md"


def literals(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return tuple(option for part in get_args(annotation) for option in literals(part))


def test_grades_and_their_letters_are_explained():
    table = {row[0].strip("`"): row[1] for row in rows(sections("docs/records.md")["Sources and grades"])}
    assert table == {grade.value: grade.letter for grade in provenance.Grade}
    readme = text_of("README.md")
    for grade in provenance.Grade:
        assert re.search(rf"\| {grade.letter} \| {grade.value} \|", readme), f"README does not explain {grade.letter}"


def test_verdicts_and_gates_are_explained():
    page = sections("docs/records.md")
    pair = set(get_args(record.Pair.model_fields["verdict"].annotation))
    assert {row[0].strip("`") for row in rows(page["comparison"]) if row[0].strip("`") in pair} == pair
    told = [row[0].strip("`") for row in rows(page["decision"])]
    verdicts = set(get_args(record.Decision.model_fields["verdict"].annotation))
    assert verdicts == set(HEADLINES) <= set(told)
    assert [name for name in told if name in GATES] == list(GATES), "gates are listed in their order"
    readme = quoted(text_of("README.md"))
    assert verdicts <= readme


def test_severities_are_explained():
    listed = [row[0].strip("`") for row in rows(sections("docs/records.md")["Findings"])]
    assert set(listed) == {str(one) for one in record.Severity}


# -- finding codes ----------------------------------------------------------------------------


def finding_codes() -> dict[str, set[str]]:
    """Code -> severities, for every ``Finding(...)`` in the package.

    A code that a function takes as a parameter is looked up where the function is called; a code
    that is put together (an f-string) is given as its beginning with a star. A code that is handed
    on (``code=entry.code``) is one of those that the modules imported there list: their ``CODES``,
    a mapping of code to severities.
    """
    found: dict[str, set[str]] = {}
    trees = modules()
    for path, tree in trees.items():
        for call, inside in _finding_calls(tree):
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            assert {"code", "severity"} <= set(given), f"{path}, line {call.lineno}: a Finding without code or severity by name"
            for values in _resolved(tree, inside, given):
                if isinstance(values["code"], ast.Attribute) and values["code"].attr == "code":
                    listed = _listed_codes(trees, tree)
                    assert listed, f"{path}, line {call.lineno}: hands on a code, and no module imported there lists its CODES with their severities"
                    for code, severities in listed.items():
                        found.setdefault(code, set()).update(severities)
                    continue
                for code in _codes(values["code"], path):
                    found.setdefault(code, set()).update(_severities(values["severity"], inside))
    return found


def _listed_codes(trees: dict[str, ast.Module], tree: ast.Module) -> dict[str, set[str]]:
    """Code -> severities, of every mapping ``CODES`` in the modules (or packages) that ``tree`` imports."""
    imported = {
        f"{node.module}.{name.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("neuronfit")
        for name in node.names
    }
    parts = {name.split(".")[1] for name in imported}
    found: dict[str, set[str]] = {}
    for path, other in trees.items():
        if Path(path).parts[0].removesuffix(".py") not in parts:
            continue
        for node in other.body:
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(target, ast.Name) and target.id == "CODES" and isinstance(node.value, ast.Dict):
                for code, severities in ast.literal_eval(node.value).items():
                    assert severities and set(severities) <= {str(one) for one in record.Severity}, f"{path}: {code} is {severities}"
                    found.setdefault(code, set()).update(severities)
    return found


def _finding_calls(tree: ast.AST, inside: ast.AST | None = None) -> Iterator[tuple[ast.Call, Any]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Finding":
            yield node, inside
        yield from _finding_calls(node, node if isinstance(node, ast.FunctionDef) else inside)


def _resolved(tree: ast.AST, inside: Any, given: dict[Any, ast.expr]) -> list[dict[Any, ast.expr]]:
    names = [argument.arg for argument in (*inside.args.posonlyargs, *inside.args.args)] if inside else []
    open_ones = {key: value.id for key, value in given.items() if key in ("code", "severity") and isinstance(value, ast.Name) and value.id in names}
    if not open_ones:
        return [given]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == inside.name]
    assert calls, f"{inside.name} makes findings and is never called"
    resolved = []
    for call in calls:
        passed = {**dict(zip(names, call.args)), **{keyword.arg: keyword.value for keyword in call.keywords}}
        resolved.append({**given, **{key: passed[name] for key, name in open_ones.items()}})
    return resolved


def _codes(node: ast.expr, path: str) -> list[str]:
    if isinstance(node, ast.Constant):
        return [node.value]
    if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
        return [f"{node.values[0].value}*"]
    if isinstance(node, ast.IfExp):
        return [*_codes(node.body, path), *_codes(node.orelse, path)]
    raise AssertionError(f"{path}, line {node.lineno}: cannot tell the finding code")


def _severities(node: ast.expr, inside: ast.AST | None = None) -> set[str]:
    """Every severity in an expression, and in what its names are set to in the function around it."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    values = [
        assigned.value
        for assigned in (ast.walk(inside) if inside else ())
        if isinstance(assigned, ast.Assign) and any(isinstance(target, ast.Name) and target.id in names for target in assigned.targets)
    ]
    return {
        record.Severity[part.attr].value
        for value in (node, *values)
        for part in ast.walk(value)
        if isinstance(part, ast.Attribute) and part.attr in record.Severity.__members__
    }


def documented_codes() -> dict[str, list[str]]:
    headings = [name for name in sections("docs/records.md") if name.startswith("About ")]
    return {row[0].strip("`"): row[1:] for name in headings for row in rows(sections("docs/records.md")[name]) if row[0].startswith("`")}


def test_every_finding_code_is_explained_with_its_severity():
    documented = documented_codes()
    codes = finding_codes()
    assert len(codes) > 20, "the search for codes finds too few"
    for code, severities in codes.items():
        names = [name for name in documented if name == code or (code.endswith("*") and name.startswith(code[:-1]))]
        assert names, f"finding code {code} is not in docs/records.md"
        said = {word for name in names for word in re.findall(r"\w+", documented[name][0])}
        assert severities <= said, f"{code} is {sorted(severities)} in the code, {sorted(said)} in the docs"
    for name, (_, means, do) in documented.items():
        assert means and do, f"{name} is not explained"


def test_no_explained_code_is_gone():
    codes = finding_codes()
    for name in documented_codes():
        assert any(name == code or (code.endswith("*") and name.startswith(code[:-1])) for code in codes), (
            f"docs/records.md explains {name}, which no code makes"
        )


# -- architecture, notebooks, readme ----------------------------------------------------------


def test_every_module_is_in_the_architecture_page():
    said = quoted(text_of("docs/architecture.md"))
    for path in modules():
        name = Path(path).parent.name if path.endswith("__init__.py") else Path(path).stem
        assert name in said or not name, f"docs/architecture.md does not mention {path}"


def test_the_layers_are_those_of_the_package():
    """The same modules in the same order as the docstring of the package lists them."""
    layers = ast.get_docstring(ast.parse((LIB / "__init__.py").read_text(encoding="utf-8"))).split("leaves", 1)[1].split("\n\n")[0]
    listed = re.findall(r"[a-z_]+", re.sub(r"\b(leaves|nouns|verbs|edges|with)\b", "", layers))
    table = [row[1].strip("`") for row in rows(sections("docs/architecture.md")["Layers"])]
    assert table == listed


def test_the_notebooks_page_lists_the_steps():
    table = {row[0].strip("`"): row[2] for row in rows(sections("docs/notebooks.md")["The notebooks"])}
    assert set(table) == {f"{step:02d}_{name}" for step, (name, _) in record.STEPS.items()}
    for step, (name, kind) in record.STEPS.items():
        assert f"`{kind}`" in table[f"{step:02d}_{name}"]


def test_make_targets_in_the_docs_exist():
    targets = set(re.findall(r"^([a-z]+(?: [a-z]+)*):", text_of("Makefile"), flags=re.MULTILINE))
    known = {name for line in targets for name in line.split()}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        lines = [*(line for block in code_blocks(text) for line in block.splitlines()), *quoted(text)]
        for name in (match[1] for line in lines if (match := re.match(r"\s*make ([a-z]+)", line))):
            assert name in known, f"{page.name}: no target {name!r} in the Makefile"
    assert {"report", "test", "lab"} <= known


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+://", target):
            continue
        place, _, fragment = target.partition("#")
        path = (page.parent / place).resolve() if place else page
        assert path.exists(), f"{page.name}: {target} does not exist"
        if fragment:
            headings = re.findall(r"^#+ (.+)$", without_code(path.read_text(encoding="utf-8")), flags=re.MULTILINE)
            assert fragment in {anchor(heading) for heading in headings}, f"{page.name}: no heading for {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_in_the_docs_exist(page):
    text = page.read_text(encoding="utf-8")
    for name in quoted(text):
        made = name.startswith(("reports/", "params/x", "tests/data/records")) or re.search(r"[<>*\s{}$]", name)
        if re.match(r"(lib|docs|params|tools|tests|notebooks|benchmarks)/[\w./-]+\.\w+$", name) and not made:
            assert (ROOT / name).exists(), f"{page.name} names {name}, which does not exist"


def test_pages_that_must_be_there():
    names = {page.name for page in PAGES}
    assert {
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "architecture.md",
        "params.md",
        "records.md",
        "metrics.md",
        "commands.md",
        "notebooks.md",
    } <= names
    changes = text_of("CHANGELOG.md")
    assert "## Unreleased" in changes and "### Numbers" in changes
    licence = text_of("LICENSE")
    assert "Apache License" in licence and "Version 2.0, January 2004" in licence and "END OF TERMS AND CONDITIONS" in licence


def test_the_readme_shows_what_the_series_says(tmp_path):
    """The result quoted in the README is what the committed question gives today, word by word."""
    from neuronfit import compare, compatibility, compile, cost, decide, effort, profile, trial, utilization
    from neuronfit.question import Question
    from neuronfit.show import number

    question = Question.from_file(ROOT / "params" / "bert-base-uncased.yaml", reports=tmp_path)
    profile.describe(question)
    compatibility.check(question)
    compile.compile_test(question)
    compare.compare(question)
    load, priced = utilization.estimate(question), cost.price(question)
    effort.payback(question)
    trial.plan(question)
    found = decide.decide(question)
    said = " ".join(re.sub(r"^> |\*\*", "", text_of("README.md"), flags=re.MULTILINE).split())
    for text in (found.headline, found.sentence, found.next_measurement.command):
        assert text in said, f"README.md does not quote today's result: {text}"
    for line in re.findall(r"^- (.+)$", sections("README.md")["A result in two commands"], flags=re.MULTILINE):
        assert line in found.reasons, f"README.md gives a reason that the decision does not: {line}"
    for row, busy in zip(priced.targets, load.targets):
        for quantity, metric in (
            (row.full_load, "usd_per_million"),
            (row.expected, "usd_per_million"),
            (busy.capacity_per_instance, "throughput_per_s"),
            (busy.busy_mean, "utilization"),
        ):
            shown = number(quantity, metric)
            assert any(shown in line for line in text_of("README.md").splitlines() if line.startswith(f"| {row.target} ")), (
                f"{row.target}: {shown} is not in README.md"
            )
