"""The web page: the latest picture, its device, and the drawing speed."""

from __future__ import annotations

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mandelbrot set, drawn by a shared GPU</title>
<link rel="icon" href="data:,">
<noscript><meta http-equiv="refresh" content="10"></noscript>
<style>
  :root { color-scheme: dark; }
  * { box-sizing: border-box; margin: 0; }
  body { min-height: 100vh; display: grid; place-content: center; gap: 18px; padding: 24px;
    background: radial-gradient(circle at 50% 30%, #1b2230, #0b0e14 70%); color: #c9d3e0;
    font: 15px/1.5 system-ui, "Segoe UI", "Helvetica Neue", "DejaVu Sans", sans-serif; }
  figure { position: relative; width: min(1100px, 100vw - 48px, (100vh - 130px) * 1.6); aspect-ratio: 8 / 5;
    border-radius: 14px; overflow: hidden; box-shadow: 0 24px 70px #000a, 0 0 0 1px #ffffff14; background: #0006; }
  img { position: absolute; inset: 0; width: 100%; height: 100%; object-fit: cover; opacity: 0;
    transition: opacity .7s; }
  img.seen { opacity: 1; }
  dl { display: flex; flex-wrap: wrap; justify-content: center; gap: 6px 34px; }
  dl > div { text-align: center; }
  dt { font-size: 11px; letter-spacing: .09em; text-transform: uppercase; color: #7d8a9c; }
  dd { color: #eef3f9; font-variant-numeric: tabular-nums; }
  p { text-align: center; color: #e6a15c; }
</style>
<figure><img class="seen" src="image.png" alt="A part of the Mandelbrot set"><img alt=""></figure>
<dl>
  <div><dt>Device</dt><dd id="device">&nbsp;</dd></div>
  <div><dt>Sharing</dt><dd id="strategy">&nbsp;</dd></div>
  <div><dt>Share</dt><dd id="share">&nbsp;</dd></div>
  <div><dt>Pictures</dt><dd id="images">&nbsp;</dd></div>
  <div><dt>Each takes</dt><dd id="seconds">&nbsp;</dd></div>
  <div><dt>Per minute</dt><dd id="per_minute">&nbsp;</dd></div>
</dl>
<p id="trouble" hidden>The application does not respond.</p>
<script>
  const at = id => document.getElementById(id);
  let [front, back] = document.images, shown = 0;
  const units = { seconds: s => s.toFixed(2) + " s", per_minute: n => n ? n.toFixed(1) : "–" };
  async function look() {
    try {
      const stats = await (await fetch("stats", { cache: "no-store" })).json();
      for (const id of ["device", "strategy", "share", "images", "seconds", "per_minute"])
        at(id).textContent = (units[id] || String)(stats[id]) || "–";
      if (shown && stats.images !== shown) {
        back.src = "image.png?" + stats.images;
        await back.decode();
        back.className = "seen"; front.className = "";
        [front, back] = [back, front];
      }
      shown = stats.images;
      at("trouble").hidden = true;
      setTimeout(look, Math.min(Math.max(stats.interval * 250, 1000), 5000));
    } catch { at("trouble").hidden = false; setTimeout(look, 2000); }
  }
  look();
</script>
</html>
"""
