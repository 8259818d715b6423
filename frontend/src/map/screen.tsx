/** The map: the whole cluster on one screen, who has what, and what is pending. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { go, objectPath, useAddress, withQuery } from "../address.ts";
import { Choice, Empty, ObjectLink, ProblemNote, Waiting } from "../parts/parts.tsx";
import { counted } from "../parts/text.ts";
import { PendingStrip } from "../pending/strip.tsx";
import { Notes, ScreenHead, Unanswered, useClusterHeader } from "../shell/shell.tsx";
import { useTheme } from "../shell/theme.ts";
import { useTwin } from "../twin.ts";
import type { Holder, MapDevice, MapAnswer, MapScreen as DeviceMap, MapNode, PendingScreen as PendingAnswer } from "../types.ts";
import { CanvasMap, type Target } from "./canvas.tsx";
import { Cards, type Drawn, type Size } from "./drawing.tsx";
import { parseFilter, toggled } from "./filter.ts";
import { type Inspected, Inspector } from "./inspector.tsx";
import { light } from "./lit.ts";
import { neighbour } from "./movement.ts";
import { mergeMap } from "./merge.ts";
import { COLOURS, type ColourBy, type GroupBy, cardsFor, isFree, modelOf, possibleGroups, totalOf, workloadKey } from "./model.ts";
import { Patterns } from "./patterns.tsx";
import { type Piece } from "./spans.ts";
import { cordonText, MapTable } from "./table.tsx";
import { Totals } from "./totals.tsx";

/** Above this number of nodes, the map is drawn on a canvas. */
const MOST_IN_SVG = 500;

function isOneOf<T extends string>(values: readonly T[], value: string | null): value is T {
  return values.includes(value as T);
}

export function MapScreen({ path = "/map", hasPending = true }: { path?: string; hasPending?: boolean }) {
  const { value: map, problem } = useTwin<DeviceMap, MapAnswer>(path, {
    since: (value) => (path.includes("?") ? path : `${path}?since=${value.cluster.revision}`),
    merge: mergeMap,
  });
  // Asked for at the same time: it takes longer, and is shown above the map.
  const pending = useTwin<PendingAnswer>(hasPending ? "/pending" : "");
  useClusterHeader(map?.cluster);
  if (!map) {
    if (hasPending) return <Unanswered title="Map" what="the devices" problem={problem} />;
    return problem ? <ProblemNote problem={problem} /> : <Waiting what="the devices" />;
  }
  const total = totalOf(map.totals);
  const room = roomOf(map);
  return (
    <>
      {hasPending && (
        <ScreenHead title="Map" command={map.command}>
          {total ? (
            <>
              <strong>
                {room.free.toLocaleString("en")} of {counted(room.cards, room.isDivided ? "card" : "device")}
              </strong>{" "}
              {room.free === 1 ? "has" : "have"} room, on {counted(map.nodes?.length ?? 0, "node")}. Room in total is not room for
              one pod: <a href="/ask">ask for yours</a>.
            </>
          ) : (
            "No devices are published."
          )}
        </ScreenHead>
      )}
      {problem && <ProblemNote problem={problem} />}
      <Notes notes={map.cluster.notes} />
      {hasPending && <PendingStrip pending={pending} />}
      {total || map.nodes?.length ? (
        <MapView map={map} />
      ) : (
        <Empty title="There is nothing to draw">
          No driver publishes devices here. A fleet shows hardware without a cluster: <a href="/ask">ask</a> on “a fleet”.
        </Empty>
      )}
    </>
  );
}

/** The map with its search and legend; also used for the state after a change. */
export function MapView({ map }: { map: DeviceMap }) {
  const address = useAddress();
  const search = address.query.get("q") ?? "";
  const colour = address.query.get("colour");
  const colourBy: ColourBy = isOneOf(COLOURS, colour) ? colour : "namespace";
  const possible = possibleGroups(map);
  const wantedGroup = address.query.get("group");
  const groupBy: GroupBy = isOneOf(possible, wantedGroup) ? wantedGroup : "product";
  const view = address.query.get("view") === "table" ? "table" : "drawing";
  const filter = useMemo(() => parseFilter(search), [search]);
  const model = useMemo(() => modelOf(map, { filter, colourBy, groupBy }), [map, filter, colourBy, groupBy]);
  const chosenSize = address.query.get("size");
  const size = isOneOf(["large", "medium", "small", "tiny"], chosenSize) ? chosenSize : automaticSize(model.shown);
  const { theme, isDark } = useTheme();
  const [hovered, setHovered] = useState<Inspected | null>(null);
  const selected = address.query.get("device") ?? "";
  const pinned = useMemo(() => find(map, selected), [map, selected]);
  const root = useRef<HTMLDivElement>(null);

  const set = (changes: Record<string, string>, replace = false) => go(withQuery(changes), { replace });

  const drawn = useMemo<Drawn>(
    () => ({
      map,
      model,
      size: size === "tiny" ? "small" : size,
      categoryOf: (device: MapDevice, holder: Holder) => categoryName(map, colourBy, device, holder),
    }),
    [map, model, size, colourBy],
  );
  const epoch = `${size} ${colourBy} ${model.categories.map((category) => `${category.name}=${category.index}`).sort().join()} ${map.kinds?.length}`;

  // What is pinned stays lit while nothing is pointed at.
  function lightPinned(): void {
    if (!root.current) return;
    const piece = selected
      ? [...root.current.querySelectorAll(".piece")].find((element) => selectionOf(element) === selected)
      : null;
    light(root.current, piece ?? null);
    for (const element of root.current.querySelectorAll(".chosen")) element.classList.remove("chosen");
    piece?.classList.add("chosen");
  }
  useEffect(lightPinned, [selected, model, size]);

  function pointAt(event: Event): void {
    const element = (event.target as Element).closest(".piece, [data-category]");
    if (!root.current) return;
    if (!element) {
      setHovered(null);
      lightPinned();
      return;
    }
    light(root.current, element);
    if (element.classList.contains("piece")) setHovered(find(map, selectionOf(element)));
  }

  function leave(): void {
    setHovered(null);
    lightPinned();
  }

  function choose(name: string): void {
    set({ device: name === selected ? "" : name }, true);
  }

  /** With the keyboard, choosing again opens the page of the device: the links in the inspector are far away. */
  function chooseByKey(name: string): void {
    if (name !== selected || !pinned) return choose(name);
    const device = pinned.piece.devices[0];
    if (device) go(objectPath({ kind: "device", name: `${device.pool || pinned.node.name}/${device.name}` }));
  }

  function onKey(event: KeyboardEvent): void {
    const piece = (event.target as Element).closest(".piece");
    if (event.key === "Escape") {
      setHovered(null);
      if (selected) set({ device: "" }, true);
      return;
    }
    if (!piece) return;
    if (event.key === "Enter" || event.key === " ") {
      chooseByKey(selectionOf(piece));
      event.preventDefault();
      return;
    }
    const next = neighbour(root.current, piece, event.key);
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  // One device can be reached by the tabulator key; the arrow keys move from it to the others.
  useEffect(() => {
    const field = root.current?.querySelector(".field");
    const stop = field?.querySelector('.piece[tabindex="0"]');
    if (field && !stop) field.querySelector(".piece")?.setAttribute("tabindex", "0");
  });

  return (
    <div class="map" ref={root} onKeyDown={onKey} onPointerOver={pointAt} onPointerLeave={leave}>
      <Patterns />
      <Side>
        <Totals
          map={map}
          categories={model.categories}
          colourBy={colourBy}
          search={search}
          onToggle={(key, value) => set({ q: toggled(search, key, value) })}
        />
      </Side>
      <div class="map-main">
        <div class="tools" role="search">
          <label class="search">
            <span class="unseen">Search devices</span>
            <input
              type="search"
              placeholder="ns:team-a product:A100 free>2"
              spellcheck={false}
              autocomplete="off"
              value={search}
              aria-describedby="search-told"
              data-search
              onInput={(event) => set({ q: event.currentTarget.value }, true)}
            />
            <kbd aria-hidden="true">/</kbd>
          </label>
          <Choice label="Colour" value={colourBy} options={COLOURS} onChoose={(value) => set({ colour: value === "namespace" ? "" : value })} />
          <Choice
            label="Group"
            value={groupBy}
            options={possible}
            onChoose={(value) => set({ group: value === "product" ? "" : value })}
          />
          <Choice
            label="Size"
            value={chosenSize ?? "automatic"}
            options={["automatic", "large", "medium", "small", "tiny"]}
            onChoose={(value) => set({ size: value === "automatic" ? "" : value })}
          />
          <Choice
            label="View"
            value={view}
            options={["drawing", "table"]}
            onChoose={(value) => set({ view: value === "drawing" ? "" : value })}
          />
        </div>
        <p id="search-told" class={`search-told${filter.problem ? " is-problem" : ""}`} role="status">
          {filter.problem ||
            (search
              ? `${counted(model.matchingDevices, "device")} on ${counted(model.shown, "node")} ${model.matchingDevices === 1 ? "matches" : "match"}`
              : "")}
        </p>
        {!model.shown ? (
          <Empty title="Nothing matches">
            <button type="button" onClick={() => set({ q: "" })}>
              Remove the search
            </button>
          </Empty>
        ) : view === "table" ? (
          <MapTable map={map} model={model} />
        ) : size === "tiny" ? (
          <CanvasMap
            map={map}
            model={model}
            theme={`${theme} ${isDark} ${colourBy}`}
            onPoint={(target) => setHovered(target && inspectedOf(target))}
            onChoose={(target, isKey) =>
              (isKey ? chooseByKey : choose)(`${target.shown.node.name}/${target.piece.devices[0]?.name ?? ""}`)
            }
          />
        ) : (
          <div
            class="field"
            onFocusIn={(event) => {
              const piece = (event.target as Element).closest(".piece");
              if (piece) {
                for (const other of event.currentTarget.querySelectorAll('.piece[tabindex="0"]')) other.setAttribute("tabindex", "-1");
                piece.setAttribute("tabindex", "0");
              }
              pointAt(event);
            }}
            onFocusOut={leave}
            onClick={(event) => {
              const piece = (event.target as Element).closest(".piece");
              if (piece) choose(selectionOf(piece));
            }}
          >
            {model.groups.map((group) => (
              <section class="node-group" key={group.name}>
                {group.name && (
                  <h2>
                    <bdi>{group.name}</bdi>
                    <span class="soft">
                      {" "}
                      {counted(group.nodes.length, "node")} · {group.free.toLocaleString("en")} of {counted(group.devices, "card")} with
                      room
                    </span>
                  </h2>
                )}
                <div class={`nodes nodes-${size}`}>
                  {group.nodes.map((shown) => (
                    <article class={`node${shown.node.unschedulable ? " cordoned" : ""}`} key={shown.node.name}>
                      <div class="node-head">
                        {shown.node.name ? <ObjectLink kind="node" name={shown.node.name} /> : <span>shared by nodes</span>}
                        <NodeFlags node={shown.node} />
                        <span class="node-count" title="cards with room, and all">
                          {shown.facts.free}
                          <span class="soft">/{shown.facts.devices}</span>
                        </span>
                      </div>
                      <Cards shown={shown} drawn={drawn} epoch={epoch} />
                    </article>
                  ))}
                </div>
              </section>
            ))}
          </div>
        )}
      </div>
      {(hovered || pinned) && (
        <Inspector
          map={map}
          inspected={(hovered ?? pinned) as Inspected}
          isPinned={!hovered || (pinned !== null && hovered.piece.devices[0] === pinned.piece.devices[0])}
          onClose={() => set({ device: "" }, true)}
        />
      )}
      <span class="unseen" role="status">
        {selected && !pinned ? `${selected} is not in this cluster` : ""}
      </span>
    </div>
  );
}

/** How many cards have room; a card that is divided, or can be, counts once. */
function roomOf(map: DeviceMap): { free: number; cards: number; isDivided: boolean } {
  let free = 0;
  let cards = 0;
  let isDivided = false;
  for (const node of map.nodes ?? [])
    for (const card of cardsFor(node)) {
      cards += 1;
      free += card.devices.some(isFree) ? 1 : 0;
      isDivided ||= card.devices.length > 1;
    }
  return { free, cards, isDivided };
}

function categoryName(map: DeviceMap, by: ColourBy, device: MapDevice, holder: Holder): string {
  if (by === "namespace") return holder.namespace ?? "";
  if (by === "workload") return workloadKey(holder);
  if (by === "product") return map.kinds?.[device.kind ?? 0]?.product ?? "";
  return by === "driver" ? (device.driver ?? map.kinds?.[device.kind ?? 0]?.driver ?? "") : "";
}

const narrow = matchMedia("(max-width: 960px)");

/** Totals and legend: beside the map, or above it where the page is narrow, then closed. */
function Side({ children }: { children: ComponentChildren }) {
  const [isNarrow, setIsNarrow] = useState(narrow.matches);
  useEffect(() => {
    const update = () => setIsNarrow(narrow.matches);
    narrow.addEventListener("change", update);
    return () => narrow.removeEventListener("change", update);
  }, []);
  if (!isNarrow)
    return (
      <aside class="side" aria-label="Totals and legend">
        {children}
      </aside>
    );
  return (
    <details class="side side-narrow">
      <summary>Totals and legend</summary>
      {children}
    </details>
  );
}

function automaticSize(nodes: number): Size | "tiny" {
  if (nodes <= 15) return "large";
  if (nodes <= 60) return "medium";
  return nodes <= MOST_IN_SVG ? "small" : "tiny";
}

function selectionOf(piece: Element): string {
  return `${piece.getAttribute("data-node") ?? ""}/${piece.getAttribute("data-device") ?? ""}`;
}

function inspectedOf({ shown, piece }: Target): Inspected {
  return { node: shown.node, piece };
}

/** The device that an address or an element names as `NODE/DEVICE`. */
function find(map: DeviceMap, selection: string): Inspected | null {
  const slash = selection.lastIndexOf("/");
  if (slash < 0) return null;
  const node: MapNode | undefined = map.nodes?.find(({ name }) => name === selection.slice(0, slash));
  const device = node?.devices?.find(({ name }) => name === selection.slice(slash + 1));
  if (!node || !device) return null;
  return { node, piece: pieceOf(node, device) };
}

/** The piece that shows a device; room in which it is one of several possibilities starts with it. */
function pieceOf(node: MapNode, device: MapDevice): Piece<MapDevice> {
  for (const card of cardsFor(node))
    for (const piece of card.pieces) if (piece.devices.includes(device)) return piece;
  return { start: 0, end: 1, devices: [device], isRoom: false };
}

function NodeFlags({ node }: { node: MapNode }) {
  const problems = node.problems ?? [];
  return (
    <>
      {node.unschedulable && (
        <span class="flag" title={cordonText(node.unschedulable)}>
          {cordonText(node.unschedulable)}
        </span>
      )}
      {problems.length > 0 && (
        <span class="flag flag-problem" title={problems.join("\n")}>
          <span aria-hidden="true">!</span>
          <span class="unseen">{problems.join("; ")}</span>
        </span>
      )}
    </>
  );
}
