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

/** What is shown is complete at last after this time, for those who wait for it. */
const MOST_LOAD_MS = 20_000;

/**
 * Keeps the page from being called loaded until its data are drawn, so that a program that makes a
 * picture of it does not come too early. Returns what ends this.
 */
function holdLoad(body: HTMLElement): () => void {
  const frame = h("iframe", { attributes: { hidden: "" } });
  body.append(frame);
  // a document that is being written is not loaded, nor is the one that it is in
  frame.contentDocument?.open();
  const end = () => {
    frame.contentDocument?.close();
    frame.remove();
  };
  setTimeout(end, MOST_LOAD_MS);
  return end;
}

async function open(): Promise<void> {
  const { body } = document;
  const loaded = holdLoad(body);
  try {
    const embedded = embeddedSession();
    // the token is in the cookie now
    if (!embedded) history.replaceState(null, "", location.pathname + location.hash);
    const source = embedded ? new EmbeddedSource(embedded) : new ServerSource();
    const info = await source.session();
    if (info) void new ViewerPage(body, source, info, loaded);
  } catch (reason) {
    body.append(h("div", { class: "full" }, h("div", { class: "nothing" }, h("h2", {}, "The viewer cannot be shown"), h("p", {}, String(reason)))));
    loaded();
    throw reason;
  }
}

void open();
