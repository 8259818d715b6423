/** The address of the page: each screen, filter and selection is a link that can be sent to somebody. */

import { useEffect, useState } from "preact/hooks";
import { inBrowser, ownPath } from "./base.ts";

export interface Address {
  path: string;
  query: URLSearchParams;
  fragment: string;
}

const listeners = new Set<() => void>();

export function currentAddress(): Address {
  return {
    path: decodeURI(ownPath()),
    query: new URLSearchParams(location.search),
    fragment: location.hash.slice(1),
  };
}

function changed(): void {
  for (const listener of listeners) listener();
}

window.addEventListener("popstate", changed);

/** Go to an address of this page. With `replace`, the previous one leaves the browser's history. */
export function go(href: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, "", inBrowser(href));
  else {
    history.pushState(null, "", inBrowser(href));
    window.scrollTo(0, 0);
  }
  changed();
}

/** The address with some parameters changed; an empty one is removed. */
export function withQuery(changes: Record<string, string>, from: Address = currentAddress()): string {
  const query = new URLSearchParams(from.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const text = query.toString();
  return encodeURI(from.path) + (text ? `?${text}` : "") + (from.fragment ? `#${from.fragment}` : "");
}

export function useAddress(): Address {
  const [address, setAddress] = useState(currentAddress);
  useEffect(() => {
    const update = () => setAddress(currentAddress());
    listeners.add(update);
    update();
    return () => void listeners.delete(update);
  }, []);
  return address;
}

/** Follow links of this page without loading it again; others, and clicks with a modifier, are the browser's. */
export function followLinks(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || link.target || link.origin !== location.origin) return;
  if (link.hasAttribute("download") || link.dataset.plain !== undefined) return;
  const target = ownPath(link.pathname) + link.search + link.hash;
  if (link.pathname === location.pathname && link.search === location.search && link.hash) return;
  event.preventDefault();
  go(target);
}

/** The path of an object's page: each part is encoded, since names come from the cluster. */
export function objectPath({ kind, namespace, name }: { kind: string; namespace?: string; name: string }): string {
  const parts = [kind.toLowerCase(), ...(namespace ? [namespace] : []), ...name.split("/")];
  return `/objects/${parts.map(encodeURIComponent).join("/")}`;
}

/** Splits `namespace/name`. */
export function namespaced(name: string): { namespace: string; name: string } {
  const slash = name.indexOf("/");
  return slash < 0 ? { namespace: "", name } : { namespace: name.slice(0, slash), name: name.slice(slash + 1) };
}
