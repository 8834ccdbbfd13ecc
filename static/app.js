// What a page does beyond htmx: times in the reader's zone, copy buttons, the stop dialog, and live refresh that comes
// back by itself. Everything else works without it.
"use strict";

(() => {
  const minute = 60, hour = 3600, day = 86400;

  // duration says the same as web.Localizer.Duration.
  function duration(seconds) {
    const [d, h, m, s] = document.body.dataset.units.split("|");
    const two = (n, unit, k, smaller) => (k ? `${n} ${unit} ${k} ${smaller}` : `${n} ${unit}`);
    if (seconds >= 2 * day) return two(Math.floor(seconds / day), d, Math.floor((seconds % day) / hour), h);
    if (seconds >= hour) return two(Math.floor(seconds / hour), h, Math.floor((seconds % hour) / minute), m);
    if (seconds >= 10 * minute) return two(Math.floor(seconds / minute), m, 0);
    if (seconds >= minute) return two(Math.floor(seconds / minute), m, seconds % minute, s);
    return two(seconds, s, 0);
  }

  const pad = (n) => String(n).padStart(2, "0");

  function clock(then) {
    const time = `${pad(then.getHours())}:${pad(then.getMinutes())}`;
    if (then.toDateString() === new Date().toDateString()) return time;
    return `${then.getFullYear()}-${pad(then.getMonth() + 1)}-${pad(then.getDate())} ${time}`;
  }

  function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function tellTimes() {
    for (const e of document.querySelectorAll("time[data-clock]")) setText(e, clock(new Date(e.dateTime)));
    for (const e of document.querySelectorAll("time[data-relative]")) {
      const seconds = Math.floor(Math.abs(new Date(e.dateTime) - Date.now()) / 1000);
      setText(e, e.dataset.relative.replace("{d}", duration(seconds)));
    }
  }

  function showCopyButtons() {
    if (!navigator.clipboard) return;
    for (const button of document.querySelectorAll("button[data-copy][hidden]")) button.hidden = false;
  }

  function refresh() {
    tellTimes();
    showCopyButtons();
  }

  async function copy(button) {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    const before = button.textContent;
    button.textContent = document.body.dataset.copied;
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(button);
    const opener = event.target.closest("[data-dialog]");
    const dialog = opener && document.getElementById(opener.dataset.dialog);
    if (dialog) {
      event.preventDefault();
      dialog.showModal();
    }
    const closer = event.target.closest("dialog [data-close]");
    if (closer) closer.closest("dialog").close();
  });

  // LiveSource is an EventSource that connects again by itself, later each time and never all browsers at once, and
  // that lets go while nobody looks: a browser has six connections to a site, however many pages are open.
  class LiveSource extends EventTarget {
    constructor(url) {
      super();
      this.url = url;
      this.readyState = EventSource.OPEN; // the htmx extension must not connect again as well
      this.failures = 0;
      this.names = new Set(["auth-expired"]);
      this.onVisible = () => (document.hidden ? this.pause() : this.resume());
      document.addEventListener("visibilitychange", this.onVisible);
      super.addEventListener("auth-expired", () => location.reload());
      this.connect();
    }

    connect() {
      clearTimeout(this.timer);
      this.source = new EventSource(this.url);
      this.source.onopen = () => this.opened();
      this.source.onerror = () => this.failed();
      for (const name of this.names) this.forward(name);
    }

    forward(name) {
      this.source?.addEventListener(name, (event) => {
        this.dispatchEvent(new MessageEvent(name, { data: event.data, lastEventId: event.lastEventId }));
      });
    }

    addEventListener(name, listener) {
      super.addEventListener(name, listener);
      if (this.names.has(name)) return;
      this.names.add(name);
      this.forward(name);
    }

    opened() {
      this.failures = 0;
      lost(false);
      this.onopen?.(new Event("open"));
    }

    failed() {
      this.disconnect();
      this.failures++;
      lost(this.failures > 1);
      const wait = Math.min(5000 * 2 ** (this.failures - 1), 60000);
      this.timer = setTimeout(() => this.connect(), wait * (1 + Math.random()));
    }

    pause() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.disconnect(), 30000);
    }

    resume() {
      clearTimeout(this.timer);
      if (!this.source && !this.closed) this.connect();
    }

    disconnect() {
      clearTimeout(this.timer);
      this.source?.close();
      this.source = null;
    }

    close() {
      this.closed = true;
      this.disconnect();
      document.removeEventListener("visibilitychange", this.onVisible);
    }
  }

  function lost(is) {
    const notice = document.getElementById("live-lost");
    if (notice) notice.hidden = !is;
  }

  if (window.htmx) {
    htmx.createEventSource = (url) => new LiveSource(url);
    document.addEventListener("htmx:sseMessage", refresh);
    document.addEventListener("htmx:afterSwap", refresh);
  }
  document.getElementById("problem")?.focus();
  refresh();
  setInterval(tellTimes, 10000);
})();
