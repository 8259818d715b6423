/** What is known about the device that is pointed at, or that was chosen. */

import { namespaced } from "../address.ts";
import { ObjectLink } from "../parts/parts.tsx";
import { counted } from "../parts/text.ts";
import type { MapDevice, MapNode, MapScreen } from "../types.ts";
import { possibilities } from "./describe.ts";
import { driverOf, holdersOf, productOf, STATES, workloadKey } from "./model.ts";
import type { Piece } from "./spans.ts";

export interface Inspected {
  node: MapNode;
  piece: Piece<MapDevice>;
}

/** How many devices the workload of a holder has in all. */
function extent(map: MapScreen, key: string): { devices: number; nodes: number } {
  let devices = 0;
  let nodes = 0;
  for (const node of map.nodes ?? []) {
    const count = (node.devices ?? []).filter((device) => holdersOf(map, device).some((holder) => workloadKey(holder) === key)).length;
    devices += count;
    nodes += count ? 1 : 0;
  }
  return { devices, nodes };
}

export function Inspector({
  map,
  inspected,
  isPinned,
  onClose,
}: {
  map: MapScreen;
  inspected: Inspected;
  isPinned: boolean;
  onClose: () => void;
}) {
  const { node, piece } = inspected;
  const [device] = piece.devices;
  if (!device) return null;
  const holders = piece.isRoom ? [] : holdersOf(map, device);
  const isRoom = piece.isRoom && piece.devices.length > 1;
  const kind = map.kinds?.[device.kind ?? 0];
  const used = holders.length ? (device.used ?? 0) : 0;
  const name = isRoom ? device.card || device.name : device.name;
  return (
    <aside class={`inspector${isPinned ? " pinned" : ""}`} aria-label="Chosen device">
      <div class="inspector-head">
        <div>
          <strong>{isPinned ? <ObjectLink kind="device" name={`${device.pool || node.name}/${device.name}`}>{name}</ObjectLink> : name}</strong>
          <span class="inspector-state">
            {isRoom ? "room on this card" : (STATES[device.state] ?? device.state)}
          </span>
        </div>
        {isPinned && (
          <button type="button" class="quiet" onClick={onClose} aria-label="Close (Escape)">
            ✕
          </button>
        )}
      </div>
      <dl class="facts">
        <div>
          <dt>Node</dt>
          <dd>{node.name ? <ObjectLink kind="node" name={node.name} /> : "several"}</dd>
        </div>
        <div>
          <dt>Hardware</dt>
          <dd>
            {productOf(map, device) || driverOf(map, device)}
            {kind?.memory && <span class="soft"> · {kind.memory}</span>}
          </dd>
        </div>
        {isRoom && (
          <div>
            <dt>Room for</dt>
            <dd>
              <ul class="plain">
                {possibilities(map, piece).map((text) => (
                  <li key={text}>{text}</li>
                ))}
              </ul>
            </dd>
          </div>
        )}
        {device.taints?.length ? (
          <div>
            <dt>Taints</dt>
            <dd class="mono">{device.taints.join(", ")}</dd>
          </div>
        ) : null}
        {used > 0 && (
          <div>
            <dt>Used</dt>
            <dd>{Math.round(used * 100)} %</dd>
          </div>
        )}
        {device.prepared !== undefined && (
          <div>
            <dt>Prepared</dt>
            <dd>{device.prepared ? "yes, by the driver" : "not yet"}</dd>
          </div>
        )}
        {device.adminAccess && (
          <div>
            <dt>Access</dt>
            <dd>also by an administrator</dd>
          </div>
        )}
        {node.unschedulable && (
          <div>
            <dt>Note</dt>
            <dd>{typeof node.unschedulable === "string" ? node.unschedulable : "the node is cordoned"}</dd>
          </div>
        )}
        {(node.problems ?? []).map((problem) => (
          <div key={problem}>
            <dt>Problem</dt>
            <dd>{problem}</dd>
          </div>
        ))}
      </dl>
      {holders.slice(0, 8).map((holder, index) => {
        const all = extent(map, workloadKey(holder));
        return (
          <div class="holder" key={index}>
            <div>
              {holder.pods?.length ? (
                holder.pods.slice(0, 3).map((pod) => (
                  <ObjectLink key={pod} kind="pod" {...namespaced(pod)} />
                ))
              ) : (
                <span class="soft">no pod</span>
              )}
              {holder.isAdmin && <span class="tag">admin access</span>}
            </div>
            {holder.claim && (
              <div class="soft">
                claim <ObjectLink kind="claim" {...namespaced(holder.claim)} />
              </div>
            )}
            {all.devices > 1 && (
              <div class="soft">
                {holder.workload || "the same"} has {counted(all.devices, "device")} on {counted(all.nodes, "node")}
              </div>
            )}
          </div>
        );
      })}
      {holders.length > 8 && <p class="soft">and {counted(holders.length - 8, "more claim")}</p>}
      <p class="hint">{isPinned ? "Enter opens its page, Escape closes this." : "Click or press Enter to keep this open."}</p>
    </aside>
  );
}
