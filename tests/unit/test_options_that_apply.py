"""Each option with each kind of input that it says nothing about: refused, never ignored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from meantime.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SPAN = {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 5, "name": "f"}
SWITCH = (
    "sched:sched_switch: prev_comm=x prev_pid=1 prev_prio=120 prev_state=S ==>"
    " next_comm=y next_pid=2 next_prio=120"
)
INPUTS = {
    "states": "start_ns,end_ns,path,value\n0,5,a,on\n5,9,a,off\n",
    "spans": json.dumps([SPAN, SPAN | {"ts": 2, "dur": 1, "name": "g"}]),
    "samples": "a 1 [000] 1.000000: cycles: \n\t1 f (x)\n\nb 2 [000] 1.500000: cycles: \n",
    "events": '{"time_ns": 1, "name": "e"}\n{"time_ns": 5, "name": "e"}\n',
    "switches": f"x 1 [000] 1.000000: {SWITCH}\ny 2 [000] 2.000000: {SWITCH}\n",
}

# command with FILE for the input, kinds of input it is refused for, exit status, sentence
CASES = [
    ("stats FILE --whole --by state", "states spans samples", 2, "--whole applies to spans; "),
    ("stats FILE --whole --by entity", "states", 2, "--whole applies to spans; "),
    ("stats FILE --whole", "states", 2, "--whole applies to spans; "),
    ("stats FILE --whole", "samples", 2, "--whole applies to spans of threads; "),
    ("stats FILE --sketch --by category", "samples", 2, "--by category applies to spans"),
    ("stats FILE --sketch", "samples", 2, "--sketch applies to spans of threads; "),
    ("stats FILE --sketch --tree", "spans", 2, "--sketch does not apply to --tree"),
    ("stats FILE --against 0..3", "events", 1, "no states, spans or samples for --against"),
    ("stats FILE --by name --against 0..3", "states", 1, "no spans and no samples for --against"),
    ("stats FILE --by category --against 0..3", "spans", 2, "leave out --by category"),
    ("stats FILE --by state --against 0..3 --whole", "states", 2, "--whole applies to spans; "),
    ("stats FILE --tree", "states", 1, "no spans and no samples for --tree"),
    ("stats FILE --callers f", "states", 1, "no spans and no samples for --callers"),
    ("stats FILE --callees f", "states", 1, "no spans and no samples for --callees"),
    ("stats FILE --longest f", "states", 1, "no spans and no samples for --longest"),
    ("stats FILE --histogram f", "states", 1, "no spans and no samples for --histogram"),
    ("stats FILE --longest f", "samples", 2, "--longest applies to spans of threads; "),
    ("stats FILE --histogram f", "samples", 2, "--histogram applies to spans of threads; "),
    ("stats FILE --by category", "samples", 2, "--by category applies to spans of threads; "),
    ("stats FILE --by thread", "samples", 2, "--by thread applies to spans of threads; "),
    ("stats FILE --by state --tree", "spans", 2, "leave out --by state"),
    ("stats FILE --by state --filter none", "states spans", 1, "'none' matches no entity"),
    ("stats FILE --filter none", "spans samples", 1, "'none' matches no thread"),
    ("stats FILE --filter [", "states spans samples", 2, "is not a regular expression"),
    ("dump FILE --from 1", "states", 2, "--from does not apply to --kind changes"),
    ("dump FILE --kind events --to 1", "events", 2, "--to does not apply to --kind events"),
    ("dump FILE --kind tags --to 1", "states", 2, "--to does not apply to --kind tags"),
    ("dump FILE --filter a", "states", 2, "-f does not apply to --kind changes"),
    ("dump FILE --kind events --filter a", "events", 2, "-f does not apply to --kind events"),
    ("dump FILE --kind tags --filter a", "states", 2, "-f does not apply to --kind tags"),
    ("dump FILE --kind intervals --filter none", "states", 1, "'none' matches no entity and no"),
    ("dump FILE --kind spans --filter none", "spans", 1, "'none' matches no entity and no"),
    ("dump FILE --kind samples --filter [", "samples", 2, "is not a regular expression"),
    ("heatmap FILE -o OUT.svg --filter none", "states spans samples", 1, "'none' matches no row"),
    ("heatmap FILE -o OUT.svg --filter [", "states spans samples", 2, "not a regular expression"),
    ("flame FILE -o OUT.svg", "states events", 1, "there are no spans and no samples"),
    ("flame FILE -o OUT.svg --label-arg x", "spans", 2, "label_arg applies to charts"),
    ("flame FILE -o OUT.svg --chart --whole", "spans", 2, "whole does not apply to a chart"),
    ("flame FILE -o OUT.svg --chart --event e", "spans", 2, "event does not apply to a chart"),
    (
        "flame FILE -o OUT.svg --chart --band 0s..1ms",
        "spans",
        2,
        "band does not apply",
    ),
    ("flame FILE -o OUT.svg --period 2s", "spans samples", 2, "period is the period of band"),
    ("flame FILE -o OUT.svg --whole", "samples", 1, "there are no spans, only samples"),
    (
        "flame FILE -o OUT.svg --whole --event cycles",
        "samples",
        2,
        "whole applies to spans, event",
    ),
    ("flame FILE -o OUT.svg --event e", "spans", 1, "no samples match these options"),
    ("flame FILE -o OUT.svg --band 0s..1ms", "spans", 1, "no samples match these options"),
    ("flame FILE -o OUT.svg --elided", "spans", 2, "elided needs against"),
    ("heatmap FILE -o OUT.svg --event e", "states", 1, "no samples and no spans for --event"),
    ("heatmap FILE -o OUT.svg --event f --state on", "spans", 2, "state applies to states"),
    (
        "heatmap FILE -o OUT.svg --weight",
        "states spans",
        2,
        "have no weight; choose one of: ns, count",
    ),
    (
        "heatmap FILE -o OUT.svg --value ns",
        "samples",
        2,
        "samples have no ns; choose one of: count, weight",
    ),
    ("heatmap FILE -o OUT.svg --value starts", "samples", 2, "samples have no starts"),
    ("heatmap FILE -o OUT.svg --by state", "samples spans", 2, "by 'state'; choose one of"),
    ("heatmap FILE -o OUT.svg --by event", "states spans", 2, "by 'event'; choose one of"),
    ("heatmap FILE -o OUT.svg --state running", "samples", 1, "nothing is ever in a state"),
    ("query FILE at 1 --bins 3", "states", 2, "--bins does not apply to at: shares"),
    ("query FILE tree --from 1", "states", 2, "--from does not apply to tree: intervals"),
    ("query FILE state a 1 --to 3", "states", 2, "--to does not apply to state: intervals"),
    ("query FILE shares a --resolution 3", "states", 2, "--resolution does not apply to shares"),
    ("query FILE intervals a --bins 3", "states", 2, "--bins does not apply to intervals: shares"),
    ("statemap FILE -o OUT.svg --filter none", "states spans", 1, "the filter 'none' matches"),
    ("statemap FILE -n --filter none", "states spans", 1, "the filter 'none' matches"),
    ("statemap FILE -o OUT.svg", "samples events", 1, "there are no states to draw"),
]
# Checked before anything is read, so any input does.
ANY = "states"
CASES += [
    ("heatmap FILE -o OUT.json --color rank", ANY, 2, "--color does not apply to .json"),
    ("heatmap FILE -o OUT.json --palette even", ANY, 2, "--palette does not apply to .json"),
    ("heatmap FILE -o OUT.json --hues 1", ANY, 2, "--hues does not apply to .json"),
    ("heatmap FILE --hues 1", ANY, 2, "--hues applies to --palette cloud-analytics"),
    ("heatmap FILE -o OUT.json --scale lock", ANY, 2, "--scale does not apply to .json"),
    ("heatmap FILE -o OUT.json --title x", ANY, 2, "--title does not apply to .json"),
    ("heatmap FILE --find --idle", ANY, 2, "--idle does not apply to --find without -o"),
    ("stats FILE --idle", "states", 2, "--idle does not apply to states"),
    ("flame FILE -o OUT.svg --idle", "spans", 2, "idle applies to samples, and these are spans"),
    ("flame FILE -o OUT.svg --chart --idle", "samples", 2, "idle does not apply to a chart"),
    ("heatmap FILE -o OUT.json --highlight x", ANY, 2, "--highlight does not apply to .json"),
    ("heatmap FILE -o OUT.json --decompose", ANY, 2, "--decompose does not apply to .json"),
    ("heatmap FILE --to-format json --title x", ANY, 2, "--title does not apply to .json"),
    ("heatmap FILE --title x", ANY, 2, "--title does not apply to the terminal"),
    ("heatmap FILE --scale 3", ANY, 2, "--scale does not apply to the terminal"),
    ("heatmap FILE --find --isolate x", ANY, 2, "--isolate does not apply to --find without -o"),
    ("heatmap FILE --find --to-format svg", ANY, 2, "--to-format does not apply to --find"),
    ("heatmap FILE -o OUT.svg --assume-aligned", ANY, 2, "does not apply to a single input"),
    ("heatmap FILE -o OUT.svg -j 2", ANY, 2, "-j does not apply to a single input"),
    ("heatmap FILE -o OUT.svg --value concurrency", ANY, 2, "--value concurrency applies to .json"),
    (
        "heatmap FILE -o OUT.svg --color rank --scale 3",
        ANY,
        2,
        "--color and a number for --scale are mutually exclusive",
    ),
    (
        "heatmap FILE -o OUT.svg --offset FILE=1s --offset FILE=2s",
        ANY,
        2,
        "given more than once",
    ),
    ("statemap FILE -n -o OUT.svg", ANY, 2, "-o does not apply to --dry-run"),
    ("statemap FILE -o OUT.json -h 3", ANY, 2, "-H does not apply to .json"),
    ("query FILE tree --json --csv", ANY, 2, "--json and --csv are mutually exclusive"),
    ("query MISSING tree --json --csv", ANY, 2, "--json and --csv are mutually exclusive"),
    ("sql MISSING select --json --csv", ANY, 2, "--json and --csv are mutually exclusive"),
    ("statemap FILE --lenient --strict", ANY, 2, "--lenient and --strict are mutually exclusive"),
    ("heatmap FILE --lenient --strict", ANY, 2, "--lenient and --strict are mutually exclusive"),
    *(
        (f"{command} --lenient --strict", ANY, 2, "--lenient and --strict are mutually exclusive")
        for command in (
            "info FILE",
            "findings FILE",
            "stats FILE",
            "query FILE tree",
            "dump FILE",
            "dump FILE --kind intervals",
            "build FILE -o OUT.mth",
            "convert FILE OUT.statemap",
            "flame FILE -o OUT.svg",
        )
    ),
    ("heatmap FILE --json", ANY, 2, "--json applies to --find"),
    ("check MISSING --force", ANY, 2, "--force does not apply to a check without --salvage"),
    ("convert FILE OUT.spall --force", ANY, 2, "--force applies to a history"),
    ("query FILE tree --arrow OUT --limit 3", ANY, 2, "-n does not apply to --arrow"),
    ("record --force true", ANY, 2, "--force does not apply to a recording without -o"),
    ("top MISSING --once --every 2s", ANY, 2, "--every does not apply to --once"),
    ("flame FILE -o OUT.txt --title x", ANY, 2, "--title does not apply to .txt"),
    ("flame FILE -o OUT.folded --title x", ANY, 2, "--title does not apply to .folded"),
    ("flame FILE --json --chart", ANY, 2, "--json prints the call tree"),
    ("flame FILE", ANY, 2, "name the output file with -o"),
    ("statemap FILE -o OUT.json --title x", ANY, 2, "--title does not apply to .json"),
    ("statemap FILE -n --title x", ANY, 2, "--title does not apply to --dry-run"),
    ("stats FILE --tree --callers f", ANY, 2, "--callers and --tree are mutually exclusive"),
    ("convert FILE FILE --to-format folded", ANY, 2, "IN and OUT are the same file"),
    ("convert FILE OUT.spall --only tasks", ANY, 2, "--only applies to an output that ends in"),
]


@pytest.mark.parametrize(
    ("command", "kind", "refusal"),
    [
        (command, kind, (status, sentence))
        for command, kinds, status, sentence in CASES
        for kind in kinds.split()
    ],
)
def test_an_option_that_does_not_apply_is_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    kind: str,
    refusal: tuple[int, str],
) -> None:
    status, sentence = refusal
    path = tmp_path / "input"
    path.write_text(INPUTS[kind])
    words = [
        word.replace("FILE", str(path)).replace("OUT", str(tmp_path / "out"))
        for word in command.split()
    ]

    with pytest.raises(SystemExit) as stopped:
        main(words)

    out, err = capsys.readouterr()
    assert (stopped.value.code, out) == (status, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["input"]
