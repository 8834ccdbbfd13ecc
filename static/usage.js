// Draws the chart of a cluster's use from the same numbers as the table below it. Steps without a reading stay gaps.
"use strict";

(() => {
  const chart = document.getElementById("use-chart");
  if (!chart || !window.uPlot) return;
  const height = 210, least = 15000;
  let plot, drawnAt = 0, busy = false, data = null;

  const token = (name) => getComputedStyle(chart).getPropertyValue(name).trim();

  // tail keeps the end of a name, where the names of pods differ.
  const tail = (name) => (name.length <= 18 ? name : "…" + name.slice(-18));

  // align puts every series on one axis of time with a place for each step.
  function align(answer) {
    const step = answer.step_seconds;
    const first = Math.ceil(Date.parse(answer.from) / 1000 / step) * step;
    const last = Math.floor(Date.parse(answer.to) / 1000 / step) * step;
    const times = [];
    for (let at = first; at <= last; at += step) times.push(at);
    const series = new Map();
    for (const point of answer.points) {
      const key = [point.pod, point.pod_uid, point.gpu].join(" ");
      if (!series.has(key)) series.set(key, { label: tail(point.pod), values: new Array(times.length).fill(null), limit: null });
      const one = series.get(key), place = Math.round((Date.parse(point.at) / 1000 - first) / step);
      if (place < 0 || place >= times.length) continue;
      if (point.used_mib !== null) one.values[place] = point.used_mib / 1024;
      if (point.limit_mib !== null) one.limit = point.limit_mib / 1024;
    }
    return { times, series: [...series.entries()].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map((entry) => entry[1]) };
  }

  function options(aligned) {
    const colours = ["--s1", "--s2", "--s3", "--s4", "--s5", "--s6"].map(token);
    const unit = chart.dataset.unit;
    const two = (n) => String(n).padStart(2, "0");
    const clock = (seconds) => { const d = new Date(seconds * 1000); return `${two(d.getHours())}:${two(d.getMinutes())}`; };
    const day = (seconds) => { const d = new Date(seconds * 1000); return `${two(d.getMonth() + 1)}-${two(d.getDate())}`; };
    const long = aligned.times.at(-1) - aligned.times[0] > 2 * 86400;
    const axis = { stroke: token("--muted"), grid: { stroke: token("--line"), width: 1 }, ticks: { stroke: token("--line"), width: 1 }, font: "12px " + token("--sans") };
    const most = Math.max(1, ...aligned.series.map((s) => Math.max(s.limit ?? 0, ...s.values.map((v) => v ?? 0))));
    return {
      width: chart.clientWidth, height,
      scales: { y: { range: [0, most] } },
      axes: [{ ...axis, values: (_, ticks) => ticks.map(long ? day : clock) }, { ...axis, size: 64, values: (_, ticks) => ticks.map((t) => `${t} ${unit}`) }],
      series: [{ label: chart.dataset.time, value: (_, v) => (v ? `${long ? day(v) + " " : ""}${clock(v)}` : "–") }, ...aligned.series.map((s, i) => ({
        label: s.label, stroke: colours[i % colours.length], width: 2, spanGaps: false, points: { show: false },
        dash: i >= colours.length ? [6, 4] : undefined,
        value: (_, v) => (v === null || v === undefined ? "–" : `${v.toFixed(1)} ${unit}`),
      }))],
    };
  }

  function draw() {
    if (!data) return;
    const aligned = align(data);
    chart.hidden = aligned.series.length === 0;
    if (chart.hidden) return;
    document.getElementById("use-history-none")?.remove();
    const values = [aligned.times, ...aligned.series.map((s) => s.values)];
    if (plot && plot.series.length === values.length) {
      plot.setData(values);
      return;
    }
    plot?.destroy();
    plot = new uPlot(options(aligned), values, chart);
  }

  function redraw() {
    plot?.destroy();
    plot = null;
    draw();
  }

  async function load() {
    if (busy || Date.now() - drawnAt < least) return;
    busy = true;
    drawnAt = Date.now();
    try {
      const answer = await fetch(chart.dataset.src, { headers: { Accept: "application/json" } });
      if (answer.ok) {
        data = await answer.json();
        draw();
      }
    } catch {
      // the table is there; the next reading tries again
    } finally {
      busy = false;
    }
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new ResizeObserver(() => { if (plot && plot.width !== chart.clientWidth && chart.clientWidth > 0) plot.setSize({ width: chart.clientWidth, height }); }).observe(chart.parentElement);
  if (chart.hasAttribute("data-live")) document.addEventListener("htmx:sseMessage", (event) => { if (event.detail.type === "use") load(); });
  load();
})();
