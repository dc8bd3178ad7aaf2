/** The viewer: every trace over time, from a server or from the page itself. */

import "../shared/tokens.css";
import "../shared/page.css";
import "../shared/lanes.css";
import "../shared/panel.css";
import "../shared/flame-graph.css";
import "./viewer.css";
import { h } from "../shared/dom";
import { EmbeddedSource, embeddedSession } from "./embedded";
import { ServerSource } from "./source";
import { ViewerPage } from "./viewer-page";

async function open(): Promise<void> {
  const { body } = document;
  try {
    const embedded = embeddedSession();
    const source = embedded ? new EmbeddedSource(embedded) : new ServerSource();
    const info = await source.session();
    if (info) void new ViewerPage(body, source, info);
  } catch (reason) {
    body.append(h("div", { class: "full" }, h("div", { class: "nothing" }, h("h2", {}, "The viewer cannot be shown"), h("p", {}, String(reason)))));
    throw reason;
  }
}

void open();
