/** The JSON of the server, as the screens read it. Fields with defaults may be missing: the server omits them. */

export interface Cluster {
  name: string;
  place: "lab" | "cluster" | "snapshot" | "fleet" | "none";
  kube?: string;
  revision: number;
  seenAt?: string;
  connected?: boolean;
  error?: string;
  isReadOnly?: boolean;
  unread?: Record<string, string>;
  notes?: string[];
}

export interface Screen {
  cluster: Cluster;
  command?: string;
}

export type Totals = Record<string, number>;

export interface DeviceKind {
  driver: string;
  product?: string;
  memory?: string;
  count?: number;
}

export interface Holder {
  claim?: string;
  namespace?: string;
  pods?: string[];
  workload?: string;
  isAdmin?: boolean;
}

export interface MapDevice {
  name: string;
  kind?: number;
  state: string;
  holders?: number[];
  card?: string;
  span?: [number, number, number] | number[];
  used?: number;
  taints?: string[];
  adminAccess?: boolean;
  prepared?: boolean;
  pool?: string;
  driver?: string;
}

/** The devices of nodes with equal hardware. */
export interface NodeLayout {
  devices?: Pick<MapDevice, "name" | "kind" | "card" | "span" | "pool">[];
}

/** What distinguishes a device from those at the same place in other nodes. `at`: its position in the layout. */
export interface DeviceUse extends Pick<MapDevice, "holders" | "used" | "taints" | "adminAccess" | "prepared"> {
  at: number;
}

/** The devices of nodes with equal hardware; in each state the same values for all these nodes. */
export interface Layout {
  readonly free: MapDevice[];
  in: (state: string) => MapDevice[];
}

/** The layouts of a map by their text, so that later answers share their devices. */
export type Layouts = ReadonlyMap<string, Layout>;

/** A node as the server describes it: `states` has the positions of the devices that are not free. */
export interface NodeAnswer extends Omit<MapNode, "devices"> {
  layout: number;
  states?: Record<string, number[]>;
  devices?: DeviceUse[];
}

export interface MapNode {
  name: string;
  labels?: Record<string, string>;
  /** Why no pod is placed here. */
  unschedulable?: string | boolean;
  problems?: string[];
  devices?: MapDevice[];
}

export interface MapScreen extends Screen {
  totals: Totals;
  kinds?: DeviceKind[];
  holders?: Holder[];
  nodes?: MapNode[];
  layouts?: Layouts;
}

/** The map as the server describes it; with `since`, only the nodes that changed. */
export interface MapAnswer extends Omit<MapScreen, "nodes" | "layouts"> {
  layouts?: NodeLayout[];
  nodes?: NodeAnswer[];
  removed?: string[];
  since?: number;
}

export interface PendingGroup {
  id: string;
  code: string;
  summary?: string;
  sentence?: string;
  kind?: string;
  count: number;
  oldest?: string;
  namespaces?: string[];
  workloads?: string[];
  pods?: string[];
  first?: string;
  waits?: string;
  remedy?: string;
  next?: string;
}

export interface PendingScreen extends Screen {
  count?: number;
  groups?: PendingGroup[];
}

export interface FunnelStep {
  step: string;
  text: string;
  left?: number;
  lost?: string[];
  by?: string[];
  claims?: string[];
  isEnd?: boolean;
}

export interface Funnel {
  nodes?: string[];
  code?: string;
  claim?: string;
  request?: string;
  deviceClass?: string;
  steps?: FunnelStep[];
  /** 0: all devices. */
  wanted?: number;
  visible?: number;
}

export interface Nearest {
  device: string;
  what: string;
  actual?: string;
  wanted?: string;
  kind?: string;
  qualifier?: string;
}

export interface Change {
  text: string;
  object?: string;
  path?: string;
  becomes?: unknown;
  node?: string;
  remedy?: string;
}

export interface Refusal {
  code: string;
  summary: string;
  node?: string;
  claim?: string;
  request?: string;
  funnels?: Funnel[];
  nearest?: Nearest | null;
  changes?: Change[];
  otherwise?: Change[];
  kubernetes?: string;
}

export interface AllocatedDevice {
  request?: string;
  driver?: string;
  pool?: string;
  device: string;
  kind?: string;
  share?: Record<string, string>;
  adminAccess?: boolean;
}

export interface ClaimAllocation {
  name: string;
  devices?: AllocatedDevice[];
  template?: string;
  before?: boolean;
}

export interface Answer {
  kind: string;
  name: string;
  outcome: string;
  node?: string;
  claims?: ClaimAllocation[];
  reasons?: { headline?: Refusal; nodes?: { nodes: string[]; refused: Refusal }[]; fitting?: string[] } | null;
  owner?: string;
  notes?: string[];
  waits?: string;
  next?: string;
}

export interface Explanation {
  fits?: boolean;
  answers?: Answer[];
  notes?: string[];
}

export interface Remedy {
  id: number;
  texts?: string[];
  node?: string;
  command?: string;
  changeCommand?: string;
  isTryable?: boolean;
}

export interface GroupScreen extends Screen {
  group: PendingGroup;
  answer?: Answer;
  funnels?: Funnel[];
  nearest?: { sentence: string } | null;
  remedies?: Remedy[];
}

export interface Trial {
  fits?: boolean;
  node?: string;
  claims?: ClaimAllocation[];
  sentence?: string;
  answer?: Answer;
  diff?: string;
  command?: string;
  changeCommand?: string;
  assumed?: string[];
}

export interface ObjectName {
  kind: string;
  namespace?: string;
  name: string;
}

export interface ObjectItem extends ObjectName {
  state?: string;
}

export interface ObjectsScreen extends Screen {
  kinds?: { kind: string; count: number }[];
  items?: ObjectItem[];
  /** How many match, of which the first are listed. */
  matching?: number;
}

export interface Reference extends ObjectName {
  relation: string;
}

export interface TimelineEntry {
  time?: string;
  source?: string;
  reason?: string;
  text: string;
}

export interface ObjectScreen extends Screen, ObjectName {
  state?: string;
  sentence?: string;
  /** The group of `/pending/ID` to which a pending pod belongs. */
  group?: string;
  facts?: { name: string; value: string }[];
  refersTo?: Reference[];
  referredBy?: Reference[];
  timeline?: TimelineEntry[];
  yaml?: string;
}

export interface Position {
  line: number;
  column: number;
  endLine: number;
  endColumn: number;
}

export interface Finding extends Position {
  code: string;
  name?: string;
  level: string;
  message: string;
  file?: string;
  path?: string;
  subject?: string;
  help?: string;
  fix?: { text: string; safe?: boolean; replacements?: (Position & { text?: string })[] } | null;
}

export interface PlanMachine {
  node: string;
  instance?: string;
  zone?: string;
  capacityType?: string;
  usdPerHour?: string;
}

export interface Plan {
  verdict?: string;
  total?: string;
  bound?: string;
  gap?: number;
  machines?: PlanMachine[];
}

export interface AskOptions extends Screen {
  hardware?: { name: string; product?: string; gpus?: number; memory?: string; modes?: string[] }[];
  vocabulary?: {
    classes?: string[];
    drivers?: string[];
    attributes?: { driver: string; name: string; type?: string; values?: string[] }[];
    capacities?: { driver: string; name: string }[];
  };
  example?: string;
}

export interface AskAnswer extends Screen {
  check?: { findings?: Finding[]; summary?: Record<string, unknown> } | null;
  explanation?: Explanation | null;
  plan?: Plan | null;
  problems?: { message: string; line?: number; column?: number }[];
}

export interface PlannedCost {
  verdict?: string;
  machines?: { instance: string; count?: number; usdPerHour?: string; zone?: string; capacityType?: string }[];
  usdPerHour?: string;
  bound?: string | null;
  gapPercent?: number | null;
  unserved?: { pod: string; code?: string; text?: string }[];
  relaxations?: { what: string; total?: string; saves?: string }[];
}

export interface WhatIfScreen extends Screen {
  changes?: string[];
  changeCommand?: string;
  losing?: { pod: string; claim?: string; devices?: string[] }[];
  moving?: { pod: string; from?: string; to?: string }[];
  stranded?: { pod: string; code?: string; summary?: string; workload?: string; remedy?: string }[];
  counts?: Record<string, number>;
  notes?: string[];
  purchase?: PlannedCost | null;
  before?: Totals;
  after?: Totals;
  map?: MapAnswer | null;
  targets?: Record<string, string[]>;
}

export interface MoneyRow {
  name: string;
  devices?: number;
  perHour?: number | null;
}

export interface MoneyScreen extends Screen {
  currency?: string;
  perHour?: number;
  allocated?: number;
  idle?: number;
  nodesPriced?: number;
  nodesUnpriced?: number;
  unpriced?: string[];
  unpricedTypes?: string[];
  devicesHeld?: number;
  devicesFree?: number;
  byNamespace?: MoneyRow[];
  byWorkload?: MoneyRow[];
  byProduct?: MoneyRow[];
  plan?: PlannedCost | null;
}

export interface HistoryScreen extends Screen {
  revisions?: { revision: number; time?: string; text?: string }[];
}
