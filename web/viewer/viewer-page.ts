/** The page: bands around the lanes, and what hands and keys do. */

import { withoutAddresses } from "../shared/addresses";
import { button, h, setText, shown } from "../shared/dom";
import { HOUR, UNIT_NS, type Zone, browserZone, duration, exact, grouped, instant } from "../shared/format";
import { listen as listenToHands } from "../shared/gestures";
import { parsed, plain } from "../shared/heat-model";
import { icon } from "../shared/icon";
import type { Key } from "../shared/keys";
import { listen as listenToKeys, openByKeys } from "../shared/keys";
import type { Lane } from "../shared/lane-tree";
import { Minimap } from "../shared/minimap";
import { Help, Theme } from "../shared/page";
import { addGutterGrip } from "../shared/panel-grip";
import { SearchField } from "../shared/search-field";
import { StatusBar } from "../shared/statusbar";
import { TimeAxis } from "../shared/time-axis";
import { Tooltip } from "../shared/tooltip";
import { readAddress, stepBack } from "../shared/url-state";
import { recall, remember } from "./address";
import type { Recalled } from "./address";
import { Answers } from "./answers";
import type { By } from "./answers";
import { tip, withTimes } from "./facts";
import { DifferenceLane } from "./differences";
import { FileLane, PackedLane, SpanLane, TileLane } from "./lanes";
import { input, quoted } from "./command";
import type { FileModel } from "./model";
import { Palette } from "./palette";
import type { Offer } from "./palette";
import { Picture } from "./picture";
import { savePicture } from "./picture-file";
import type { Activity, At, EntityItem, Hit, Placed, SessionInfo, SpanItem, StateItem } from "./protocol";
import { Search } from "./search";
import type { FoundHit } from "./search";
import type { Order, Range, Thing } from "./session";
import { Session } from "./session";
import type { Source } from "./source";
import { SourceError } from "./source";
import { Tour } from "./tour";

const REST_MS = 140;
const HOVER_MS = 35;
const POLL_MS = 500;
/** How often the server is asked whether something has happened to files that are read. */
const LOOK_MS = 5000;
const SEARCH_MS = 200;
const MESSAGE_MS = 3000;
const EDGE_PX = 5;

/** There the gutter of the axis has no room. */
const NARROW = matchMedia("(max-width: 720px)");

/** So many states can be sorted by. */
const MOST_STATES = 16;

const TABS = ["over", "stats", "flame", "heat", "hits"];
/** What may be a time in one of the forms that `--from` takes: a number with a unit, a date, seconds of 1970, or a time of the clock. */
const LIKE_TIME = /^([-+]?[\d.]+\s*[a-zµ]|\d{4}-\d\d-\d\d|@\d|abs:)/i;
/** So many lanes are offered to be pinned or hidden. */
const MOST_NAMED = 8;
/** Commands are offered for a text without the sign of commands if it has so many letters. */
const FEWEST_LETTERS = 3;
const DENSITIES = { compact: 0.7, normal: 1, roomy: 1.4 } as const;
/** Of more lanes, all stay where the trace has them. */
const MOST_SORTED = 50_000;
const ORDERS: Order[] = ["main", "trace", "name", "first", "busy"];
const ORDER_NAMES: Partial<Record<Order, string>> = { main: "by importance: main threads, then by work", trace: "as in the trace", name: "by name", first: "by first activity", busy: "by time in spans or states" };
type Density = keyof typeof DENSITIES;

type Clock = "start" | "trace" | "utc" | "local" | "zone";

export class ViewerPage {
  private readonly session: Session;
  private readonly picture: Picture;
  private readonly answers: Answers;
  private readonly tooltip: Tooltip;
  private readonly axis = new TimeAxis(0n);
  private readonly minimap: Minimap;
  private readonly field: SearchField;
  private readonly search: Search;
  private readonly palette: Palette;
  private readonly keyTable: Key[];
  private readonly theme: Theme;
  private readonly help: Help;
  private readonly tour: Tour | null;
  private readonly status = new StatusBar();
  private readonly files = h("div", { class: "files" });
  private readonly notice = h("div", { class: "notice", attributes: { role: "status" } });
  private readonly main = h("main", { attributes: { "aria-busy": "true" } });
  private readonly full = h("div", { class: "full" });
  /** What is shown where the filter leaves no lane. */
  private readonly none = h("div", { class: "none nothing", attributes: { role: "status" } });
  private readonly spoken = h("div", { class: "spoken", attributes: { "aria-live": "polite" } });
  private readonly lengthInView = h("output", { class: "place" });
  private readonly message = h("span", { class: "message" });
  private readonly sameAs = h("span", { class: "gutter" });
  private readonly clock = h(
    "select",
    { class: "clock", attributes: { "aria-label": "Time shown as" }, on: { change: () => this.setClock(this.clock.value as Clock) } },
    ...([["start", "trace"], ["trace", "its clock"], ["utc", "UTC"], ["local", "local"]] as const).map(([value, text]) => h("option", { attributes: { value } }, text)),
  );
  private isClockChosen = false;
  /** The browser's zone in what was seen. */
  private local: Zone | null = null;
  private readonly filter = h("input", {
    class: "filter",
    attributes: { type: "search", placeholder: "Filter", "aria-label": "Filter lanes" },
    on: { input: () => this.filterLanes() },
  });
  private readonly hidden = button("", "Show the hidden lanes (U)", () => this.session.tree.showHidden(), { class: "small" });
  private readonly saving = h(
    "select",
    { class: "saving", title: "Save what is seen (E)", attributes: { "aria-label": "Save" }, on: { change: () => this.save(this.saving.value) } },
    ...[["", "Save"], ["svg", "Picture as SVG"], ["png", "Picture as PNG"], ["csv", "Statistics as CSV"]].map(([value, text]) => h("option", { attributes: { value: value! } }, text)),
  );
  private order: Order = "main";
  /** The layouts whose lanes are sorted. */
  private sorted = "";
  /** Whether the page has chosen what is in view at first. */
  private isFitted = false;
  /** Whether the address says which tab is open. */
  private isTabChosen = false;
  private density: Density = "normal";
  private readonly laneMenu = h("select", { class: "lane-menu", title: "Sort, heights and groups of the lanes (O, G)", attributes: { "aria-label": "Lanes: sort, heights, groups" }, on: { change: () => this.chooseLanes(this.laneMenu.value) } });
  private pending = 0;
  private resting = 0;
  private hovering = 0;
  private searching = 0;
  /** Looks for what was typed, as long as that has not begun. */
  private unsearched: (() => Promise<void>) | null = null;
  private isStep = false;
  private pointer: { x: number; y: number } | null = null;
  private hoverRequest: AbortController | null = null;
  private selectRequest: AbortController | null = null;
  /** What is looked for in order to be selected: the last one counts. */
  private wantRequest: AbortController | null = null;
  private isStepping = false;
  private silence = 0;
  private dismissed = new Set<string>();
  private typed = "";
  /** The command that opens files that were dropped on the page. */
  private drop = "";
  /** The files that a server shows that was started in place of the one before, if they are others. */
  private other = "";
  /** Whether lanes are being read. */
  private isReading = true;
  /** Whether the page shows what its address says. */
  private isRestored = false;

  constructor(
    private readonly body: HTMLElement,
    private readonly source: Source,
    info: SessionInfo,
    /** Called once what is in view is drawn, and whenever that is so again. */
    private readonly drawn: () => void,
  ) {
    const redraw = () => this.redraw();
    this.theme = new Theme(() => this.recolor());
    this.tooltip = new Tooltip(body);
    this.session = new Session(source, info, redraw, () => this.selected());
    this.search = new Search(this.session);
    this.minimap = new Minimap((middle) => this.moveTo(middle), redraw);
    this.picture = new Picture(this.session, this.axis, this.minimap);
    this.answers = new Answers(
      this.session,
      this.search,
      this.tooltip,
      {
        light: (name) => this.lightName(name),
        goTo: (file, finding) => this.goTo(file, finding),
        longest: (name) => void this.goToLongest(name),
        showLane: (lane) => this.showLane(lane),
        examined: () => void this.askAgain(),
        select: (file, hit) => this.goToHit(file, hit),
        goToEnd: (file, lane, row, ns) => void this.goToEnd(file, lane, row, ns),
        fit: (file, hit) => this.fitHit(file, hit),
        searchAgain: () => void this.searchAgain(),
        say: (text) => this.say(text),
      },
      redraw,
    );
    this.field = new SearchField(
      {
        searched: (text) => this.searchSoon(text),
        next: (step) => this.nextHit(step),
      },
      "Search, go to a time, or > command",
    );
    this.palette = new Palette(this.field, { now: (text) => this.offersNow(text), later: (text) => this.timeOffer(text) }, this.session.tree.canvas);
    this.tour = info.tour ? new Tour(info.tour, this.session, (tab) => this.answers.panel.open(tab), thingAt) : null;
    const keys = (this.keyTable = this.keys());
    this.help = new Help(body, keys, HANDS);
    this.build();
    this.listen();
    listenToKeys(keys, this.session.tree.canvas);
    for (const menu of [this.laneMenu, this.saving]) openByKeys(menu);
    document.addEventListener("keydown", (event) => this.typeNumber(event), { capture: true });
    // back returns to another view, with the present search
    addEventListener("popstate", () => this.restore({ ...recall(this.session), search: this.field.text }));
    void this.start();
  }

  /** Reads the lanes, and then follows the session. */
  private async start(): Promise<void> {
    const { session } = this;
    // before anything is drawn, after which the address is of that
    const wanted = recall(session);
    this.isTabChosen = readAddress().has("tab");
    await this.readLanes(session.update(session.info));
    for (const file of session.files) await session.call(file, [...wanted.pins, ...wanted.hidden, ...wanted.places.flat(), ...(wanted.thing ? [wanted.thing.key] : [])]);
    this.restore(wanted, true);
    this.isRestored = true;
    const compared = session.info.comparison?.range_ns;
    if (compared && !wanted.range) session.setRange({ from: BigInt(compared[0]) - session.originNs, to: BigInt(compared[1]) - session.originNs });
    this.recolor();
    if (this.tour && !location.hash) void this.startTour();
    await this.follow();
  }

  /** Begins the tour once all of its files are read. */
  private async startTour(): Promise<void> {
    while (this.session.info.files.some(({ status }) => status === "reading") || this.isReading) await new Promise((resolve) => setTimeout(resolve, POLL_MS / 5));
    this.tour?.start();
  }

  private async readLanes(files: FileModel[]): Promise<void> {
    this.isReading = files.length > 0;
    this.showFiles();
    for (const file of files) {
      try {
        await this.session.read(file, () => this.picture.hold());
      } catch (reason) {
        // a newer layout is read with the next session
        if (!(reason instanceof SourceError && reason.status === 410)) throw reason;
      }
    }
    await this.decide();
    this.isReading = false;
    this.answers.invalidate();
    this.showFiles();
    this.redraw();
  }

  /** Decides how the page begins from all of the files, however much was read when it was opened: the order of lanes, and what is in view. */
  private async decide(): Promise<void> {
    const { session } = this;
    if (session.info.files.some(({ status }) => status === "reading")) return;
    const lanes = session.files.map(({ table }) => table?.layout).join();
    if (lanes !== this.sorted) {
      this.sorted = lanes;
      await this.sortLanes(this.order);
    }
    const { core, view } = session;
    if (!this.isFitted && this.isRestored && !this.isTabChosen && this.answers.panel.tab === "over") this.answers.panel.open(session.firstTab);
    if (core && !this.isFitted && view.isWhole) view.show(core.from, core.to);
    this.isFitted = true;
  }

  /** Asks for the session again: often while a file is being read or grows, and then whether it is still what was read. */
  private async follow(): Promise<void> {
    const { connection } = this.source;
    if (!connection) return;
    connection.listen((problem) => void this.connected(problem));
    for (;;) {
      const isGrowing = this.session.info.files.some(({ status }) => status === "reading" || status === "following");
      await new Promise((resolve) => setTimeout(resolve, !isGrowing ? LOOK_MS : document.hidden ? 4 * POLL_MS : POLL_MS));
      if (connection.problem === null && (isGrowing || !document.hidden)) await this.askAgain();
    }
  }

  /** Asks for the session: files may have grown, or damage may have been found in them. */
  private async askAgain(): Promise<void> {
    if (this.source.isEmbedded) return;
    try {
      const info = await this.source.session();
      if (!info) return;
      const { session, files } = this.session.info;
      if (info.session === session) await this.readLanes(this.session.update(info));
      // a server that was started again: the address has what is seen
      else if (info.files.map(({ path }) => path).join("\n") === files.map(({ path }) => path).join("\n")) location.reload();
      else {
        this.other = info.files.map(({ name }) => name).join(", ");
        this.showNotice();
      }
    } catch (reason) {
      // the connection is looked after
      if (!(reason instanceof SourceError)) throw reason;
    }
  }

  /** The server no longer answers, or does so again: then it is asked again for what is shown. */
  private async connected(problem: string | null): Promise<void> {
    // one that was dismissed was another time
    if (problem !== null) this.dismissed.delete(`lost ${problem}`);
    this.showNotice();
    if (problem !== null) return;
    this.say("The server answers again");
    await this.askAgain();
    this.session.tiles.retry();
    this.answers.invalidate();
    this.redraw();
  }

  private build(): void {
    const { session } = this;
    this.main.append(session.tree.element, this.none, this.full);
    addGutterGrip(this.main, session.tree.gutter);
    this.body.append(
      h(
        "header",
        { class: "top" },
        h("h1", { class: "brand", attributes: { "aria-label": "meantime" } }, mark(), h("span", {}, "meantime")),
        this.files,
        this.field.element,
        h(
          "nav",
          {},
          this.tour === null ? null : button("Tour", "Begin the tour again", () => this.tour?.start(), { class: "share" }),
          button("Share", "Copy a link to this view (L)", () => this.share(), { class: "share" }),
          this.saving,
          button(icon("theme"), "Light or dark (T)", () => this.theme.toggle()),
          button(icon("help"), "Keys and gestures (?)", () => this.help.toggle()),
        ),
      ),
      this.tour?.wrap(this.notice) ?? this.notice,
      h("section", { class: "band map", attributes: { "aria-label": "All of the time" } }, h("div", { class: "gutter" }, this.lengthInView, this.hidden, this.filter), this.minimap.element),
      h("section", { class: "band", attributes: { "aria-label": "Time axis" } }, h("div", { class: "gutter axis-gutter" }, this.axis.base, this.laneMenu, this.clock), this.axis.element),
      this.main,
      this.answers.panel.element,
      h("footer", { class: "foot" }, this.sameAs, this.status.element, this.message, this.spoken),
    );
    if (this.source.copy) this.saving.append(h("option", { attributes: { value: "page" } }, "This page with its notes"));
    const placeMenu = () => (NARROW.matches ? this.filter.before(this.laneMenu) : this.clock.before(this.laneMenu));
    NARROW.addEventListener("change", placeMenu);
    placeMenu();
    session.tree.canvas.setAttribute("aria-label", "Timeline. Arrow keys move between lanes and things; question mark lists all keys.");
    document.title = `${session.info.title || "Traces"} – meantime`;
  }

  private redraw(): void {
    this.pending ||= requestAnimationFrame(() => {
      this.pending = 0;
      this.draw();
    });
  }

  private draw(): void {
    const { session } = this;
    const { view } = session;
    this.axis.originNs = this.clockNow === "trace" ? session.originNs : 0n;
    this.offerZone();
    if (!this.isClockChosen) this.clock.value = this.usualClock;
    this.axis.utcNs = this.utcNs;
    this.axis.zone = this.zoneNow;
    this.picture.notes = this.answers.notes.notes;
    this.picture.draw();
    session.differences?.ask();
    if (this.axis.base.textContent === "from 0 s") this.axis.base.textContent = "from start";
    const { hiddenCount } = session.tree;
    this.hidden.hidden = !hiddenCount;
    setText(this.hidden, `Show ${grouped(hiddenCount)} hidden`);
    this.showNone();
    const whole = view.isWhole ? " whole trace" : ` of ${duration(view.widthNs)}`;
    const inView = duration(view.isWhole ? view.widthNs : view.endNs - view.startNs, 4);
    if (this.lengthInView.textContent !== inView + whole) this.lengthInView.replaceChildren(h("b", {}, inView), whole);
    this.main.setAttribute("aria-busy", "true");
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.rested(), REST_MS);
  }

  /** Once the view rests, what is below follows it. */
  private rested(): void {
    const { session } = this;
    // a frame that is still to come decides what is needed
    if (this.pending) return;
    if ((session.tiles.isIncomplete || session.isNaming || session.differences?.isWaiting) && !session.tiles.problem) {
      // heights follow what is there, once it is
      this.resting = setTimeout(() => this.rested(), REST_MS);
      this.answers.answer();
      return;
    }
    session.fitLanes(this.pointer?.y ?? null);
    this.tour?.rested();
    this.answers.answer();
    const { command } = this.answers;
    this.status.show("", command);
    setText(this.sameAs, command === null ? "" : "Same as the command");
    this.showNotice();
    if (!this.isRestored) return;
    remember(session, { tab: this.answers.panel.tab, by: this.answers.by, search: this.field.text, filter: this.filter.value, order: this.order, density: this.density, clock: this.isClockChosen ? this.clock.value : "", folded: this.answers.fold.isOn, flame: this.answers.mode, of: this.answers.of, hits: this.search.order, period: this.answers.heat.periodNs }, this.isStep);
    this.isStep = false;
    if (document.activeElement !== this.laneMenu) this.drawLaneMenu();
    if (!this.isReading) {
      this.main.setAttribute("aria-busy", "false");
      const { answering } = this.answers;
      // unless another question has come in its place, or an answer that changes what is shown is still to come
      void answering.then(() => answering === this.answers.answering && this.answers.isSettled && this.drawn());
    }
  }

  // what the session is ---------------------------------------------------------------------------

  private showFiles(): void {
    const { session } = this;
    this.files.replaceChildren(
      ...session.files.map((file) => {
        const { info } = file;
        const length = info.start_ns !== null && info.end_ns !== null ? duration(BigInt(info.end_ns) - BigInt(info.start_ns)) : info.status;
        const parts: HTMLElement[] = [];
        if (session.differences) parts.push(h("span", { class: "muted" }, session.differences.sideOf(file)));
        parts.push(h("bdi", {}, shown(info.name)), h("span", { class: "muted" }, length));
        const apart = session.apartNs(file);
        if (apart !== null) parts.push(h("span", { class: "badge" }, `${duration(apart < 0n ? -apart : apart)} ${apart < 0n ? "before" : "after"} the first`));
        else if (info.aligned === "start" && file.index) parts.push(h("span", { class: "badge" }, "not aligned"));
        if (info.status === "reading" || info.status === "following") parts.push(h("span", { class: "badge live" }, info.status));
        const made = button(null, `${parts.map((each) => each.textContent).join(" ")}: show all of it`, () => this.showFile(file), { class: "file printed" });
        if (session.files.length > 1) made.setAttribute("aria-pressed", String(session.chosen === file));
        made.append(...parts.flatMap((each) => [each, " "]));
        return made;
      }),
    );
    this.showNotice();
    this.showFull();
  }

  /** One sentence about the most important thing that is not as it should be. */
  private showNotice(): void {
    const { session } = this;
    const notices: { key: string; title: string; text: string; actions: [string, () => void][]; part?: number; field?: HTMLElement }[] = [];
    const { connection } = this.source;
    if (connection?.problem) notices.push({ key: `lost ${connection.problem}`, title: "Not connected.", text: `${connection.problem} What is on the page stays, and it is asked again now and then.`, actions: [["Ask now", () => connection.retry()]] });
    else if (this.other) notices.push({ key: `other ${this.other}`, title: "Other files.", text: `The server was started again, with ${this.other}.`, actions: [["Show", () => location.assign(location.pathname)]] });
    else if (session.tiles.problem) notices.push({ key: `problem ${session.tiles.problem}`, title: "No answer.", text: session.tiles.problem, actions: [] });
    const { damage } = session.tiles;
    if (damage) notices.push({ key: `damage ${damage.text}`, title: "Damaged.", text: `${withTimes(session, session.files[damage.file]!, damage.text)}. What cannot be read is hatched.`, actions: [] });
    for (const file of session.files) {
      const apart = session.apartNs(file);
      if (apart === null) continue;
      const [first] = session.files;
      notices.push({
        key: `apart ${file.info.name}`,
        title: "Not at the same time.",
        text: `${file.info.name} was recorded ${duration(apart < 0n ? -apart : apart)} ${apart < 0n ? "before" : "after"} ${first!.info.name}: it begins at`,
        field: this.placeField(file),
        actions: [first!, file].map((each): [string, () => void] => [`Show ${each.info.name}`, () => this.showFile(each)]),
      });
    }
    if (session.core) notices.push(this.farNotice(session.core));
    for (const file of session.files) {
      const { info } = file;
      if (info.status === "reading") {
        const isRead = info.total_bytes > 0 && info.read_bytes >= info.total_bytes;
        const total = info.total_bytes ? ` of ${megabytes(info.total_bytes)}` : "";
        notices.push({ key: "", title: "Reading", text: `${info.name}, ${isRead ? "all of it: the lanes are being finished" : `${megabytes(info.read_bytes)}${total}; what is read is drawn`}.`, actions: [], ...(info.total_bytes ? { part: info.read_bytes / info.total_bytes } : {}) });
      }
      if (info.changed) notices.push({ key: `changed ${info.name} ${info.changed}`, title: "No longer the same.", text: `${info.name} ${info.changed}; what was read before is shown.`, actions: [] });
      if (info.error && file.table) notices.push({ key: `error ${info.name} ${info.error}`, title: "Not complete.", text: withTimes(session, file, info.error), actions: [] });
      const { missing } = this.source;
      if (missing) notices.push({ key: "missing", title: "Not everything is here.", text: missing, actions: [] });
      if (info.aligned === "start") {
        notices.push({
          key: `aligned ${info.name}`,
          title: "Not aligned.",
          text: `${info.name} shares no clock with ${session.files[0]!.info.name}: it begins ${file.movedNs ? "where it was put by hand" : "where that begins"}, at`,
          field: this.placeField(file),
          actions: [["Hide it", () => this.hideFile(file)]],
        });
      }
      // that samples are missing concerns few: it is with what is to be read with care
      if (info.lost_ns.length && info.lost_of === null) {
        const lost = info.lost_ns.length + info.lost_rest;
        notices.push({ key: `lost ${info.name}`, title: "Not everything was recorded.", text: `${info.name} has ${lost === 1 ? "a range in which something is missing; it is hatched" : `${grouped(lost)} ranges in which something is missing; they are hatched`}.`, actions: [] });
      }
    }
    if (this.drop) {
      const { drop } = this;
      notices.unshift({ key: `drop ${drop}`, title: "To open it, run", text: drop, actions: [["Copy", () => this.copy(drop, "Copied")]] });
    }
    const first = notices.find(({ key }) => !this.dismissed.has(key));
    this.notice.hidden = !first;
    // a field keeps what is typed into it
    if (!first || (first.field && this.notice.contains(document.activeElement) && document.activeElement!.matches("input"))) return;
    const close = first.key
      ? button(icon("close"), "Dismiss", () => {
          this.dismissed.add(first.key);
          this.showNotice();
        }, { class: "bare" })
      : null;
    this.notice.replaceChildren(
      h("b", {}, first.title),
      h("span", {}, shown(first.text)),
      ...(first.field ? [first.field] : []),
      ...first.actions.map(([text, action]) => button(text, text, action, { class: "link" })),
      ...(close ? [close] : []),
    );
    this.notice.style.setProperty("--part", first.part === undefined ? "0" : String(first.part));
  }

  /** What is far from nearly everything, which is what the page begins with. */
  private farNotice(core: Range): { key: string; title: string; text: string; actions: [string, () => void][] } {
    const { session } = this;
    const { widthNs } = session.view;
    const sum = (of: "before" | "after" | "count") => session.files.reduce((all, { info }) => all + (info.core?.[of] ?? 0), 0);
    const begin = (count: number) => `${grouped(count)} ${count === 1 ? "begins" : "begin"}`;
    const sides = [
      sum("before") && `${begin(sum("before"))} up to ${duration(core.from)} before`,
      sum("after") && `${begin(sum("after"))} up to ${duration(widthNs - core.to)} after`,
    ].filter(Boolean);
    const go = (from: bigint, to: bigint) => () => {
      this.step();
      session.go(from, to);
    };
    return {
      key: "far",
      title: "Not all at one time.",
      text: `Of ${grouped(sum("count"))} spans, samples and instants ${sides.join(" and ")} the others.`,
      actions: [["Show all", go(0n, widthNs)], ["Show the others", go(core.from, core.to)]],
    };
  }

  /** What is shown instead of lanes. */
  private showFull(): void {
    const { session } = this;
    const isDrawn = session.files.some(({ table }) => table && table.count > 0);
    this.full.hidden = isDrawn;
    // times and answers are of something that is drawn
    this.body.classList.toggle("undrawn", !isDrawn);
    if (isDrawn) return;
    const content: Node[] = [];
    const failed = session.info.files.find(({ status }) => status === "failed");
    const reading = session.info.files.find(({ status }) => status === "reading");
    if (!session.files.length) {
      content.push(h("h2", {}, "No trace open"), h("p", {}, "Run"), h("code", {}, "meantime view FILE…"));
    } else if (failed) content.push(h("h2", {}, shown(`${failed.name} cannot be shown`)), h("p", {}, shown(failed.error ?? "It could not be read.")));
    else if (reading) {
      const total = reading.total_bytes ? ` of ${megabytes(reading.total_bytes)}` : "";
      const part = reading.total_bytes ? reading.read_bytes / reading.total_bytes : 0;
      content.push(h("h2", {}, shown(`Reading ${reading.name}`)), h("p", {}, `${megabytes(reading.read_bytes)}${total}`), h("div", { class: "progress" }, h("i", { style: `width:${(100 * part).toFixed(1)}%` })));
    } else if (session.files.some(({ table }) => !table)) content.push(h("h2", {}, "Reading the lanes"));
    else content.push(h("h2", {}, "Nothing to draw"), h("p", {}, "The trace has neither states nor spans, samples, counters or points."));
    this.full.replaceChildren(h("div", { class: "nothing" }, ...content));
  }

  private showFile(file: FileModel): void {
    const { start_ns, end_ns } = file.info;
    if (start_ns === null || end_ns === null) return;
    const { session } = this;
    this.step();
    session.chosen = session.files.length > 1 ? file : null;
    session.tree.current = null;
    if (session.thing && session.thing.lane.file !== file) session.select(null);
    const head = session.lanes.find((lane) => lane instanceof FileLane && lane.file === file);
    if (head) session.tree.showAtTop(head);
    session.go(session.inView(file, BigInt(start_ns)), session.inView(file, BigInt(end_ns)));
    this.answers.invalidate();
    this.showFiles();
  }

  /** The field that moves a file: the time of the axis at which it begins. */
  private placeField(file: FileModel): HTMLElement {
    const { session } = this;
    const start = session.inView(file, BigInt(file.info.start_ns ?? "0"));
    const field = h("input", { class: "place-field", title: "Time at which it begins, such as 1.2s", attributes: { "aria-label": `Time at which ${shown(file.info.name)} begins`, value: plain(start), size: "9" } });
    field.addEventListener("change", () => {
      const text = field.value.trim();
      const ns = parsed(text.replace(/^-/, ""));
      if (ns !== null) session.move(file, text.startsWith("-") ? -ns : ns);
      else this.say(`“${text}” is not a time; write one such as 1.2s`);
      field.blur();
    });
    return field;
  }

  private hideFile(file: FileModel): void {
    for (const lane of this.session.tileLanes) if (lane.file === file && lane.level === 2) this.session.tree.hide(lane);
  }

  // time ------------------------------------------------------------------------------------------

  private get clockNow(): Clock {
    return this.clock.value as Clock;
  }

  /** The clock of a page on which none was chosen: of a recording of hours, that of its zone or of UTC. */
  private get usualClock(): Clock {
    if (this.session.zone) return "zone";
    const isLong = this.session.view.widthNs >= HOUR;
    return isLong && this.session.files[0]?.info.clock.utc_at_origin_ns != null ? "utc" : "start";
  }

  /** Adds the zone to the clocks once the first file is read. */
  private offerZone(): void {
    const { zone } = this.session;
    if (!zone || this.clock.querySelector("[value=zone]")) return;
    // the city, which fits
    const city = zone.name.split("/").at(-1)!.replaceAll("_", " ");
    this.clock.append(h("option", { title: zone.name, attributes: { value: "zone" } }, city));
  }

  /** UTC at the left edge of the whole, if the clock shows dates. */
  private get utcNs(): bigint | null {
    const utc = this.session.files[0]?.info.clock.utc_at_origin_ns ?? null;
    const isDated = ["utc", "local", "zone"].includes(this.clockNow);
    return utc === null || !isDated ? null : BigInt(utc) + this.session.originNs;
  }

  /** The zone of dates; null is UTC. */
  private get zoneNow(): Zone | null {
    const { utcNs } = this;
    if (utcNs === null || this.clockNow !== "local") return this.clockNow === "zone" ? this.session.zone : null;
    const end = utcNs + this.session.view.widthNs;
    if (this.local?.pieces[0]?.[0] !== utcNs || this.local.pieces.at(-1)![1] < end) this.local = browserZone(utcNs, end);
    return this.local;
  }

  private setClock(clock: Clock): void {
    this.isClockChosen = true;
    this.clock.value = clock;
    this.redraw();
  }

  private moveTo(middle: number): void {
    const { view } = this.session;
    this.session.stop();
    const half = (view.endNs - view.startNs) / 2n;
    const at = BigInt(Math.round(middle * Number(view.widthNs)));
    view.show(at - half, at + half);
    this.moved();
  }

  /** The next address is one that the browser's back returns from. */
  private step(): void {
    this.isStep = true;
  }

  private moved(): void {
    this.tooltip.hide();
    this.redraw();
  }

  // selecting -------------------------------------------------------------------------------------

  private selected(): void {
    const { thing } = this.session;
    this.answers.invalidate();
    this.answers.follow(thing);
    this.session.flows = [];
    this.selectRequest?.abort();
    this.wantRequest?.abort();
    if (!thing) return;
    this.session.tree.current = null;
    const { selected, first } = this.search;
    if (selected >= 0) this.field.place(first + selected + 1);
    this.spoken.textContent = `${thing.name}, ${exact(thing.endNs - thing.startNs)}, starts ${exact(this.session.inView(thing.lane.file, thing.startNs))}, ${thing.lane.title}`;
    this.selectRequest = new AbortController();
    void this.complete(thing, this.selectRequest.signal).catch(() => {
      // the next selection is asked for again
    });
  }

  /** Asks for all facts of the selected thing, and its arrows. */
  private async complete(thing: Thing, signal: AbortSignal): Promise<void> {
    const { session } = this;
    const { file } = thing.lane;
    const layout = file.table!.layout;
    if (!thing.at) {
      const width = thing.endNs > thing.startNs ? 1 : 0;
      thing.at =
        thing.span !== null && thing.span < 0xffffffff && (thing.lane.kind === "stack" || thing.lane.kind === "async")
          ? await session.source.ask("span", { file: file.index, layout, span: thing.span }, signal)
          : await session.source.ask("at", { file: file.index, layout, lane: thing.lane.index, row: thing.row, time: thing.startNs, width: Math.max(1, width) }, signal);
      this.redraw();
    }
    thing.context = await session.source.ask("context", { file: file.index, layout, lane: thing.lane.index, row: thing.row, time: thing.startNs }, signal);
    session.flows = thing.context.flows.flows.map((flow) => ({ ...flow, file }));
    this.answers.drawSelection();
    this.redraw();
  }

  /** What is at a point of the lanes. */
  private async askAt(x: number, y: number, signal: AbortSignal): Promise<{ lane: TileLane; row: number; at: At } | null> {
    const { session } = this;
    const found = session.tree.at(y);
    if (!(found?.lane instanceof TileLane)) return null;
    const { lane } = found;
    if (lane.kind === "group" && lane.open) return null;
    const { row } = lane.rowAt(found.y);
    const perPixel = session.perPixel;
    const time = session.scene.fileTime(lane.file, x * perPixel);
    const width = Math.max(1, Math.round(perPixel));
    const isTogether = lane.kind === "group" || (lane.kind === "packed" && !lane.open);
    const at = await session.source.ask("at", { file: lane.file.index, layout: lane.file.table!.layout, lane: lane.index, row: isTogether ? "all" : row, time, width }, signal);
    return { lane, row, at };
  }

  private hover(x: number, y: number): void {
    const { session } = this;
    this.pointer = { x, y };
    this.picture.pointerX = x;
    const found = session.tree.at(y);
    const lane = found?.lane;
    const box = found && lane instanceof TileLane ? lane.boxAt(x, found.y) : null;
    const before = session.hovered;
    session.hovered = box && { lane: lane as TileLane, ...box };
    if (before?.startNs !== session.hovered?.startNs || before?.lane !== session.hovered?.lane || before?.row !== session.hovered?.row) this.tooltip.hide();
    this.redraw();
    clearTimeout(this.hovering);
    this.hoverRequest?.abort();
    if (lane instanceof DifferenceLane) {
      const lines = session.differences!.tip(lane, x);
      const area = session.tree.canvas.getBoundingClientRect();
      if (lines.length) this.tooltip.show(area.left + x, area.top + y, lines);
      else this.tooltip.hide();
      return;
    }
    if (!(lane instanceof TileLane)) {
      this.tooltip.hide();
      return;
    }
    this.hovering = setTimeout(() => void this.showTip(x, y), HOVER_MS);
  }

  private async showTip(x: number, y: number): Promise<void> {
    const request = (this.hoverRequest = new AbortController());
    try {
      const found = await this.askAt(x, y, request.signal);
      if (request.signal.aborted || !this.pointer) return;
      const lines = found ? tip(found.lane, found.at, this.session) : [];
      if (!lines.length) {
        this.tooltip.hide();
        return;
      }
      const area = this.session.tree.canvas.getBoundingClientRect();
      this.tooltip.show(area.left + x, area.top + y, lines);
    } catch {
      this.tooltip.hide();
    }
  }

  /** Looks for what is to be selected; null if there is none, or if something else is wanted by then. */
  private async look<T>(ask: (signal: AbortSignal) => Promise<T>): Promise<T | null> {
    this.wantRequest?.abort();
    const { signal } = (this.wantRequest = new AbortController());
    try {
      const answer = await ask(signal);
      return signal.aborted ? null : answer;
    } catch (reason) {
      if (!signal.aborted) this.sayWhy(reason);
      return null;
    }
  }

  /** Says why there is no answer. */
  private sayWhy(reason: unknown): void {
    if (!(reason instanceof SourceError)) throw reason;
    // lanes that have other numbers now are read again with the session
    if (reason.status !== 410) this.say(reason.message);
  }

  private async click(x: number, y: number, isFit = false): Promise<void> {
    const { session } = this;
    this.wantRequest?.abort();
    const chip = this.picture.chipAt(x, y);
    if (chip) return this.goToEnd(chip.file, chip.lane, chip.row, chip.ns);
    const found = session.tree.at(y);
    const lane = found?.lane ?? null;
    if (lane instanceof DifferenceLane) {
      this.markAt(this.timeAt(x));
      return;
    }
    if (!(lane instanceof TileLane)) {
      session.clear();
      return;
    }
    const box = lane.boxAt(x, found!.y);
    let thing: Thing | null = box && { lane, row: box.row, name: box.name, startNs: box.startNs, endNs: box.endNs, span: lane.kind === "packed" ? null : box.span, at: null };
    if (!thing) {
      let isLast = false;
      const answer = await this.look(async (signal) => {
        const asked = await this.askAt(x, y, signal);
        isLast = !signal.aborted;
        return asked;
      });
      if (!isLast) return;
      thing = answer && thingAt(answer.lane, answer.row, answer.at);
    }
    if (!thing && !session.clear()) session.tree.current = lane;
    if (thing) {
      if (session.range && !isFit) session.range = null;
      session.select(thing);
      if (isFit) {
        this.step();
        session.fitSelection();
      }
    }
  }

  /** Goes to the next thing in the row of the selected one, or to the first in view. */
  private async stepThing(by: 1 | -1): Promise<void> {
    // a key that repeats steps as fast as there are answers
    if (this.isStepping) return;
    const { session } = this;
    const current = session.tree.current;
    let { thing } = session;
    const shown = session.tree.visible;
    // a group has nothing itself: the next lane that has
    const first = shown.slice(current ? shown.indexOf(current) : 0).find((each) => each instanceof TileLane && each.kind !== "group");
    const lane = thing?.lane ?? (first as TileLane | undefined);
    if (!lane) return;
    const time = thing ? thing.startNs : session.inFile(lane.file, session.view.startNs) - 1n;
    const where = { file: lane.file.index, layout: lane.file.table!.layout, lane: lane.index, row: thing?.row ?? 0, time };
    this.isStepping = true;
    const found = await this.look((signal) => session.source.ask("neighbors", where, signal)).finally(() => (this.isStepping = false));
    if (!found) return;
    const hit = by > 0 ? found.next : found.previous;
    thing = hit && session.thingOf(lane.file, hit);
    if (!thing) {
      this.say(by > 0 ? "No later one in this row" : "No earlier one in this row");
      return;
    }
    session.select(thing);
    session.reveal(thing);
  }

  // searching -------------------------------------------------------------------------------------

  private searchSoon(text: string): string {
    clearTimeout(this.searching);
    // a command is not looked for
    const wanted = isCommand(text) ? "" : text.trim().toLowerCase();
    this.session.scene.light(wanted ? (name) => name.toLowerCase().includes(wanted) : null);
    this.answers.lit = null;
    this.picture.hits = [];
    this.answers.lightFunctions(wanted);
    this.session.tree.invalidate();
    const { lane } = this.answers;
    const find = () => {
      this.unsearched = null;
      return this.find(() => this.search.look(wanted && text.trim(), false, lane));
    };
    this.answers.offerHits(wanted !== "" && !LIKE_TIME.test(wanted));
    this.unsearched = wanted ? find : null;
    this.searching = setTimeout(() => void find(), wanted ? SEARCH_MS : 0);
    this.redraw();
    return wanted ? "…" : "";
  }

  private async find(look: () => Promise<boolean>): Promise<void> {
    const { search } = this;
    search.filter = this.filter.value;
    try {
      const looking = look();
      this.answers.drawHits();
      if (!(await looking)) return;
    } catch (reason) {
      if (reason instanceof DOMException) return;
      this.field.report(reason instanceof SourceError ? reason.message : "no answer");
      return;
    }
    this.answers.drawHits();
    this.picture.bins = search.bins;
    // what is lit by its name is not underlined; the others are in order of time
    this.picture.hits = search.isName ? [] : [...search.hits].sort((a, b) => (a.ns < b.ns ? -1 : a.ns > b.ns ? 1 : 0));
    const where = search.lane ? ` in ${shown(search.lane.title)}` : search.filter ? " in these lanes" : "";
    if (search.isAny) this.field.report(!search.count ? `none${where}` : search.isName ? `${grouped(search.count)} lit${where}, ${search.order === "longest" ? "the longest first" : "by time"}` : `${grouped(search.count)} found${where}`);
    if (search.isAny && !search.isName && !search.count) {
      // nothing to be lit: what is there stays as it is
      this.session.scene.light(null);
      this.session.tree.invalidate();
      if (!LIKE_TIME.test(search.text)) this.say(`No name, tag or argument contains “${search.text}”${where}`);
    }
    this.redraw();
  }

  /** Looks for the same in another order or in other lanes. */
  private async searchAgain(): Promise<void> {
    if (this.search.isAny) await this.find(() => this.search.again());
    else this.answers.drawHits();
  }

  private async nextHit(step: 1 | -1): Promise<number> {
    // a key that repeats steps as fast as there are answers
    if (this.isStepping) return 0;
    this.isStepping = true;
    try {
      // who types and presses Enter does not wait for what is found
      if (this.unsearched) {
        clearTimeout(this.searching);
        await this.unsearched();
      }
      const { search } = this;
      const found = await search.next(step);
      const thing = found && this.session.thingOf(found.file, found.hit);
      if (!thing) return 0;
      this.step();
      this.session.select(thing);
      this.session.reveal(thing);
      return search.first + search.hits.indexOf(found) + 1;
    } catch (reason) {
      if (!(reason instanceof DOMException)) this.sayWhy(reason);
      return 0;
    } finally {
      this.isStepping = false;
    }
  }

  /** Lights a name and nothing else. */
  private lightName(name: string | null): void {
    this.session.scene.light(name === null ? null : (each) => withoutAddresses(each) === name);
    this.session.tree.invalidate();
    this.redraw();
    clearTimeout(this.searching);
    if (name === null) this.field.report("");
    const { lane } = this.answers;
    void this.find(() => this.search.look(name ?? "", name !== null, lane));
  }

  /** Shows where what a sentence says is worst, and the lane that it is about. */
  private goTo(file: FileModel, finding: Placed): void {
    const { session } = this;
    const [worst] = finding.ranges;
    if (!worst) return;
    const at = finding.lanes.findIndex((each) => each !== null);
    const found = at < 0 ? null : session.laneOf(file, finding.lanes[at]!);
    const row = finding.lane_rows[at] ?? 0;
    this.step();
    const [from, to] = [session.inView(file, BigInt(worst[0])), session.inView(file, BigInt(worst[1]))];
    session.thing = null;
    session.setRange(to > from ? { from, to } : null);
    if (found) {
      if ((found instanceof SpanLane || found instanceof PackedLane) && found.reveal(row)) session.tree.arrange();
      const box = found.rowBox(row);
      session.tree.reveal(found, box.top, box.height);
    }
    session.fit(from, to, 2n);
    this.spoken.textContent = shown(finding.sentence);
  }

  /** Selects a hit and shows it as large as the page, if it takes any time. */
  private fitHit(file: FileModel, hit: Hit): void {
    const thing = this.session.thingOf(file, hit);
    if (!thing) {
      this.say(`${hit.name || "(none)"} is not drawn`);
      return;
    }
    this.step();
    this.session.select(thing);
    this.session.reveal(thing);
    if (thing.endNs > thing.startNs) this.session.fitSelection();
  }

  private goToHit(file: FileModel, hit: Hit): void {
    const thing = this.session.thingOf(file, hit);
    if (!thing) return;
    // what else there was at the time of the mark is still of interest
    this.session.mark ??= this.session.moment;
    this.step();
    this.session.select(thing);
    this.session.reveal(thing);
  }

  /** Marks a lane, which the answers are then about. */
  private showLane(lane: TileLane): void {
    const { session } = this;
    this.step();
    session.select(null);
    session.tree.reveal(lane, 0, Math.min(lane.height(), session.tree.heightPx / 2));
    session.tree.current = lane;
    this.speakOf(lane);
    this.answers.invalidate();
    this.redraw();
  }

  /** Selects what is at the other end of an arrow. */
  private async goToEnd(file: FileModel, index: number, row: number, ns: bigint): Promise<void> {
    const lane = this.session.laneOf(file, index);
    if (!lane) return;
    const { source } = this.session;
    const where = { file: file.index, layout: file.table!.layout, time: ns };
    let thing: Thing | null = null;
    if (lane.kind === "stack") {
      // an arrow is of a thread: it ends at the innermost span there
      const moment = await this.look((signal) => source.ask("moment", where, signal));
      if (!moment) return;
      await this.session.named();
      const hit = moment.groups.flatMap(({ things }) => things).find((each) => each.lane !== null && file.table!.handle[each.lane] === lane.handle);
      thing = hit ? this.session.thingOf(file, hit) : null;
    } else {
      const at = await this.look((signal) => source.ask("at", { ...where, lane: index, row, width: 1 }, signal));
      if (!at) return;
      thing = thingAt(lane, row, at);
    }
    if (!thing) {
      this.say("Nothing is drawn at that end");
      return;
    }
    this.step();
    // its button is about to go
    if (document.activeElement?.matches(".flow")) this.session.tree.canvas.focus({ preventScroll: true });
    this.session.select(thing);
    this.session.reveal(thing);
  }

  /** Marks a time, and shows what everything did then. */
  private markAt(ns: bigint): void {
    this.session.mark = ns;
    this.answers.panel.open("moment");
    this.answers.invalidate();
    this.spoken.textContent = `Marked ${exact(ns)}`;
    this.redraw();
  }

  private async goToLongest(name: string): Promise<void> {
    this.lightName(null);
    let best: FoundHit | null = null;
    try {
      best = await this.search.longestOf(name);
    } catch (reason) {
      this.sayWhy(reason);
      return;
    }
    const thing = best && this.session.thingOf(best.file, best.hit);
    if (!thing) {
      this.say(`${name || "(none)"} is not drawn`);
      return;
    }
    this.step();
    this.session.select(thing);
    this.session.reveal(thing);
    this.session.fitSelection();
  }

  // the rest --------------------------------------------------------------------------------------

  /** Shows a sentence at the foot for a moment. */
  private say(text: string): void {
    this.message.textContent = shown(text);
    this.spoken.textContent = shown(text);
    clearTimeout(this.silence);
    this.silence = setTimeout(() => (this.message.textContent = ""), MESSAGE_MS);
  }

  private share(): void {
    const until = this.source.isEmbedded ? "this file is where it is" : "this server runs";
    this.copy(location.href, `The link is copied; it works while ${until}`);
  }

  private copy(text: string, done: string): void {
    const failed = () => this.say("The browser does not let this page write to the clipboard");
    if (navigator.clipboard) void navigator.clipboard.writeText(text).then(() => this.say(done), failed);
    else failed();
  }

  private save(what: string): void {
    this.saving.value = "";
    const { session } = this;
    const { from, to } = session.asked;
    if (what === "csv") this.answers.save();
    else if (what === "page") this.answers.notes.saveCopy();
    else if (what === "svg" || what === "png") savePicture(session, what, session.files.map(({ info }) => info.name).join(" + "), `${exact(from)} to ${exact(to)}`, this.answers.states);
  }

  private note(): void {
    this.answers.panel.open("notes");
    this.answers.notes.focus();
  }

  private openSql(): void {
    this.answers.panel.open("sql");
    this.answers.sql?.focus();
  }

  private showNone(): void {
    const { tree } = this.session;
    const isNone = !tree.visible.some((lane) => lane.level > 1) && this.session.lanes.length > 0 && !this.session.isNaming;
    this.none.hidden = !isNone;
    if (isNone) setText(this.none, shown(this.filter.value ? `No lane has “${this.filter.value}” in its name or path` : "All lanes are hidden. Press U to show them"));
  }

  private filterLanes(): void {
    this.session.filter(this.filter.value);
    // what is found is in these lanes
    clearTimeout(this.searching);
    this.searching = setTimeout(() => void (this.unsearched ?? (() => this.searchAgain()))(), SEARCH_MS);
    this.redraw();
  }

  // the palette -----------------------------------------------------------------------------------

  /** What is offered for a text besides a time: commands. */
  private offersNow(text: string): Offer[] {
    if (isCommand(text)) {
      return this.commands(text.trim().slice(1).trim().toLowerCase()).map(({ run, ...offer }, at) => {
        const cleared = () => {
          this.field.text = "";
          run();
        };
        return { ...offer, run: cleared, isFirst: !at };
      });
    }
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [{ text: "> all commands", note: "such as > pin worker", run: () => this.type(">") }];
    return wanted.length < FEWEST_LETTERS || LIKE_TIME.test(wanted) ? [] : this.commands(wanted).slice(0, 3);
  }

  /** Types a text into the search field for the reader. */
  private type(text: string): void {
    this.field.text = text;
    this.field.input.focus();
    this.palette.ask();
  }

  /** The commands with all words of a text: what keys do, and what is done to lanes with a name. */
  private commands(text: string): Offer[] {
    const { session, answers } = this;
    const words = text.split(/\s+/).filter(Boolean);
    const offers: Offer[] = [];
    const onLane = /^(pin|hide)\s+(.+)$/.exec(text);
    if (onLane) {
      const [, what, wanted] = onLane;
      const lanes = session.tree.passing.filter((lane) => lane.title.toLowerCase().includes(wanted!)).slice(0, MOST_NAMED);
      for (const lane of lanes) {
        const isPinned = session.tree.isPinned(lane);
        if (what === "pin") offers.push({ text: `pin ${lane.title}`, note: isPinned ? "no longer" : "keep it at the top", run: () => session.tree.pin(lane) });
        else offers.push({ text: `hide ${lane.title}`, note: "the lane", run: () => session.tree.hide(lane) });
      }
    }
    const add = (offered: string, note: string, run: () => void) => {
      if (words.every((word) => `${offered} ${note}`.toLowerCase().includes(word))) offers.push({ text: offered, note, run });
    };
    add("zoom to …", "a time or a range, such as 1s to 1.5s", () => this.type(">zoom to "));
    add("pin …", "keep a lane with a name at the top", () => this.type(">pin "));
    add("hide …", "a lane with a name", () => this.type(">hide "));
    const compare = () => {
      answers.compare(session.base ? null : { ...session.asked });
      answers.panel.open("stats");
    };
    add(session.base ? "compare no longer" : "compare", session.base ? "forget the range before" : "this range with the one that is selected next", compare);
    for (const { value, text: title } of this.saving.options) if (value) add(`save ${title}`, "", () => this.save(value));
    add("save what was found as CSV", "", () => void answers.hits.save());
    for (const { id, label, key } of answers.panel.offered) add(`open ${label}`, key, () => answers.panel.open(id));
    for (const { keys, label, help, action } of this.keyTable) {
      const [key] = keys;
      if (key && !/^(Arrow|Shift|Escape|Home|\d…)/.test(key) && keys.length === 1) add(help, label ?? key, () => action(key));
    }
    return offers;
  }

  /** The time or range that a text is, as the server reads it; null if it looks like neither. */
  private timeOffer(text: string): Promise<Offer | null> | null {
    const wanted = text.trim().replace(/^>\s*zoom to\s+/i, "");
    if (isCommand(wanted) || !LIKE_TIME.test(wanted)) return null;
    if (this.source.isEmbedded) return Promise.resolve({ text: `go to ${wanted}`, note: "this file has no server, which reads times: meantime view does", run: () => this.say("Times are read by the server of meantime view; this file has none") });
    return this.readTime(wanted).then(
      (range) => {
        const { from, to } = range;
        const outside = to < 0n || from > this.session.view.widthNs ? ", outside of all files" : "";
        if (from === to) return { text: `go to ${instant(from, 9)}`, note: `a time${outside}`, isFirst: true, run: () => this.goToTime(from) };
        return { text: `zoom to ${instant(from, 9)} … ${instant(to, 9)}`, note: `a range of ${duration(to - from)}${outside}`, isFirst: true, run: () => this.goToRange(range) };
      },
      (reason: unknown) => {
        if (!(reason instanceof SourceError)) throw reason;
        return isCommand(text) ? { text: wanted, note: reason.message, run: () => this.say(reason.message) } : null;
      },
    );
  }

  /** Asks what a text says: of a time both ends are the same. Times without a date count from the left edge of all. */
  private async readTime(text: string): Promise<Range> {
    const { session } = this;
    const { clockNow } = this;
    const zone = clockNow === "zone" ? session.zone?.name : clockNow === "local" ? Intl.DateTimeFormat().resolvedOptions().timeZone : "";
    const known = session.files.filter(({ table, info }) => table && info.start_ns !== null);
    const start = (file: FileModel) => session.inView(file, BigInt(file.info.start_ns!));
    known.sort((a, b) => (start(a) < start(b) ? -1 : start(a) > start(b) ? 1 : 0));
    let problem: unknown = new SourceError(0, "No file is read yet.");
    for (const [at, file] of known.entries()) {
      try {
        const { start_ns, end_ns } = await session.source.ask("time", { file: file.index, layout: file.table!.layout, text, zone });
        const from = session.inView(file, BigInt(start_ns));
        return { from, to: end_ns === null ? from : session.inView(file, BigInt(end_ns)) };
      } catch (reason) {
        // another file may know its date
        if (!at) problem = reason;
      }
    }
    throw problem;
  }

  private goToTime(ns: bigint): void {
    const { session } = this;
    this.field.text = "";
    const { view } = session;
    if (ns < 0n || ns > view.widthNs) {
      this.say(`${instant(ns, 9)} is outside of all files`);
      return;
    }
    this.step();
    this.markAt(ns);
    if (ns >= view.startNs && ns < view.endNs) return;
    const half = (view.endNs - view.startNs) / 2n;
    session.go(ns - half, ns + half);
  }

  private goToRange({ from, to }: Range): void {
    const { session } = this;
    this.field.text = "";
    const { widthNs } = session.view;
    const [first, last] = [from < 0n ? 0n : from, to > widthNs ? widthNs : to];
    if (first >= last) {
      this.say("The range is outside of all files");
      return;
    }
    this.step();
    session.thing = null;
    session.setRange({ from: first, to: last });
    session.fit(first, last);
  }

  private async sortLanes(order: Order): Promise<void> {
    const { session } = this;
    this.order = order;
    const titleOf = (lane: Lane) => session.leaderOf(lane).title;
    const byName = (one: Lane, other: Lane) => titleOf(one).localeCompare(titleOf(other), "en", { numeric: true });
    const isMain = order === "main";
    const isFew = session.files.every(({ table }) => !table || table.count <= MOST_SORTED);
    if (order === "trace" || order === "name" || (isMain && !isFew)) session.tree.ordered(order === "name" ? byName : null);
    else {
      // what matters does not depend on what is in view
      const { from, to } = isMain ? { from: 0n, to: session.view.widthNs } : session.asked;
      const found = new Map<FileModel, Activity>();
      try {
        for (const file of session.files) {
          if (!file.table) continue;
          const [start, end] = [session.inFile(file, from), session.inFile(file, to)];
          if (start >= end) continue;
          const state = order.startsWith("in ") ? order.slice(3) : null;
          found.set(file, await session.source.ask("activity", { file: file.index, layout: file.table.layout, from: start, to: end, state, ...(isMain ? { work: 1 } : {}) }));
        }
      } catch (reason) {
        this.sayWhy(reason);
        return;
      }
      if (this.order !== order) return;
      session.tree.ordered(isMain ? session.byImportance(found) : session.byActivity(found, order === "first"));
    }
    this.drawLaneMenu();
    this.redraw();
  }

  /** What can be done with all lanes; the choices that hold have a sign. */
  private drawLaneMenu(): void {
    const { session, laneMenu } = this;
    const option = (value: string, text: string, isOn: boolean) => h("option", { attributes: { value } }, `${isOn ? "✓ " : "\u2003"}${text}`);
    const states = new Map<string, number>();
    for (const { states: table, table: lanes } of session.files) {
      if (lanes?.kind.some((kind) => kind === "state" || kind === "packed")) table.names.forEach((name, id) => name && states.set(name, Math.min(table.ranks[id]!, states.get(name) ?? Infinity)));
    }
    const sorted = [...states].sort((a, b) => a[1] - b[1]).slice(0, MOST_STATES);
    const orders: [Order, string][] = [...ORDERS.map((order): [Order, string] => [order, ORDER_NAMES[order]!]), ...sorted.map(([name]): [Order, string] => [`in ${name}`, `by time in ${name}`])];
    laneMenu.replaceChildren(
      h("option", { attributes: { value: "" } }, "Lanes"),
      h("optgroup", { attributes: { label: "Sort" } }, ...orders.map(([value, text]) => option(`sort ${value}`, shown(text), value === this.order))),
      h("optgroup", { attributes: { label: "Height" } }, ...Object.keys(DENSITIES).map((value) => option(`rows ${value}`, value, value === this.density))),
      h("optgroup", { attributes: { label: "Groups" } }, option("open", "open all", false), option("close", "close all", false)),
    );
    laneMenu.value = "";
  }

  private chooseLanes(choice: string): void {
    const { session } = this;
    this.laneMenu.value = "";
    this.session.tree.canvas.focus({ preventScroll: true });
    if (choice.startsWith("sort ")) void this.sortLanes(choice.slice(5) as Order);
    else if (choice.startsWith("rows ")) this.setDensity(choice.slice(5) as Density);
    else if (choice) session.openAll(choice === "open");
    this.redraw();
  }

  private stepDensity(): void {
    this.setDensity(({ compact: "normal", normal: "roomy", roomy: "compact" } as const)[this.density]);
    this.say(`Heights of lanes: ${this.density}`);
  }

  private setDensity(density: Density): void {
    this.density = density;
    this.session.scene.density = DENSITIES[density];
    this.drawLaneMenu();
    this.session.tree.arrange(this.session.tree.uppermost);
  }

  private recolor(): void {
    // the theme is chosen before anything else exists
    if (!this.picture) return;
    this.picture.recolor();
    this.answers.recolor();
    // paper does not wait for a frame
    if (this.theme?.printing) this.draw();
    this.redraw();
  }

  /** Shows what an address says. */
  private restore(wanted: Recalled, isFirst = false): void {
    const { session } = this;
    if (isFirst || wanted.toggles.length) session.toggles = wanted.toggles;
    const indices = (keys: string[]) => keys.map((key) => session.lanes.indexOf(session.laneByKey(key)!)).filter((index) => index >= 0);
    session.tree.marks = { pins: indices(wanted.pins), hidden: indices(wanted.hidden) };
    session.moves = wanted.places;
    for (const file of session.files) file.movedNs = wanted.moves.find(([index]) => index === file.index)?.[1] ?? 0n;
    session.place();
    if (wanted.view) session.view.show(wanted.view[0] - session.originNs, wanted.view[1] - session.originNs);
    else session.view.reset();
    if (wanted.view || wanted.isWhole) this.isFitted = true;
    else if (session.core) session.view.show(session.core.from, session.core.to);
    // of files that are hours apart, all of them together would be an empty page
    const [shownFirst] = session.files;
    if (!wanted.view && shownFirst && session.files.some((file) => session.apartNs(file) !== null)) session.view.show(...session.extentOf(shownFirst)!);
    session.range = wanted.range && { from: wanted.range[0] - session.originNs, to: wanted.range[1] - session.originNs };
    session.mark = wanted.mark === null ? null : wanted.mark - session.originNs;
    session.chosen = wanted.file === null ? null : (session.files[wanted.file] ?? null);
    this.showFiles();
    session.base = wanted.base && { from: wanted.base[0] - session.originNs, to: wanted.base[1] - session.originNs };
    const { band } = wanted;
    session.band = band && band[0] > 0n ? { periodNs: band[0], originNs: band[1] - session.originNs, from: band[2], to: band[3] } : null;
    this.answers.by = wanted.by as By | null;
    this.answers.panel.open(wanted.tab);
    this.clock.value = wanted.clock;
    this.isClockChosen = this.clock.value !== "";
    if (!this.isClockChosen) this.clock.value = this.usualClock;
    if (this.filter.value !== wanted.filter) {
      this.filter.value = wanted.filter;
      this.filterLanes();
    }
    if (this.order !== wanted.order) void this.sortLanes(wanted.order as Order);
    this.answers.fold.isOn = wanted.folded;
    this.answers.mode = wanted.flame === "callers" ? "callers" : "heavy";
    this.answers.of = wanted.of === "spans" || wanted.of === "samples" ? wanted.of : null;
    this.answers.heat.periodNs = wanted.period;
    if (this.density !== wanted.density) this.setDensity(wanted.density in DENSITIES ? (wanted.density as Density) : "normal");
    this.search.order = wanted.hits === "time" ? "time" : "longest";
    this.field.text = wanted.search;
    // which a search would have opened another one for
    this.answers.panel.open(wanted.tab);
    const lane = wanted.thing && session.laneByKey(wanted.thing.key);
    if (!lane || !wanted.thing) {
      if (session.thing) session.select(null);
    } else if (session.thing?.lane !== lane || session.thing.row !== wanted.thing.row || session.thing.startNs !== wanted.thing.ns) {
      const { row, ns } = wanted.thing;
      const where = { file: lane.file.index, layout: lane.file.table!.layout, lane: lane.index, row, time: ns, width: 1 };
      void this.look((signal) => session.source.ask("at", where, signal)).then((at) => at && session.select(thingAt(lane, row, at)));
    }
    this.redraw();
  }

  private listen(): void {
    const { session } = this;
    const { tree, view } = session;
    const ratio = (x: number) => x / Math.max(1, tree.widthPx);
    const timeAt = (x: number) => this.timeAt(x);
    this.axis.element.title = "Click to see what everything was doing at a time";
    this.axis.element.addEventListener("click", (event) => this.markAt(timeAt(event.clientX - this.axis.element.getBoundingClientRect().left)));
    this.body.addEventListener("dragover", (event) => event.preventDefault());
    this.body.addEventListener("drop", (event) => this.dropped(event));
    listenToHands(
      tree.canvas,
      {
        zoom: (factor, x) => {
          session.stop();
          view.zoom(factor, ratio(x));
          this.moved();
        },
        pan: (dx, dy) => {
          session.stop();
          view.pan(-dx / Math.max(1, tree.widthPx));
          if (dy) tree.scrollBy(-dy);
          this.moved();
        },
        scroll: (dy) => tree.scrollBy(dy),
        click: (x, y) => void this.click(x, y),
        doubleClick: (x, y) => void this.click(x, y, true),
        range: (from, to, done) => {
          const [a, b] = [timeAt(from), timeAt(to)];
          session.range = a === b ? null : { from: a < b ? a : b, to: a < b ? b : a };
          if (done) {
            session.thing = null;
            session.setRange(session.range);
          }
          this.moved();
        },
        hover: (x, y) => {
          this.hover(x, y);
          tree.canvas.style.cursor = this.picture.chipAt(x, y) ? "pointer" : this.edgeAt(x) === null ? "" : "ew-resize";
        },
        leave: () => {
          session.hovered = null;
          this.pointer = null;
          this.picture.pointerX = null;
          clearTimeout(this.hovering);
          this.hoverRequest?.abort();
          this.tooltip.hide();
          this.redraw();
        },
        anchor: (x) => this.edgeAt(x),
      },
      { pansWithShift: true },
    );
  }

  private timeAt(x: number): bigint {
    const { view, tree } = this.session;
    const at = view.startNs + BigInt(Math.round((x / Math.max(1, tree.widthPx)) * Number(view.endNs - view.startNs)));
    return at < 0n ? 0n : at > view.widthNs ? view.widthNs : at;
  }

  /** A page cannot read a file by its path: it says what to type. */
  private dropped(event: DragEvent): void {
    event.preventDefault();
    const names = [...(event.dataTransfer?.files ?? [])].map(({ name }) => quoted(name));
    if (!names.length) return;
    const known = this.session.files.map((file) => input(file) ?? quoted(file.info.name));
    this.drop = `meantime view ${[...(this.source.isEmbedded ? [] : known), ...names].join(" ")}`;
    this.showNotice();
  }

  /** The place of the other edge of the range, if one is at x. */
  private edgeAt(x: number): number | null {
    const { session } = this;
    if (!session.range) return null;
    const place = (ns: bigint) => session.view.ratio(ns) * session.tree.widthPx;
    const [left, right] = [place(session.range.from), place(session.range.to)];
    if (Math.abs(x - right) <= EDGE_PX) return left;
    return Math.abs(x - left) <= EDGE_PX ? right : null;
  }

  /** Digits and then a unit show so much time. */
  private typeNumber(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target as Element).matches?.("input, select, textarea") || this.help.isOpen) return;
    const { key } = event;
    const tab = event.shiftKey ? /^Digit([1-5])$/.exec(event.code) : null;
    if (tab) {
      // the same keys on every layout
      this.answers.panel.open(TABS[Number(tab[1]) - 1]!);
      event.preventDefault();
      event.stopPropagation();
      return;
    }
    if (/^[1-9]$/.test(key) || (this.typed && /^[\d.]$/.test(key))) this.typed += key;
    else if (this.typed && key === "Backspace") this.typed = this.typed.slice(0, -1);
    else if (this.typed && UNIT_NS[key]) {
      const width = BigInt(Math.round(Number(this.typed) * Number(UNIT_NS[key])));
      this.typed = "";
      const { view } = this.session;
      const middle = (view.startNs + view.endNs) / 2n;
      if (width > 0n) {
        this.step();
        this.session.go(middle - width / 2n, middle + width - width / 2n);
      }
    } else {
      if (key !== "Shift") this.typed = "";
      this.message.textContent = "";
      return;
    }
    this.message.textContent = this.typed ? `show ${this.typed} … s, m(s), u(s) or n(s)` : "";
    event.preventDefault();
    event.stopPropagation();
  }

  private ofLane(action: (lane: Lane) => void): void {
    const lane = this.session.tree.current ?? this.session.thing?.lane ?? null;
    if (!lane) return;
    action(lane);
    this.speakOf(this.session.tree.current ?? lane);
    this.redraw();
  }

  /** Says what a lane is. */
  private speakOf(lane: Lane): void {
    const { tree } = this.session;
    const states = [lane.opens && (lane.open ? "open" : "closed"), tree.isPinned(lane) && "kept at the top"];
    this.spoken.textContent = [`Lane ${lane.title}`, lane.detail, lane.sub, ...states].filter(Boolean).join(", ");
  }

  private keys(): Key[] {
    const zoom = (factor: number) => {
      this.session.stop();
      this.session.view.zoom(factor, this.pointer ? this.pointer.x / Math.max(1, this.session.tree.widthPx) : 0.5);
      this.moved();
    };
    const pan = (part: number) => {
      this.session.stop();
      this.session.view.pan(part);
      this.moved();
    };
    const edge = (which: "from" | "to") => {
      const { session } = this;
      const ns = session.view.startNs + BigInt(Math.round((this.pointer?.x ?? session.tree.widthPx / 2) * session.perPixel));
      const range = session.range ?? { from: 0n, to: session.view.widthNs };
      const next = { ...range, [which]: ns };
      if (next.from >= next.to) return;
      session.setRange(next);
      this.spoken.textContent = `Range of ${exact(next.to - next.from)}, from ${exact(next.from)}`;
    };
    return [
      { keys: ["w", "+", "="], label: "W", help: "zoom in at the pointer", action: () => zoom(0.8) },
      { keys: ["s", "-"], label: "S", help: "zoom out", action: () => zoom(1.25) },
      { keys: ["a"], label: "A", help: "to the left", action: () => pan(-0.2) },
      { keys: ["d"], label: "D", help: "to the right", action: () => pan(0.2) },
      { keys: ["ArrowLeft"], label: "←", help: "previous thing in the row", action: () => void this.stepThing(-1) },
      { keys: ["ArrowRight"], label: "→", help: "next thing in the row", action: () => void this.stepThing(1) },
      { keys: ["ArrowUp", "ArrowDown"], label: "↑ ↓", help: "lane above, below", action: (key) => this.stepLane(key === "ArrowUp" ? -1 : 1) },
      { keys: ["Home", "End"], label: "Home End", help: "first, last lane", action: (key) => this.stepLane(key === "Home" ? "first" : "last") },
      {
        keys: ["f"],
        label: "F",
        help: "fit the selection",
        action: () => {
          this.step();
          this.session.fitSelection();
        },
      },
      {
        keys: ["0"],
        help: "whole trace",
        action: () => {
          this.step();
          this.session.showAll();
        },
      },
      { keys: ["1…9"], label: "5 0 m", help: "show 50 ms: digits, then s, m, u or n", action: () => {} },
      { keys: ["[", "]"], label: "[ ]", help: "the range begins, ends at the pointer", action: (key) => edge(key === "[" ? "from" : "to") },
      {
        keys: ["k"],
        label: "K",
        help: "mark the time at the pointer: what was everything doing?",
        action: () => {
          const { session } = this;
          const x = this.pointer?.x;
          if (x === undefined && session.thing) session.mark = null;
          if (x === undefined && session.thing) this.answers.panel.open("moment");
          else this.markAt(this.timeAt(x ?? session.tree.widthPx / 2));
        },
      },
      ...(this.session.differences ? [{ keys: ["x"], label: "X", help: "what changed between the two runs", action: () => this.answers.panel.open("changes") }] : []),
      { keys: ["i"], label: "I", help: "the selection: callers, what is inside, its rank, arguments", action: () => this.answers.panel.open("thing") },
      { keys: ["y"], label: "Y", help: "why the thread took its time, in traces of a scheduler", action: () => this.answers.panel.open("why") },
      { keys: ["r"], label: "R", help: "requests of services, and the calls of one", action: () => this.answers.panel.open("requests") },
      { keys: ["/"], help: "search, go to a time, find a command (>)", action: () => this.field.focus() },
      { keys: ["n"], label: "N", help: "next match", action: () => this.field.go(1) },
      { keys: ["p"], label: "P", help: "previous match", action: () => this.field.go(-1) },
      { keys: ["Escape"], help: "clear the selection, the search, then back", action: () => this.escape() },
      { keys: [" "], label: "Space", help: "open or close the lane", action: () => this.ofLane((lane) => lane.opens && this.session.tree.toggle(lane)) },
      { keys: ["."], help: "keep the lane at the top, or no longer", action: () => this.ofLane((lane) => this.session.tree.pin(lane)) },
      { keys: ["h"], label: "H", help: "hide the lane", action: () => this.ofLane((lane) => this.session.tree.hide(lane)) },
      { keys: ["Shift+ArrowUp", "Shift+ArrowDown"], label: "Shift + ↑ ↓", help: "move the lane up, down", action: (key) => this.ofLane((lane) => this.session.tree.shift(lane, key === "ArrowUp" ? -1 : 1)) },
      { keys: ["u"], label: "U", help: "show the hidden lanes", action: () => this.session.tree.showHidden() },
      { keys: ["o"], label: "O", help: "sort lanes: importance, trace, name, first activity, time", action: () => void this.sortLanes(ORDERS[(ORDERS.indexOf(this.order) + 1) % ORDERS.length]!).then(() => this.say(`Lanes ${ORDER_NAMES[this.order] ?? ""}`)) },
      { keys: ["g"], label: "G", help: "lower or higher lanes", action: () => this.stepDensity() },
      { keys: ["1…5"], label: "Shift + 1 … 5", help: "what stands out, statistics, flame graph, heat map, what was found", action: () => {} },
      { keys: ["v"], label: "V", help: "fold or unfold libraries in the flame graph", action: () => this.answers.fold.toggle() },
      {
        keys: ["c"],
        label: "C",
        help: "copy the command",
        action: () => {
          if (this.answers.command === null) this.say("No command prints what is shown here");
          else this.status.copyCommand();
        },
      },
      { keys: ["l"], label: "L", help: "copy the link", action: () => this.share() },
      { keys: ["m"], label: "M", help: "note on the selection", action: () => this.note() },
      ...(this.session.info.sql ? [{ keys: ["q"], label: "Q", help: "SQL", action: () => this.openSql() }] : []),
      { keys: ["e"], label: "E", help: "save what is seen as SVG", action: () => this.save("svg") },
      { keys: ["t"], label: "T", help: "light or dark", action: () => this.theme.toggle() },
      ...(this.tour ? [{ keys: [], label: "Page ↓ ↑", help: "next and previous step of the tour", action: () => {} }] : []),
      { keys: ["?"], help: "this list", action: () => this.help.toggle() },
    ];
  }

  private stepLane(by: 1 | -1 | "first" | "last"): void {
    const { session } = this;
    if (!session.tree.current && session.thing) session.tree.current = session.thing.lane;
    session.tree.step(by);
    const lane = session.tree.current;
    if (lane) this.speakOf(lane);
    this.answers.invalidate();
    this.redraw();
  }

  private escape(): void {
    const { session } = this;
    if (session.scene.lit || this.field.text) {
      this.field.text = "";
      this.lightName(null);
      this.answers.lit = null;
    } else if (session.clear()) {
      this.spoken.textContent = "Nothing is selected";
      return;
    } else if (session.tree.current) session.tree.current = null;
    else stepBack();
    this.answers.invalidate();
    this.redraw();
  }
}

/** What can be selected of an answer. */
function thingAt(lane: TileLane, row: number, at: At): Thing | null {
  const { item } = at;
  if (!item || !("start_ns" in item) || lane.kind === "counter") return null;
  const { name, start_ns, end_ns } = item as StateItem | SpanItem | EntityItem;
  const span = "span" in item && typeof item.span === "number" ? item.span : null;
  return { lane, row, name, startNs: BigInt(start_ns), endNs: BigInt(end_ns), span, at };
}

/** Whether a text in the search field is a command. */
function isCommand(text: string): boolean {
  return text.trimStart().startsWith(">");
}

function megabytes(bytes: number): string {
  return bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${grouped(Math.round(bytes / 1e6))} MB`;
}

const SVG = "http://www.w3.org/2000/svg";

/** The sign of meantime: states in rows. */
function mark(): SVGElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 18 18");
  svg.setAttribute("aria-hidden", "true");
  const boxes = [["#2a9d6b", 1, 2, 9], ["#e2a32c", 11, 2, 6], ["#9aa3b8", 1, 7, 4], ["#2a9d6b", 6, 7, 11], ["#e2a32c", 1, 12, 12], ["#d6493a", 14, 12, 3]] as const;
  for (const [fill, x, y, width] of boxes) {
    const box = document.createElementNS(SVG, "rect");
    for (const [key, value] of Object.entries({ fill, x, y, width, height: 4, rx: 1 })) box.setAttribute(key, String(value));
    svg.append(box);
  }
  return svg;
}

const HANDS = [
  { what: "wheel", help: "zoom at the pointer" },
  { what: "Ctrl + wheel", help: "scroll the lanes" },
  { what: "Shift + wheel", help: "move in time" },
  { what: "drag", help: "move" },
  { what: "Shift + drag", help: "select a range; its edges can be dragged" },
  { what: "click", help: "select a thing" },
  { what: "double click", help: "fit a thing" },
  { what: "pinch", help: "zoom" },
  { what: "long press, then drag", help: "select a range" },
  { what: "the signs beside a name", help: "keep a lane at the top, hide it" },
  { what: "drag in the minimap", help: "move the part in view" },
  { what: "click on the time axis", help: "mark a time: what was everything doing?" },
  { what: "drag in the heat map", help: "select a part of every period" },
  { what: "drag a name", help: "move the lane" },
];

