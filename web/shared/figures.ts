/**
 * The figures of statistics, in the order of tables.
 * Written by `write_figures.py`: change `meantime/model/durations.py`.
 */

export const FIGURES = [
  { key: "total_ns", title: "total", form: "time", sentence: "the time in the range, added up", percent: null, isInTables: true, ifAny: false },
  { key: "self_ns", title: "self", form: "time", sentence: "the part of it in no span directly inside", percent: null, isInTables: true, ifAny: false },
  { key: "own_ns", title: "own", form: "time", sentence: "the part of it in no call of the span, anywhere", percent: null, isInTables: true, ifAny: false },
  { key: "share", title: "share", form: "share", sentence: "the part of the time that the row could have", percent: null, isInTables: true, ifAny: false },
  { key: "spans", title: "spans", form: "count", sentence: "how many spans were open in the range", percent: null, isInTables: true, ifAny: false },
  { key: "count", title: "count", form: "count", sentence: "how many durations", percent: null, isInTables: true, ifAny: false },
  { key: "unfinished", title: "unfinished", form: "count", sentence: "how many of them have no end in the trace: they count up to where their thread ends", percent: null, isInTables: true, ifAny: true },
  { key: "unfinished_ns", title: "at least", form: "time", sentence: "the part of the total that is of unfinished ones, each of which took at least that", percent: null, isInTables: true, ifAny: true },
  { key: "failed", title: "failed", form: "count", sentence: "how many of them failed", percent: null, isInTables: true, ifAny: false },
  { key: "mean_ns", title: "mean", form: "time", sentence: "the sum of the durations over their number", percent: null, isInTables: true, ifAny: false },
  { key: "median_ns", title: "median", form: "time", sentence: "the ceil(0.5 n)-th shortest duration", percent: 50, isInTables: true, ifAny: false },
  { key: "p90_ns", title: "p90", form: "time", sentence: "the ceil(0.9 n)-th shortest duration", percent: 90, isInTables: true, ifAny: false },
  { key: "p99_ns", title: "p99", form: "time", sentence: "the ceil(0.99 n)-th shortest duration", percent: 99, isInTables: true, ifAny: false },
  { key: "min_ns", title: "shortest", form: "time", sentence: "the shortest duration", percent: null, isInTables: false, ifAny: false },
  { key: "max_ns", title: "longest", form: "time", sentence: "the longest duration", percent: null, isInTables: true, ifAny: false },
] as const;
