/** What surrounds every screen: navigation, the cluster and its age, banners, the title with its command. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useAddress } from "../address.ts";
import { ownPath } from "../base.ts";
import { usePulse } from "../live.ts";
import { Command, ProblemNote, Waiting } from "../parts/parts.tsx";
import { ageText, localTime, useNow } from "../parts/time.ts";
import { type Problem, twinAddress } from "../server.ts";
import type { Cluster } from "../types.ts";
import { useTheme } from "./theme.ts";

const SCREENS = [
  { path: "/map", name: "Map" },
  { path: "/pending", name: "Pending" },
  { path: "/ask", name: "Ask" },
  { path: "/objects", name: "Objects" },
  { path: "/what-if", name: "What-if" },
  { path: "/money", name: "Money" },
];
const HISTORY = { path: "/history", name: "History" };

const PLACES: Record<Cluster["place"], string> = {
  lab: "lab",
  cluster: "cluster, read-only",
  snapshot: "snapshot",
  fleet: "fleet",
  none: "no cluster",
};

let lastCluster: Cluster | null = null;
const listeners = new Set<(cluster: Cluster) => void>();

/** Each screen tells the header of its answer; the shell shows the latest. */
export function useClusterHeader(cluster: Cluster | undefined): void {
  useEffect(() => {
    if (!cluster) return;
    lastCluster = cluster;
    for (const listener of listeners) listener(cluster);
  }, [cluster]);
}

export function lastKnownCluster(): Cluster | null {
  return lastCluster;
}

function useLastCluster(): Cluster | null {
  const [cluster, setCluster] = useState(lastCluster);
  useEffect(() => {
    listeners.add(setCluster);
    setCluster(lastCluster);
    return () => void listeners.delete(setCluster);
  }, []);
  return cluster;
}

export function Shell({ children }: { children: ComponentChildren }) {
  const { path } = useAddress();
  const cluster = useLastCluster();
  const section = `/${path.split("/")[1] ?? ""}`;
  const current = section === "/" ? "/map" : section;
  const screens = cluster?.place === "lab" || current === HISTORY.path ? [...SCREENS, HISTORY] : SCREENS;
  const nav = useRef<HTMLElement>(null);
  useEffect(() => {
    // On a narrow page the screens scroll sideways; the current one is visible.
    const link = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current && link) nav.current.scrollLeft = link.offsetLeft + link.offsetWidth / 2 - nav.current.clientWidth / 2;
  }, [current, screens.length]);
  return (
    <>
      <a class="skip" href="#content" data-plain>
        Skip to content
      </a>
      <header class="bar">
        <a class="brand" href="/map">
          <Mark />
          <span>Allotment</span>
        </a>
        <nav aria-label="Screens" ref={nav}>
          {screens.map(({ path: target, name }) => (
            <a key={target} href={target} aria-current={target === current ? "page" : undefined}>
              {name}
            </a>
          ))}
        </nav>
        <Where cluster={cluster} />
        <ThemeSwitch />
      </header>
      <Banners cluster={cluster} />
      <main id="content" tabIndex={-1}>
        {children}
      </main>
    </>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 16 16" aria-hidden="true">
      <rect class="mark-used" x="1" y="2" width="6" height="12" rx="1" />
      <rect class="mark-accent" x="9" y="2" width="6" height="5" rx="1" />
      <rect class="mark-free" x="9.5" y="9.5" width="5" height="4" rx="0.5" />
    </svg>
  );
}

function Where({ cluster }: { cluster: Cluster | null }) {
  const pulse = usePulse();
  if (!cluster) return <div class="where" />;
  const isLive = pulse.isServed && pulse.connected && cluster.connected !== false;
  const isStatic = cluster.place === "snapshot" || cluster.place === "fleet" || cluster.place === "none";
  return (
    <div class="where">
      <span class={`dot ${isStatic ? "dot-static" : isLive ? "dot-live" : "dot-away"}`} aria-hidden="true" />
      {cluster.place !== "none" && (
        <span class="where-name" title={cluster.name}>
          {cluster.name}
        </span>
      )}
      <span class="where-place">
        {PLACES[cluster.place] ?? cluster.place}
        {cluster.kube && ` · Kubernetes ${cluster.kube}`}
      </span>
    </div>
  );
}

function ThemeSwitch() {
  const { theme, choose } = useTheme();
  const order = ["system", "light", "dark"] as const;
  const next = order[(order.indexOf(theme) + 1) % order.length] ?? "system";
  return (
    <button
      type="button"
      class="quiet theme"
      onClick={() => choose(next)}
      aria-label={`Colours: ${theme}. Switch to ${next}`}
      title={`Colours: ${theme}`}
    >
      <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="5.5" />
        {theme !== "light" && <path class="icon-filled" d={theme === "dark" ? "M8 2.5a5.5 5.5 0 1 0 0 11a5.5 5.5 0 1 0 0-11" : "M8 2.5a5.5 5.5 0 0 1 0 11z"} />}
      </svg>
      <span class="theme-name">{theme}</span>
    </button>
  );
}

/** What the reader must know about the data: its age when the cluster is away, and what may not be read. */
function Banners({ cluster }: { cluster: Cluster | null }) {
  const pulse = usePulse();
  const now = useNow(1000);
  const isAway = !pulse.isServed || !pulse.connected || cluster?.connected === false;
  const seenAt = pulse.seenAt || cluster?.seenAt;
  const unread = Object.entries(cluster?.unread ?? {});
  return (
    <section class="banners" aria-label="Notices">
      {isAway && (
        <div class="banner banner-away" role="status">
          <strong>{pulse.isServed ? "The cluster does not respond." : "The server does not respond."}</strong>{" "}
          {seenAt && (
            <>
              The data is{" "}
              <time dateTime={seenAt} title={localTime(seenAt)}>
                {ageText(seenAt, now)}
              </time>{" "}
              old.{" "}
            </>
          )}
          The page reconnects automatically.
          {(pulse.error || cluster?.error) && <span class="banner-detail">{pulse.error || cluster?.error}</span>}
        </div>
      )}
      {unread.length > 0 && (
        <details class="banner">
          <summary>
            <strong>
              You may not list {unread.length > 3 ? `${unread.length} kinds` : unread.map(([kind]) => kind).join(", ")}.
            </strong>{" "}
            Answers that depend on them are incomplete.
          </summary>
          <dl class="facts">
            {unread.map(([kind, reason]) => (
              <div key={kind}>
                <dt>{kind}</dt>
                <dd>{reason}</dd>
              </div>
            ))}
          </dl>
        </details>
      )}
    </section>
  );
}

/** The path of the last title, and whether there was another before. */
let titledPath = location.pathname;
let hasChanged = false;

/** The title of a screen, what it says in one sentence, and how to get the same elsewhere. */
export function ScreenHead({
  title,
  command,
  children,
  hasTwin = true,
  isTitleFocused = true,
}: {
  title: ComponentChildren;
  command?: string | undefined;
  children?: ComponentChildren;
  hasTwin?: boolean;
  isTitleFocused?: boolean;
}) {
  const address = useAddress();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    // After a change of screen, readers and the keyboard continue at its title; not after loading the page. The title
    // that was shown until the answer came has lost the focus.
    const isChanged = location.pathname !== titledPath;
    hasChanged ||= isChanged;
    titledPath = location.pathname;
    if (isTitleFocused && (isChanged || (hasChanged && document.activeElement === document.body)))
      heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div class="head">
      <div class="head-text">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {children && <p class="lead">{children}</p>}
      </div>
      <div class="head-tools">
        {command && <Command text={command} />}
        {hasTwin && (
          <a class="quiet json" data-plain target="_blank" rel="noreferrer" href={twinAddress(ownPath() + location.search)} key={address.query.toString()}>
            JSON<span class="unseen"> of this page, in a new tab</span>
          </a>
        )}
      </div>
    </div>
  );
}

/** A screen without an answer: it is being read, or cannot be. */
export function Unanswered({
  title,
  what,
  problem,
  children,
}: {
  title: ComponentChildren;
  what: string;
  problem: Problem | null;
  children?: ComponentChildren;
}) {
  return (
    <>
      <ScreenHead title={title} />
      {problem ? <ProblemNote problem={problem}>{children}</ProblemNote> : <Waiting what={what} />}
    </>
  );
}

/** The notes of an answer about what it was made from. */
export function Notes({ notes }: { notes: readonly string[] | undefined }) {
  if (!notes?.length) return null;
  return (
    <ul class="notes">
      {notes.map((note) => (
        <li key={note}>{note}</li>
      ))}
    </ul>
  );
}
