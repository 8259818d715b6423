/** Light or dark: as the system says, unless the reader chose one. */

import { useEffect, useState } from "preact/hooks";

export type Theme = "system" | "light" | "dark";
const KEY = "allotment.theme";

function stored(): Theme {
  try {
    const theme = localStorage.getItem(KEY);
    return theme === "light" || theme === "dark" ? theme : "system";
  } catch {
    return "system"; // a browser that stores nothing
  }
}

export function applyTheme(theme: Theme = stored()): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function isDark(): boolean {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colours of the style sheet as a canvas needs them, which does not know the functions of style sheets. */
export function resolvedColours(host: Element, names: readonly string[]): string[] {
  const probe = host.appendChild(document.createElement("span"));
  const colours = names.map((name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return colours;
}

const listeners = new Set<() => void>();
for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"])
  matchMedia(query).addEventListener("change", () => {
    for (const listener of listeners) listener();
  });

export function useTheme(): { theme: Theme; isDark: boolean; choose: (theme: Theme) => void } {
  const [theme, setTheme] = useState(stored);
  const [, setRound] = useState(0);
  useEffect(() => {
    const update = () => {
      setTheme(stored());
      setRound((round) => round + 1);
    };
    listeners.add(update);
    return () => void listeners.delete(update);
  }, []);
  return {
    theme,
    isDark: isDark(),
    choose(next) {
      try {
        localStorage.setItem(KEY, next);
      } catch {
        // Then the choice lasts as long as the page.
      }
      applyTheme(next);
      for (const listener of listeners) listener();
      setTheme(next);
    },
  };
}
