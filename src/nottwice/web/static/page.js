// Live updates, keys, and the stale banner. Every decision works without this file.
"use strict";
(() => {
  const [STALE_SECONDS, HIDDEN_SECONDS] = [10, 30];
  const body = document.body;
  const asof = document.querySelector("#asof time");
  const [liveness, stale, why, fresh] = ["liveness", "stale", "stale-why", "fresh"].map((id) =>
    document.getElementById(id));
  const refresh = body.dataset.refresh; // "announce" or "replace"
  let lastBeat = performance.now();
  let source = null;
  let mark = null;
  let openAtLoad = null; // how many reviews were open when the page was loaded
  let localTime = localStorage.getItem("nottwice-local") === "yes";

  const say = (state) => {
    liveness.dataset.state = state;
    liveness.textContent = state === "live" ? "● live" : state;
  };

  // A stale page must not record anything, because it may show what is no longer true.
  const setStale = (isStale) => {
    stale.hidden = !isStale;
    body.classList.toggle("is-stale", isStale);
    for (const button of document.querySelectorAll("main button")) button.disabled = isStale;
  };

  const showTimes = () => {
    for (const one of document.querySelectorAll("time")) {
      const at = new Date(one.dateTime);
      const exact = "exact" in one.dataset ? one.dateTime.slice(19, 23) : "";
      const utc = one.dateTime.replace("T", " ").slice(0, 19) + exact + " UTC";
      const pad = (number) => String(number).padStart(2, "0");
      const zone = at.toLocaleTimeString("en", { timeZoneName: "short" }).split(" ").pop();
      const local = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ` +
        `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}${exact} ${zone}`;
      one.textContent = localTime ? local : utc;
    }
  };

  // The page is fetched again and its parts are exchanged, unless a person is typing in it, reads
  // something that they have opened, or has selected or focused a part of it.
  const isInUse = () =>
    document.activeElement?.closest("main form, [data-part]") ||
    document.querySelector("[data-part] details[open]") ||
    !getSelection().isCollapsed;
  const replace = async () => {
    if (isInUse()) return announce();
    const answer = await fetch(location.href, { credentials: "same-origin" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-part]")) {
      const now = page.querySelector(`[data-part="${old.dataset.part}"]`);
      if (now) old.replaceWith(document.adoptNode(now));
    }
    showTimes();
  };

  const announce = (count) => {
    const link = fresh.querySelector("a");
    link.href = location.pathname + location.search;
    link.textContent = count > 0 ? `${count} new. Show.` : "Something changed. Show it.";
    fresh.hidden = false;
  };

  const onBeat = (event) => {
    const pulse = JSON.parse(event.data);
    lastBeat = performance.now();
    if (document.hidden) source.close();
    if (stale.hidden === false) setStale(false);
    why.textContent = "";
    say("live");
    asof.dateTime = pulse.at;
    showTimes();
    const title = document.title.replace(/^\(\d+\) /, "");
    document.title = pulse.open ? `(${pulse.open}) ${title}` : title;
    // What the page shows does not change until it is loaded again, so neither does this number.
    openAtLoad ??= pulse.open;
    if (mark !== null && mark !== pulse.mark) {
      if (refresh === "replace") replace();
      else announce(pulse.open - openAtLoad);
    }
    mark = pulse.mark;
  };

  const listen = () => {
    source?.close();
    const opened = (source = new EventSource(body.dataset.live));
    opened.addEventListener("beat", onBeat);
    opened.addEventListener("trouble", (event) => (why.textContent = JSON.parse(event.data).message));
    opened.onerror = () => {
      if (!body.classList.contains("is-stale")) say("reconnecting");
      // A browser gives up when the server answers with an error. It may come back.
      if (opened.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
    };
  };

  // A browser opens six connections to a server, for all of its tabs. A tab that is not seen leaves
  // them to the others, and listens for one beat now and then.
  document.addEventListener("visibilitychange", () => (document.hidden ? source.close() : listen()));

  setInterval(() => {
    if (performance.now() - lastBeat > STALE_SECONDS * 1000) {
      say("stale");
      setStale(true);
    }
    const isLeft = document.hidden && source.readyState === EventSource.CLOSED;
    if (isLeft && performance.now() - lastBeat > HIDDEN_SECONDS * 1000) listen();
  }, 500);

  const rows = () => [...document.querySelectorAll("[data-row]")];
  const move = (by) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.classList.contains("current"));
    const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
    all.forEach((row) => row.classList.toggle("current", row === next));
    next.querySelector("[data-open]")?.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    u: () => {
      localTime = !localTime;
      localStorage.setItem("nottwice-local", localTime ? "yes" : "no");
      showTimes();
    },
  };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const link = /^[a-z]$/.test(event.key) && document.querySelector(`[data-key="${event.key}"]`);
    if (keys[event.key]) keys[event.key]();
    else if (link) location.assign(link.href);
  });

  // One form is sent once by a click. The server knows a repeated one anyway.
  document.addEventListener("submit", (event) => {
    if (event.target.dataset.sent) return event.preventDefault();
    if (event.target.method === "post") event.target.dataset.sent = "yes";
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.querySelectorAll("form")) delete form.dataset.sent;
  });

  showTimes();
  listen();
})();
