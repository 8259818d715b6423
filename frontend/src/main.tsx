/** The page of `allot web`: chooses the screen by the address. */

import "./styles/base.css";
import "./styles/shell.css";
import "./styles/map.css";
import "./styles/pending.css";
import "./styles/screens.css";
import "./styles/forced.css";
import { Component, type ComponentChildren, render } from "preact";
import { useEffect } from "preact/hooks";
import { followLinks, useAddress } from "./address.ts";
import { AskScreen } from "./ask/screen.tsx";
import { ownPath } from "./base.ts";
import { HistoryScreen } from "./history/screen.tsx";
import { MapScreen } from "./map/screen.tsx";
import { MoneyScreen } from "./money/screen.tsx";
import { ObjectScreen } from "./objects/detail.tsx";
import { ObjectsScreen } from "./objects/list.tsx";
import { Empty, ProblemNote } from "./parts/parts.tsx";
import { PendingScreen } from "./pending/screen.tsx";
import { ScreenHead, Shell } from "./shell/shell.tsx";
import { applyTheme } from "./shell/theme.ts";
import { WhatIfScreen } from "./whatif/screen.tsx";

const TITLES: Record<string, string> = {
  map: "Map",
  pending: "Pending",
  ask: "Ask",
  objects: "Objects",
  "what-if": "What-if",
  money: "Money",
  history: "History",
};

function Chosen() {
  const { path } = useAddress();
  const [, section = "", ...rest] = path.split("/");
  const object = ownPath();
  useEffect(() => {
    const detail = rest.filter(Boolean).join("/");
    document.title = [detail, TITLES[section || "map"], "Allotment"].filter(Boolean).join(" · ");
  }, [path]);
  switch (section) {
    case "":
    case "map":
      return <MapScreen />;
    case "pending":
      return <PendingScreen id={rest.join("/")} />;
    case "ask":
      return <AskScreen />;
    case "objects":
      return rest.filter(Boolean).length > 1 ? <ObjectScreen key={object} path={object} /> : <ObjectsScreen kind={rest[0] ?? ""} />;
    case "what-if":
      return <WhatIfScreen />;
    case "money":
      return <MoneyScreen />;
    case "history":
      return <HistoryScreen />;
    default:
      return (
        <>
          <ScreenHead title="No such page" hasTwin={false} />
          <Empty title={path}>
            Start at the <a href="/map">map</a>.
          </Empty>
        </>
      );
  }
}

/** A screen that fails says so, instead of leaving the page blank. */
class Guard extends Component<{ children: ComponentChildren; path: string }, { error: unknown; path: string }> {
  override state = { error: null as unknown, path: this.props.path };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ error, path: this.props.path });
  }

  render({ children, path }: { children: ComponentChildren; path: string }) {
    if (this.state.error === null || this.state.path !== path) {
      this.state.error = null;
      return children;
    }
    return (
      <ProblemNote problem={{ title: "This screen cannot show its answer", detail: String(this.state.error), hint: "", status: 0 }}>
        <p>
          This is a defect. The same answer as <a href="?format=json" data-plain>JSON</a> may still help.
        </p>
      </ProblemNote>
    );
  }
}

function Page() {
  const { path } = useAddress();
  return (
    <Shell>
      <Guard path={path}>
        <Chosen />
      </Guard>
    </Shell>
  );
}

applyTheme();
document.addEventListener("click", followLinks);
document.addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  const isTyping = target.matches("input, textarea, select, [contenteditable]") || target.shadowRoot;
  if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = document.querySelector<HTMLInputElement>("[data-search]");
  if (!field) return;
  event.preventDefault();
  field.focus();
  field.select();
});
const app = document.getElementById("app");
if (app) {
  app.replaceChildren();
  render(<Page />, app);
}
