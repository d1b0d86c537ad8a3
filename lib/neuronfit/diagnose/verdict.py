"""From what a log says to one answer.

The order of the questions is the order of trust: a result file or report is believed as printed; a
message that explains a failure beats one that follows from it; a stated end (``exitcode=0``,
``Compiler status PASS``) beats every error word; without any of these the answer is "cannot tell".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Optional

from neuronfit.diagnose import reading
from neuronfit.diagnose.cause import cause, degree, operators, training_operators
from neuronfit.diagnose.diagnosis import Diagnosis, Evidence, Mention
from neuronfit.diagnose.meaning import ENVIRONMENT, meaning
from neuronfit.diagnose.private import masked
from neuronfit.diagnose.reading import Message
from neuronfit.diagnose.scan import Line, Scan
from neuronfit.diagnose.support import Analysis, Report, Support, analysis, report, support
from neuronfit.record import Finding, Severity

__all__ = ["verdict"]

WIDTH = 300
_OF_SUCCESS = {
    "compile": ("compile_succeeded", "keep the compiled files with their versions and flags, and measure"),
    "load": ("load_succeeded", "keep the compiled files with their versions and flags, and measure"),
    "serve": ("serve_succeeded", "measure it under the traffic of step 1: an answer is no latency"),
    "execute": ("run_succeeded", "keep its versions and flags, and measure"),
}
"""Phase -> the code and the next step of a run that ended well in it."""
_MORE = (
    "the whole log, from the command to the exit status",
    "what the program printed on standard output and standard error",
    "whether the compiled file (.neff or model.pt) exists",
)


def verdict(scan: Scan) -> Diagnosis:
    """The answer to one scanned log."""
    return _Reader(scan).answer()


class _Reader:
    """All that the questions below look at, read once."""

    def __init__(self, scan: Scan):
        self.scan = scan
        said = reading.messages(scan.lines)
        self.about_neuron = reading.is_about_neuron(scan, said)
        self.successes = [message for message in said if message.level == "success"]
        self.harmless = [message for message in said if message.level == "harmless"]
        self.roots = [_settled(message, scan) for message in said if message.level == "root"]
        self.symptoms = [message for message in said if message.level == "symptom"]
        self.last_success = max((message.line for message in self.successes), default=0)
        self._set_aside()
        self.errors = reading.errors(scan.lines)
        self.exceptions = reading.exceptions(scan.lines)
        self.support = support(scan.lines)
        self.facts = {name: masked(value) for name, value in reading.facts(scan).items()}

    def _set_aside(self) -> None:
        """Messages on warning lines, and faults of the environment, are no failure where the run ends well after them."""
        self._set_aside_environment()
        failed = any(
            message.line > 0 for message in self.symptoms if message.entry.category not in ("stale_artifact", "cpu_fallback", "partial_support")
        )
        if not self.last_success:
            wrapper = [message for message in self.harmless if message.entry.code == "wrapper_reads_hlo"]
            self.harmless = [message for message in self.harmless if message not in wrapper]
            return
        if failed:
            return
        mild = [
            message
            for message in self.roots
            if message.entry.kind == "signature"
            and message.line < self.last_success
            and re.search(r"\bWARN|\bINFO\b|\bDEBUG\b|: [WI] ", message.text)
        ]
        self.harmless += mild
        self.roots = [message for message in self.roots if message not in mild]

    def _set_aside_environment(self) -> None:
        """What a run got over: a fault of the host stands before a success, and nothing fails after that success.

        A model that was loaded, ran or answered had its device, whatever was said before. A compilation needs none,
        so it outranks the environment only where nothing else failed.
        """
        ran = max((message.line for message in self.successes if message.entry.phase != "compile"), default=0)
        weak = ("stale_artifact", "cpu_fallback", "partial_support")
        hard = [message for message in self.symptoms if message.entry.category not in weak]
        if ran:
            hard = [message for message in hard if message.line > ran or message.entry.category not in ENVIRONMENT]
        end = ran if ran else 0 if hard else self.last_success
        got_over = [message for message in (*self.roots, *self.symptoms) if message.entry.category in ENVIRONMENT and message.line < end]
        if not self.last_success and not self.symptoms:
            got_over = [message for message in self.roots if message.entry.category == "network" and re.search(r"\bWARN", message.text)]
        if hard and any(message.line > end for message in hard):
            return
        self.harmless += got_over
        self.roots = [message for message in self.roots if message not in got_over]
        self.symptoms = [message for message in self.symptoms if message not in got_over]

    # -- the questions, in order --------------------------------------------------------------

    def answer(self) -> Diagnosis:
        if not self.scan.size:
            return self._unknown("empty", "The log is empty", missing=_MORE)
        if (codes := self._list_of_codes()) is not None:
            return self._unknown("reference_table", f"This is a table of {codes} error codes, not a log", missing=("the log of a run",))
        found = analysis(self.scan)
        if found is not None:
            return self._analysis(found)
        if not self.about_neuron:
            return self._unknown("not_recognised", "Not recognised: nothing in this text comes from Neuron software", missing=_MORE)
        if self.roots:
            return self._failure()
        ahead = report(self.scan)
        if ahead is not None:
            return self._report(ahead)
        if self.symptoms and not self._recovered():
            return self._failure_without_cause()
        if self.support is not None and not (self.support.complete and self._ended_well()):
            return self._partial(self.support)
        if self.successes:
            late = self._late_exception()
            return self._failed_after_success(late) if late else self._success()
        if self.support is not None:
            return self._partial(self.support)
        if self.exceptions and not self._only_interrupted():
            return self._unlisted_exception()
        return self._no_verdict()

    def _list_of_codes(self) -> Optional[int]:
        """Number of codes when the text lists many without a time or a level; a failed run names a few."""
        lines = [line for line in self.scan.lines if re.search(r"NCC_[A-Z]+\d|\bNRT_[A-Z]{3}", line.text)]
        codes = {code for line in lines for code in re.findall(r"NCC_[A-Z]+\d+|\bNRT_[A-Z]+(?:_[A-Z]+)*\b", line.text)}
        plain = [line for line in lines if reading.moment(line.text) is None and not re.search(r"\bERROR\b|Error:|status", line.text)]
        if len(codes) < 8 or len(plain) < 0.8 * len(lines) or self.last_success or self.exceptions:
            return None
        return max(len(codes), *(self.scan.counts.get(text, 0) for text in (b"NCC_", b"NRT_")))

    def _recovered(self) -> bool:
        """Nothing but a part that fell to the CPU or a cache, and a success after it."""
        weak = ("stale_artifact", "cpu_fallback", "partial_support")
        hard = [message for message in self.symptoms if message.entry.category not in weak]
        return not hard and bool(self.last_success)

    def _ended_well(self) -> bool:
        return bool(self.successes) or (self.support is not None and self.support.compiled is not None)

    def _only_interrupted(self) -> bool:
        return all(name.endswith("Interrupt") for _, name, _ in self.exceptions)

    def _late_exception(self) -> Optional[tuple[Line, str, str]]:
        late = [found for found in self.exceptions if found[0].number > self.last_success and not found[1].endswith(("Interrupt", "SystemExit"))]
        return late[-1] if late and b"Traceback (most" in self.scan.counts else None

    # -- failures -----------------------------------------------------------------------------

    def _failure(self) -> Diagnosis:
        ranked = sorted(self.roots, key=lambda message: (_distance(message), message.line))
        root = ranked[0]
        category = root.entry.category
        kin = [message for message in ranked if message.entry.category == category]
        entry = _named(root, kin, self.symptoms)
        phase = self._phase(root)
        title = root.entry.title
        environment = category in ENVIRONMENT or (category in ("install", "configuration") and phase == "environment")
        if category == "driver" and phase == "execute":
            title = f"Compiled, but not run: {title[0].lower()}{title[1:]}" if title.startswith("This ") else f"Compiled, but not run. {title}"
        if phase == "load" and category == "device_memory" and root.entry.phase == "compile":
            phase = "compile"
        said = cause(category, kin, self.scan.lines)
        remarks = self._remarks(root)
        steps = _joined(root.entry.steps, *(message.entry.steps for message in kin[:3]), meaning(category).steps)
        return self._diagnosis(
            outcome="environment" if environment else "failed",
            phase=phase,
            code=entry,
            title=title,
            cause=" ".join(part for part in (said, remarks) if part),
            evidence=self._evidence([*_distinct(kin)[:4], *self._ending(), *self._details(category), *self._fallbacks()]),
            steps=steps,
            category=category,
            confidence=_confidence(root, kin),
            others=self._others(ranked, category),
            source=root.entry.source or None,
        )

    def _phase(self, root: Message) -> str:
        """Where it failed; a fault of the host counts as execution when the model was compiled before."""
        phase, category = root.entry.phase, root.entry.category
        compiled = any(message.line < root.line and message.entry.phase == "compile" for message in self.successes)
        called = any(message.entry.code == "torchscript_call" for message in self.symptoms)
        if category in ENVIRONMENT and (compiled or called):
            return "execute"
        if category == "install" and any(message.entry.phase == "compile" for message in self.symptoms):
            return "compile"
        if category == "device_memory" and phase != "compile":
            executing = re.search(r"nrt_execute|Inference completed|dlr_infer", root.text)
            return "execute" if executing else "load"
        if category == "host_memory" and root.entry.kind == "runtime":
            return "load"
        if phase == "any":
            return "compile" if any(message.entry.phase == "compile" for message in self.symptoms) else "any"
        return phase

    def _remarks(self, root: Optional[Message]) -> str:
        """What a reader must know beside the cause."""
        said = []
        passed = [message for message in self.successes if message.entry.code in ("pass", "exit_0", "cached")]
        if root is not None and passed and root.entry.phase == "compile":
            count = sum(
                self.scan.counts.get((text or "").encode(), 0) for text in {message.entry.find for message in passed if message.entry.code == "pass"}
            ) or len(passed)
            said.append(
                f"{count} other compilation{'s' if count > 1 else ''} in this log ended well: the verdict is about this graph and shape, not the whole model."
            )
        elif root is not None and passed and root.entry.phase in ("load", "execute"):
            said.append("The compilation before it succeeded.")
        if any(message.entry.code == "stale_failure" for message in self.symptoms):
            said.append("It is an earlier failure taken from the cache; nothing was compiled in this run.")
        if any(message.entry.code == "cpu_fallback" and "falling back" in (message.entry.find or "") for message in self.symptoms):
            said.append("The part that failed falls back to the CPU, so latencies measured afterwards are CPU latencies.")
        if self.support and self.support.known and self.support.known.percent == 100 and root is not None:
            said.append("That 100 % of the operators are known does not mean that the graph compiles.")
        exits = [message for message in self.symptoms if message.entry.kind == "exit" and message.entry.number]
        if exits and root is not None and root.entry.kind != "exit":
            said.append(f"The compiler's exit status is {exits[-1].entry.number}.")
        flags = self.facts.get("flags", "")
        if root is not None and root.entry.category == "dtype" and "fp8" in flags:
            said.append("The flags ask for an 8-bit float: the verdict is about this data type only.")
        return " ".join(said)

    def _failure_without_cause(self) -> Diagnosis:
        """Something failed and the reason is not in the text; the compiler's own sentence is used where there is one."""
        ranked = sorted(self.symptoms, key=lambda message: (_weight(message), message.line))
        shown = ranked[0]
        message = _own_sentence(self.scan.lines) or self._named_exception(shown)
        category = (
            shown.entry.category
            if shown.entry.category in ("compiler_crash", "process_crash", "runtime", "serving", "framework", "timeout", "network", "stale_artifact")
            else "compiler_failed"
        )
        internal = any(entry.entry.code == "internal_error" for entry in self.symptoms)
        phase = shown.entry.phase if shown.entry.phase != "any" else "compile"
        if message:
            category = "compiler_internal" if internal else category
            title, code = ("The compiler failed on its own account", "internal_error") if internal else (shown.entry.title, shown.entry.code)
            said = f'The log says: "{masked(message[1])[:220]}".'
            confidence, why = (
                "likely",
                f"the {'compiler' if phase == 'compile' else 'program'}'s own sentence is in the log, and it is not in the catalogue",
            )
        else:
            title = f"{shown.entry.title}; why is not in this part of the log"
            code = next(
                (entry.entry.code for entry in ranked if entry.entry.kind in ("compiler_legacy", "runtime")),
                "cause_not_in_log" if shown.entry.kind == "signature" else shown.entry.code,
            )
            said = ""
            confidence, why = "sure", "the failure is stated; its reason is not"
        asked = (
            "the part of the log above its first line" if self._is_a_tail() else "the whole log",
            "the compiler's own log: log-neuron-cc.txt in its working folder",
            "the stored artifacts that the log names",
        )
        version = next((self.facts[name] for name in ("neuronx-cc", "neuron-cc") if name in self.facts), None)
        old = f"The compiler is {version}: try the newest one first." if version else ""
        return self._diagnosis(
            outcome="failed",
            phase=phase,
            code=code,
            title=title,
            cause=" ".join(part for part in (said, self._remarks(None), "" if message else old) if part),
            evidence=self._evidence([*([message[0]] if message else []), *_distinct(ranked)[:3], *self._ending()]),
            steps=_joined(
                ("compile with the newest SDK first: this release may be years old",) if version and not message else (),
                shown.entry.steps,
                meaning(category).steps,
            ),
            category=category,
            confidence=confidence,
            why=why,
            missing=() if message else asked,
            informative=() if message else self._informative(),
            source=shown.entry.source or None,
        )

    def _named_exception(self, shown: Message) -> Optional[tuple[Line, str]]:
        """The first exception that is not the wrapper's, where a server or a test only says that something failed."""
        if shown.entry.category not in ("serving", "framework"):
            return None
        wrapped = re.compile(r"See root cause|initialization failed|EngineDead|proc died|CalledProcessError")
        named = (found for found in self.exceptions if not found[1].endswith(("Interrupt", "SystemExit")) and not wrapped.search(found[0].text))
        return next(((line, f"{name.rsplit('.', 1)[-1]}: {text}".rstrip(": ")) for line, name, text in named), None)

    def _is_a_tail(self) -> bool:
        first = next((line for line in self.scan.head.splitlines() if line.strip()), "")
        return bool(re.search(r"\bERROR\b|^\s+File \"|^\s+\^", first))

    def _failed_after_success(self, late: tuple[Line, str, str]) -> Diagnosis:
        line, name, text = late
        return self._diagnosis(
            outcome="failed",
            phase="execute",
            code="exception",
            title=f"The compilation succeeded, and the program ended later with {name}",
            cause=f'The log says: "{masked(text)[:220]}".' if text else "",
            evidence=self._evidence([self.successes[-1], line]),
            steps=("read the traceback from its last line upwards", "the compiled files exist: load them without compiling again"),
            category="framework",
            confidence="likely",
            why="an exception stands after the last success, and it is not in the catalogue",
        )

    def _unlisted_exception(self) -> Diagnosis:
        line, name, text = next(found for found in reversed(self.exceptions) if not found[1].endswith("Interrupt"))
        first = next(found for found in self.exceptions if not found[1].endswith("Interrupt"))
        return self._diagnosis(
            outcome="failed",
            phase="any",
            code="unlisted_error",
            title=f"The program ended with {name}, which is not in the catalogue",
            cause=f'The log says: "{masked(text)[:220]}".' if text else "",
            evidence=self._evidence([first[0], line]),
            steps=meaning("framework").steps,
            category="framework",
            confidence="guess",
            why="an exception ends the log, and nothing in it is in the catalogue",
            missing=_MORE[:2],
            informative=self._informative(),
        )

    # -- support ------------------------------------------------------------------------------

    def _partial(self, found: Support) -> Diagnosis:
        said, names = [], found.left_out_compute
        for share in found.impossible:
            said.append(f"The tool reported an impossible {share.percent:g} %, which is ignored.")
        if found.compiled:
            said.append(
                f"{found.compiled} of the operators are on the device"
                + (f", the CPU does the other {100 - found.compiled.percent:.0f} %." if found.compiled.percent < 99.5 else ".")
            )
        if found.subgraphs:
            said.append(f"{found.subgraphs} of the sub-graphs compiled: this is another share than that of the operators.")
        if found.compiled and found.known:
            said.append(f"{found.known} of them were known to be supported, which is not the same.")
        elif found.known:
            said.append(f"{found.known} of the arithmetic operators are supported.")
        elif found.fused and not found.compiled:
            said.append(f"{found.fused} of the operators would be compiled.")
        if found.left_out:
            count = f"{found.left_out_count} operations of " if found.left_out_count else ""
            kinds = f"{len(found.left_out)} kinds are left out"
            idle = [name for name in found.left_out if name not in names]
            said.append(
                f"{count}{kinds}"
                + (f"; of these {', '.join(names[:8])} compute something" if idle and names else f": {', '.join(found.left_out[:8])}")
                + "."
            )
        decisive = found.on_device
        compiled = found.compiled is not None
        if found.complete:
            return self._diagnosis(
                outcome="success",
                phase="compile" if compiled else "analyze",
                code="operators_supported",
                title="Practically all operators are on the device"
                if compiled
                else "All operators are known to the compiler, which does not yet mean that they compile",
                cause=" ".join(said),
                evidence=self._evidence(found.lines),
                steps=("compile the model: the analysis says nothing about memory, instruction limits or speed",) if not compiled else (),
                finding=Finding(severity=Severity.NOTE, code="operators_supported", because=" ".join(said) or "all operators are supported"),
                confidence="likely",
                why="the share of operators is printed",
            )
        mostly_cpu = decisive is not None and decisive.percent < 50
        title = (
            "Most of the model stays on the CPU, so it cannot move as it is"
            if mostly_cpu
            else "The graph is cut at operators that stay on the CPU; the share of supported operators is not a share of the speed"
        )
        return self._diagnosis(
            outcome="partial",
            phase="compile" if compiled or found.impossible else "analyze",
            code="mostly_cpu" if mostly_cpu else "partial_support",
            title=title,
            cause=" ".join(said),
            evidence=self._evidence(found.lines),
            steps=_joined(_rewrites(names), meaning("partial_support").steps),
            category="partial_support",
            severity=Severity.BLOCKER if mostly_cpu or not compiled else Severity.WARNING,
            confidence="likely" if decisive else "guess",
            why="shares and operators are printed; how fast the cut graph is has to be measured",
        )

    def _analysis(self, found: Analysis) -> Diagnosis:
        self.facts.update(found.versions)
        said = []
        if found.impossible:
            said.append(f"The tool reported an impossible {found.impossible}, which is ignored.")
        if found.percent is not None:
            said.append(f"{found.percent:g} % supported as printed{' (counted on HLO instructions)' if found.training else ''}.")
        kinds = list(dict.fromkeys(entry.get("kind", "?") for entry in found.unsupported))
        if not found.unsupported and (found.percent == 100 or (found.percent is None and not found.cut)):
            calls = sum(found.supported.values())
            said.append(f"{calls} calls of {len(found.supported)} operators were compiled one by one." if found.supported else "")
            said.append("That says nothing about memory, instruction limits or speed.")
            text = " ".join(part for part in said if part)
            return self._diagnosis(
                outcome="success",
                phase="analyze",
                code="analysis_clean",
                title="Every operator that the analysis met is supported",
                cause=text,
                evidence=self._evidence([line for line in self.scan.lines if "support_percentage" in line.text][:1]),
                steps=("compile the whole model: operators are tried one by one in an analysis",),
                finding=Finding(severity=Severity.NOTE, code="analysis_clean", because=text),
                confidence="sure" if not found.cut else "likely",
                why="the analysis says so" if not found.cut else "the analysis is cut off",
            )
        uses = []
        for entry in found.unsupported[:6]:
            place = _place(entry.get("call", ""))
            stage = {"neuronx-cc": "in the compiler", "Lowering to HLO": "when lowered to HLO"}.get(entry.get("failureAt", ""), "")
            uses.append(
                " ".join(part for part in (entry.get("kind", "?"), f"at {masked(place)}" if place else "", f"({stage})" if stage else "") if part)
            )
        count = len(found.unsupported)
        if count:
            said.append(
                f"{count} use{'s' if count > 1 else ''} of {len(kinds)} operator{'s' if len(kinds) > 1 else ''} failed: {'; '.join(uses)}{'; ...' if count > 6 else ''}."
            )
        both = [kind for kind in kinds if kind in found.supported]
        if both:
            said.append(f"{', '.join(both)} is also supported elsewhere in the model, so the data type or shape of this use is the problem.")
        if found.percent == 100 and count:
            said.append("The percentage and the list contradict each other; the list counts.")
        if found.cut:
            said.append("The analysis is cut off: there may be more.")
        text = " ".join(said)
        return self._diagnosis(
            outcome="partial",
            phase="analyze",
            code="unsupported_operator",
            title=f"{kinds[0]} is not supported in one use"
            if count == 1
            else f"{len(kinds)} operators are not supported"
            if kinds
            else "Not everything is supported",
            cause=text,
            evidence=self._evidence([line for line in self.scan.lines if re.search(r"support_percentage|\"kind\"|\"call\"", line.text)]),
            steps=_joined(
                _rewrites(kinds),
                (f"look at {masked(uses[0].split(' at ')[-1].split(' (')[0])} first",) if uses and " at " in uses[0] else (),
                meaning("operator").steps,
            ),
            category="operator",
            confidence="sure" if not found.cut else "likely",
            why="the analysis lists what failed; a failure inside the compiler can also be about a shape or data type",
        )

    def _report(self, found: Report) -> Diagnosis:
        if found.seconds is not None:
            self.facts.update(elapsed_s=f"{found.seconds:g}", elapsed="the report's own total")
        text = f"{found.succeeded} graphs compiled, {found.failed} failed."
        if found.failed:
            return self._diagnosis(
                outcome="failed",
                phase="compile",
                code="graphs_failed",
                title=f"{found.failed} of {found.succeeded + found.failed} graphs did not compile",
                cause=text,
                evidence=self._evidence([line for line in self.scan.lines if re.search(r"Total .*compilations|compilation_summary", line.text)]),
                steps=_joined(("read the log of a graph that failed: its name is in the report",), meaning("compiler_failed").steps),
                category="compiler_failed",
                confidence="sure",
                why="the report counts them",
                missing=("the compiler's log of one graph that failed",),
            )
        return self._success(text)

    # -- success, and nothing -----------------------------------------------------------------

    def _success(self, said: str = "") -> Diagnosis:
        ending = self.successes[-1:] if self.successes else []
        ran = [message for message in self.successes if message.entry.phase in ("serve", "execute")]
        strong = any(message.entry.code in ("pass", "exit_0", "built", "served", "trained", "tests_passed") for message in self.successes)
        phase = ran[-1].entry.phase if ran else "compile" if strong else ending[-1].entry.phase if ending else "compile"
        seconds = self.facts.get("elapsed_s")
        if self.support is not None and self.support.on_device is not None:
            said = " ".join(
                part
                for part in (said, f"{self.support.on_device} of the operators are {'on the device' if self.support.compiled else 'supported'}.")
                if part
            )
        took = f"It took {_seconds(float(seconds))} ({self.facts['elapsed']})." if seconds else ""
        words = [line for line in self.errors if not any(line.number == message.line for message in self.harmless)]
        extra = [Mention(code="error_word", title="An error word in a run that ended well", line=words[0].number, count=len(words))] if words else []
        late = [line for line in words if line.number > self.last_success]
        title = ran[-1].entry.title if ran else "The model was loaded" if phase == "load" else "The model was compiled"
        code, step = _OF_SUCCESS[phase]
        if ran and ran[-1].entry.code == "tests_passed":
            code = "tests_passed"
        return self._diagnosis(
            outcome="success",
            phase=phase,
            code=code,
            title=title,
            cause=" ".join(part for part in (said, took) if part),
            evidence=self._evidence([*(_distinct(self.successes)[:1] if len(self.successes) > 1 else []), *ending]),
            steps=(step,),
            finding=Finding(
                severity=Severity.NOTE,
                code="run_succeeded"
                if phase == "execute"
                else "serve_succeeded"
                if phase == "serve"
                else "load_succeeded"
                if phase == "load"
                else "compile_succeeded",
                because=" ".join(part for part in (title + ".", said, took) if part),
            ),
            confidence="sure" if strong and not late else "likely",
            why=("the log shows results" if ran else "the log states the end of the compilation")
            if strong and not late
            else "an error line stands after the last success"
            if late
            else "the log states a success",
            extra_harmless=extra,
        )

    def _no_verdict(self) -> Diagnosis:
        closing = [message for message in self.harmless if message.entry.code == "closing_state"]
        if closing and not [line for line in self.errors if all(line.number != message.line for message in closing)]:
            text = "The only error line is written when a process that has finished closes the runtime."
            return self._diagnosis(
                outcome="success",
                phase="execute",
                code="harmless_shutdown",
                title="Harmless: the error at the end belongs to closing the runtime, not to the work before it",
                cause=text,
                evidence=self._evidence(closing[:2]),
                steps=("keep the results that were written before this line",),
                finding=Finding(severity=Severity.NOTE, code="harmless_shutdown", because=text),
                confidence="likely",
                why="the message is known to follow results; the results themselves are not in this log",
                missing=("the part of the log before this line, to see the results",),
            )
        if self.exceptions and self._only_interrupted():
            return self._unknown(
                "interrupted", "The run was interrupted by its user before it ended", missing=("the log of a run that was left to end",)
            )
        mere = self.harmless and not self.errors
        span = self.facts.get("elapsed_at_least_s")
        title = (
            "Nothing here says that something failed or succeeded; what looks like an error is harmless"
            if mere
            else "This is a Neuron log without a verdict: no exit status, no result and no error that explains one"
        )
        return self._unknown("no_verdict", title, missing=_MORE, cause=f"It covers at least {_seconds(float(span))}." if span else "")

    def _unknown(self, code: str, title: str, missing: Sequence[str], cause: str = "") -> Diagnosis:
        return self._diagnosis(
            outcome="unknown",
            phase="any",
            code=code,
            title=title,
            cause=cause,
            evidence=(),
            steps=(f"add {missing[0]}",) if missing else (),
            finding=Finding(
                severity=Severity.WAITING,
                code="log_without_verdict" if self.about_neuron else "log_not_recognised",
                because=f"{title}.",
                next=f"add {missing[0]} and type: neuronfit diagnose LOG" if missing else None,
            ),
            confidence="sure" if code in ("empty", "reference_table") else "likely",
            why="no line states how it ended",
            missing=tuple(missing),
            informative=self._informative(),
        )

    # -- building -----------------------------------------------------------------------------

    def _diagnosis(
        self,
        *,
        category: str = "",
        finding: Optional[Finding] = None,
        severity: Optional[Severity] = None,
        why: str = "",
        confidence: Any = "likely",
        extra_harmless: Iterable[Mention] = (),
        **said: Any,
    ) -> Diagnosis:
        if isinstance(confidence, tuple):
            confidence, why = confidence
        if finding is None:
            meant = meaning(category)
            because = " ".join(part for part in (said["title"].rstrip(".") + ".", said.get("cause", "")) if part)
            told = {"severity": severity or meant.finding.severity, "because": because, "next": said["steps"][0] if said["steps"] else None}
            finding = meant.finding.model_copy(update=told)
        return Diagnosis(
            finding=finding,
            confidence=confidence,
            why=why,
            harmless=(*self._mentions(self.harmless), *extra_harmless),
            facts=self.facts,
            lines=self.scan.line_count,
            bytes=self.scan.size,
            **said,
        )

    def _mentions(self, messages: Iterable[Message]) -> list[Mention]:
        found: dict[str, list[Message]] = {}
        for message in messages:
            found.setdefault(message.entry.code, []).append(message)
        return [
            Mention(
                code=code,
                title=group[0].entry.title,
                line=group[0].line,
                count=max(
                    len({message.line for message in group}), *(self.scan.counts.get((message.entry.find or "").encode(), 0) for message in group)
                ),
            )
            for code, group in found.items()
        ]

    def _others(self, ranked: Sequence[Message], category: str) -> tuple[Mention, ...]:
        roots = [message for message in ranked if message.entry.category != category]
        weak = sorted(
            (message for message in self.symptoms if message.entry.kind == "signature"), key=lambda message: (_weight(message), message.line)
        )
        return tuple(self._mentions([*roots, *weak]))[:16]

    def _ending(self) -> list[Message]:
        ends = [message for message in (*self.symptoms, *self.roots) if message.entry.kind == "exit"]
        return ends[-1:]

    def _fallbacks(self) -> list[Message]:
        return [message for message in self.symptoms if message.entry.code == "cpu_fallback"][:1]

    def _details(self, category: str) -> list[Line]:
        pattern = {
            "device_memory": r"^\s*\* (?:total|tensors|dma rings|shared scratchpad):",
            "core_count": r"tp_degree|num_cores",
            "dtype": r"dtype_check",
        }.get(category)
        return [line for line in self.scan.lines if pattern and re.search(pattern, line.text)][:4]

    def _evidence(self, parts: Iterable[Any]) -> tuple[Evidence, ...]:
        shown: dict[int, str] = {}
        for part in parts:
            number, text = (part.line, part.text) if isinstance(part, Message) else (part.number, part.text)
            shown.setdefault(number, _short(text))
        return tuple(Evidence(line=number, text=text) for number, text in sorted(list(shown.items())[:8]))

    def _informative(self, most: int = 6) -> tuple[Evidence, ...]:
        """The lines that say most: exceptions, errors, warnings, then the last ones; each kind of line once."""
        number_of_last = self.scan.line_count
        last = [line for line in self.scan.tail.splitlines() if line.strip()]
        ends = [Line(max(1, number_of_last - back), text, ()) for back, text in enumerate(reversed(last[-3:]))]
        warned = [line for line in self.scan.lines if re.search(r"\bWARN", line.text)]
        chosen: dict[str, Line] = {}
        for line in (*(found[0] for found in reversed(self.exceptions)), *self.errors[:20], *warned[:6], *ends):
            if not re.search(r"(?:^|\]:)[\s*=-]*$", line.text):
                chosen.setdefault(re.sub(r"[\d\W]+", "", line.text)[:60], line)
        return tuple(
            Evidence(line=line.number, text=_short(line.text)) for line in sorted(list(chosen.values())[:most], key=lambda line: line.number)
        )


# -- ranking ----------------------------------------------------------------------------------


def _distance(message: Message) -> int:
    """How far a message is from the root: 0 names the reason, 5 only that something died."""
    entry = message.entry
    if entry.category in ("process_crash", "compiler_crash", "compiler_worker"):
        return 5 if entry.category == "process_crash" else 4
    if entry.category in ("compiler_internal", "runtime", "compiler_failed", "timeout"):
        return 3  # the other ranks time out where one has failed
    if entry.category == "hardware":
        return 1
    if entry.kind in ("runtime", "exit") or entry.code in ("module_missing", "library_missing", "library_mismatch", "loss_not_a_number"):
        return 2
    if entry.kind == "signature":
        return 1
    return 0 if entry.category != "host_memory" else 2


def _weight(message: Message) -> int:
    """Among symptoms, the one that says most first."""
    order = (
        "crash",
        "process_crash",
        "internal_error",
        "stale_failure",
        "engine_failed",
        "compile_failed",
        "load_failed",
        "execution_failed",
        "init_failed",
    )
    code = message.entry.code
    if message.entry.category == "compiler_crash":
        return 0
    return order.index(code) if code in order else len(order) + (message.entry.kind == "signature")


def _named(root: Message, kin: Sequence[Message], symptoms: Sequence[Message]) -> str:
    """The vendor's own code or status where one of the same kind is in the log."""
    for kind in ("compiler", "compiler_legacy", "runtime", "exit"):
        if root.entry.kind == kind:
            return root.entry.code
        named = next(
            (message.entry.code for message in (*kin, *symptoms) if message.entry.kind == kind and message.entry.category == root.entry.category),
            None,
        )
        if named:
            return named
    return root.entry.code


def _settled(message: Message, scan: Scan) -> Message:
    """The same message, with the category that the rest of the log gives it."""
    entry = message.entry
    if entry.category == "operator":
        names = operators(message.text)
        if len(training_operators(names)) >= 2 and len(training_operators(names)) * 2 >= len(names):
            return Message(
                replace(entry, code="training_graph", category="training_graph", title="The exported model still holds its training graph"),
                message.line,
                message.text,
            )
        if any("set-dimension-size" in name for name in names):
            return Message(
                replace(
                    entry,
                    code="dynamic_shape",
                    category="dynamic_shape",
                    title="A size depends on the data, and the compiler needs every size at compile time",
                ),
                message.line,
                message.text,
            )
    if entry.code == "NRT_INVALID":
        if degree(scan.lines) or "collectives" in message.text or "VNC id" in " ".join(line.text for line in scan.lines):
            return Message(replace(entry, title="The number of NeuronCores that was asked for does not fit the machine"), message.line, message.text)
        return Message(replace(entry, category="bad_input"), message.line, message.text)
    if entry.code == "instruction_type" and b"dtype_check" not in scan.counts and "dtype" not in message.text:
        return Message(
            replace(entry, category="compiler_internal", title="The compiler generated an instruction that the hardware does not have"),
            message.line,
            message.text,
        )
    return message


def _confidence(root: Message, kin: Sequence[Message]) -> tuple[str, str]:
    if root.entry.kind in ("compiler", "compiler_legacy") and root.entry.source:
        return "sure", f"the log carries the code {root.entry.code}"
    if root.entry.kind in ("compiler", "compiler_legacy"):
        return "guess", f"the log carries the code {root.entry.code}, which is not in the catalogue"
    coded = next((message for message in kin if message.entry.kind == "runtime"), None)
    if coded:
        return "sure", f"the log carries the runtime status {coded.entry.number} ({coded.entry.code})"
    if root.entry.category in ("compiler_worker", "process_crash", "compiler_crash") or root.entry.code in ("module_missing", "library_missing"):
        return "guess", "the message says that a process ended, not why"
    if root.entry.code == "killed":
        return "likely", "a process was killed, and a full host is nearly always the reason"
    if root.entry.kind == "exit":
        return "likely", f"the exit status {root.entry.number} is that of a killed process"
    return "likely" if root.entry.category in ("dtype", "compiler_internal") else "sure", "the message is known and explains the failure"


def _own_sentence(lines: Iterable[Line]) -> Optional[tuple[Line, str]]:
    """What the compiler itself gives as the reason inside its box of stars."""
    for line in lines:
        if match := re.search(r"Error message:\s*(\S.*)", line.text):
            return line, match[1].strip()
    for line in lines:
        match = re.search(r"\bUSER \d+ \[[\w.]*CommandDriver\]: (\S.*)", line.text)
        if match and not re.search(r"Diagnostic|version|Running |^\s|Python|Artifacts|not available", match[1]) and not match[1].startswith(" "):
            return line, match[1].strip()
    return None


# -- words ------------------------------------------------------------------------------------


def _distinct(messages: Sequence[Message]) -> list[Message]:
    """The first message of each shape of line: numbers, times and threads ignored."""
    seen: dict[tuple[str, str], Message] = {}
    for message in messages:
        seen.setdefault((message.entry.code, re.sub(r"\d+", "0", message.text)[-120:]), message)
    return list(seen.values())


def _joined(*groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step for group in groups for step in group))[:6]


def _rewrites(names: Iterable[str]) -> tuple[str, ...]:
    said = []
    bare = {re.sub(r"^\w+(::|\.)", "", name).strip("_") for name in names}
    if bare & {"nonzero", "masked_select", "index", "unique", "where"}:
        said.append("replace nonzero and boolean indexing by a mask of fixed size with torch.where")
    if any(name.startswith(("fft", "stft", "view_as_complex", "complex")) for name in bare):
        said.append("compute with separate real and imaginary parts, or keep the transform on the CPU before the model")
    return tuple(said)


def _place(call: str) -> str:
    """File and line of the model's own code in a printed call stack: ``m.py(6): forward`` -> ``m.py line 6``."""
    frames = [frame.strip() for frame in re.split(r"\n|\\n", call) if frame.strip()]
    own = [frame for frame in frames if not re.search(r"site-packages|/torch/|lib/python", frame)] or frames
    if not own:
        return ""
    match = re.search(r'(?:File ")?([^\s"(]+\.\w+)(?:\(|", line |\s+|:)(\d+)', own[0])
    return f"{match[1]} line {match[2]}" if match else own[0][:80]


def _short(text: str) -> str:
    text = masked(" ".join(text.split()))
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."


def _seconds(value: float) -> str:
    shown = f"{value:,.1f}".removesuffix(".0")
    return f"{shown} s" if value < 120 else f"{shown} s ({value / 60:.1f} min)"
