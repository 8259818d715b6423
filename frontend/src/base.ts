/** The path under which a proxy serves the page. Addresses in the browser begin with it, those inside of the page do not. */

import { options } from "preact";

const BASE = document.querySelector<HTMLMetaElement>('meta[name="allotment-base"]')?.content ?? "";

/** The address for the browser. */
export function inBrowser(address: string): string {
  return address.startsWith("/") ? BASE + address : address;
}

/** The path inside of the page. */
export function ownPath(path: string = location.pathname): string {
  return BASE && path.startsWith(BASE) ? path.slice(BASE.length) || "/" : path;
}

// Every link, so that it also leads to the page when it is copied or opened in another tab.
const before = options.vnode;
options.vnode = (vnode) => {
  const props = vnode.props as { href?: unknown };
  if (BASE && vnode.type === "a" && typeof props.href === "string") props.href = inBrowser(props.href);
  before?.(vnode);
};
