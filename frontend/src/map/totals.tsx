/** The totals beside the map: states, the legend of colours, and the hardware. Each of them filters the map. */

import type { ComponentChildren } from "preact";
import type { DeviceKind, MapScreen } from "../types.ts";
import { numberOf } from "./lit.ts";
import { type Category, type ColourBy, STATES, totalOf } from "./model.ts";
import { StateSwatch, Swatch } from "./patterns.tsx";

const FILTER_KEY: Partial<Record<ColourBy, string>> = {
  namespace: "ns",
  workload: "workload",
  product: "product",
  driver: "driver",
};
const MOST = 14;

export function Totals({
  map,
  categories,
  colourBy,
  search,
  onToggle,
}: {
  map: MapScreen;
  categories: Category[];
  colourBy: ColourBy;
  search: string;
  onToggle: (key: string, value: string) => void;
}) {
  const total = totalOf(map.totals);
  const states = Object.keys(STATES).filter((state) => map.totals[state]);
  const others = Object.keys(map.totals).filter((state) => !(state in STATES) && map.totals[state]);
  const key = FILTER_KEY[colourBy];
  const isOn = (name: string, value: string) => search.includes(`${name}:${value}`) || search.includes(`${name}:"${value}"`);
  return (
    <div class="totals">
      <section aria-labelledby="totals-states">
        <h2 id="totals-states">Devices</h2>
        <StateBar totals={map.totals} states={[...states, ...others]} total={total} />
        <ul class="legend">
          {[...states, ...others].map((state) => (
            <li key={state}>
              <button type="button" aria-pressed={isOn("state", state)} onClick={() => onToggle("state", state)}>
                <StateSwatch state={state} />
                <span class="legend-name">{STATES[state] ?? state}</span>
                <span class="legend-count">{(map.totals[state] ?? 0).toLocaleString("en")}</span>
              </button>
            </li>
          ))}
        </ul>
      </section>
      {key && categories.length > 0 && (
        <section aria-labelledby="totals-colours">
          <h2 id="totals-colours">{colourBy === "namespace" ? "Namespaces" : `By ${colourBy}`}</h2>
          <ul class="legend">
            {categories.slice(0, MOST).map((category) => (
              <li key={category.name}>
                <button
                  type="button"
                  aria-pressed={isOn(key, category.name)}
                  data-category={numberOf(`category ${category.name}`)}
                  onClick={() => onToggle(key, category.name)}
                >
                  <Swatch index={category.index} />
                  <span class="legend-name" title={category.name}>
                    {category.name}
                  </span>
                  <span class="legend-count">{category.count.toLocaleString("en")}</span>
                </button>
              </li>
            ))}
          </ul>
          {categories.length > MOST && <p class="hint">and {categories.length - MOST} more, found by the search</p>}
        </section>
      )}
      <section aria-labelledby="totals-kinds">
        <h2 id="totals-kinds">Hardware</h2>
        <ul class="legend">
          {(map.kinds ?? [])
            .filter((kind) => kind.count)
            .sort((a, b) => (b.count ?? 0) - (a.count ?? 0))
            .slice(0, MOST)
            .map((kind) => (
              <KindRow key={`${kind.driver} ${kind.product}`} kind={kind} isOn={isOn} onToggle={onToggle} />
            ))}
        </ul>
      </section>
      <MarksLegend />
    </div>
  );
}

function KindRow({
  kind,
  isOn,
  onToggle,
}: {
  kind: DeviceKind;
  isOn: (name: string, value: string) => boolean;
  onToggle: (key: string, value: string) => void;
}) {
  const name = kind.product || kind.driver;
  const key = kind.product ? "product" : "driver";
  return (
    <li>
      <button type="button" aria-pressed={isOn(key, name)} onClick={() => onToggle(key, name)}>
        <span class="legend-name" title={`${kind.product ?? ""} · ${kind.driver}`}>
          {name.replace(/^NVIDIA /, "")}
          {kind.memory && <span class="soft"> {kind.memory}</span>}
        </span>
        <span class="legend-count">{(kind.count ?? 0).toLocaleString("en")}</span>
      </button>
    </li>
  );
}

export function StateBar({ totals, states, total }: { totals: Record<string, number>; states: string[]; total: number }) {
  let x = 0;
  return (
    <svg
      class="state-bar"
      viewBox="0 0 240 14"
      preserveAspectRatio="none"
      role="img"
      aria-label={states.map((state) => `${totals[state]} ${STATES[state] ?? state}`).join(", ") || "no devices"}
    >
      {states.map((state) => {
        const width = total ? ((totals[state] ?? 0) / total) * 240 : 0;
        const box = { x, y: 0.5, width: Math.max(0.8, width - 1), height: 13 };
        x += width;
        return (
          <g key={state}>
            <rect class={`fill s-${state}`} {...box} />
            {["blocked", "tainted", "unschedulable"].includes(state) && <rect {...box} fill={`url(#p-${state})`} />}
            <rect class="edge" {...box} />
          </g>
        );
      })}
    </svg>
  );
}

/** An entry of the legend: a device in a state, with a mark. */
function Mark({ state, name, children }: { state: string; name: string; children: ComponentChildren }) {
  return (
    <li>
      <svg class="swatch" viewBox="0 0 14 14" aria-hidden="true">
        <rect class={`fill ${state}`} x="0.5" y="0.5" width="13" height="13" rx="2" />
        {children}
      </svg>
      {name}
    </li>
  );
}

function MarksLegend() {
  return (
    <details class="marks">
      <summary>Marks</summary>
      <ul class="legend legend-plain">
        <Mark state="s-free" name="tainted device">
          <path class="mark-taint" d="M13.5 0.5v8l-8-8z" />
        </Mark>
        <Mark state="s-in-use" name="prepared by the driver">
          <circle class="mark-prepared" cx="5" cy="9" r="2.4" />
        </Mark>
        <Mark state="s-in-use" name="allocated, not prepared yet">
          <circle class="mark-unprepared" cx="5" cy="9" r="2.2" />
        </Mark>
        <Mark state="s-free" name="admin access">
          <rect class="mark-admin" x="3" y="3" width="8" height="8" rx="1" />
        </Mark>
        <Mark state="s-free" name="room, divided into slices">
          <path class="ticks" d="M4 13.5v-5M7.5 13.5v-5M11 13.5v-5" />
        </Mark>
      </ul>
    </details>
  );
}
