// Draws what /events says. Reads only; what comes from a job is text, never markup.

const MOST_ROWS = 40;
const MOST_PLACES = 16;
const MODES = {
  exposed: { title: "exposed", text: percent },
  hidden: { title: "hidden", text: percent },
  late: { title: "late", text: (value) => `${seconds(value)} a second` },
};
const $ = (id) => document.getElementById(id);
let view = null;
let mode = "exposed";
let chosen = "";
let layout = null;

function percent(part) {
  return `${(100 * part).toFixed(part > 0 && part < 0.0995 ? 1 : 0)}%`;
}

function three(value) {
  return value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (count >= 1024 && at + 1 < units.length) {
    count /= 1024;
    at += 1;
  }
  return at === 0 ? `${Math.round(count)} B` : `${three(count)} ${units[at]}`;
}

function seconds(time) {
  for (const [size, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
    if (time >= size) return `${three(time / size)} ${unit}`;
  }
  return time > 0 ? `${Math.round(time * 1e9)} ns` : "0";
}

function count(value) {
  return Math.round(value).toLocaleString("en");
}

function plural(value, word) {
  return `${count(value)} ${word}${value === 1 ? "" : "s"}`;
}

function rate(value) {
  return value >= 10 ? count(value) : value.toFixed(1);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Sizes the canvas for the screen's pixels; gives its context, in units of the page.
function paper(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.round(width * ratio);
  const high = Math.round(height * ratio);
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

// ---------------------------------------------------------------- tables: rows are kept and filled anew

function rows(table, wanted, make, fill) {
  const body = $(table).tBodies[0];
  while (body.rows.length > wanted.length) body.deleteRow(-1);
  while (body.rows.length < wanted.length) {
    const row = body.insertRow();
    make(row);
    [...$(table).tHead.rows[0].cells].forEach((head, at) => row.cells[at].dataset.label = head.textContent);  // narrow
  }
  wanted.forEach((entry, at) => fill(body.rows[at].cells, entry));
}

function cells(...kinds) {
  return (row) => {
    for (const kind of kinds) {
      const cell = row.insertCell();
      if (kind === "bar") {
        const bar = cell.appendChild(document.createElement("span"));
        bar.className = "bar";
        bar.appendChild(document.createElement("i")).className = "second";
        bar.appendChild(document.createElement("i")).className = "first";
      } else if (kind) {
        cell.className = kind;
      }
    }
  };
}

function setBar(cell, first, second) {
  const [behind, before] = cell.firstChild.children;
  before.style.transform = `scaleX(${Math.min(1, first)})`;
  behind.style.transform = `scaleX(${Math.min(1, first + second)})`;
}

function more(id, all, most, what) {
  put($(id), all > most ? `and ${count(all - most)} more ${what}` : "");
}

function showCalls(job) {
  const make = cells("name", "name", "n", "n", "n", "n", "bar", "n", "n", "", "why");
  rows("calls", job.calls.slice(0, MOST_ROWS), make, (to, call) => {
    put(to[0], call.call);
    put(to[1], !call.named || !call.size ? call.communicator : `${call.communicator}, ${count(call.size)}`);
    to[1].title = call.id;
    put(to[2], rate(call.calls_per_second));
    put(to[3], count(call.calls));
    put(to[4], percent(call.offloaded / Math.max(call.calls, 1)));
    const least = bytes(call.least_bytes);
    const most = bytes(call.most_bytes);
    put(to[5], call.most_bytes === 0 ? "-" : least === most ? most : `${least} - ${most}`);
    setBar(to[6], call.exposed, call.hidden);
    put(to[7], percent(call.exposed));
    put(to[8], percent(call.hidden));
    put(to[9], call.latest_rank < 0 ? "-" : `rank ${call.latest_rank}, ${seconds(call.latest_mean_seconds)}`);
    const reasons = Object.entries(call.native).map(([reason, calls]) => `${count(calls)} ${reason}`);
    const why = [...(call.by_ranks ? [`by ranks ${count(call.by_ranks)}`] : []), ...reasons].join(", ");
    put(to[10], why || "-");
    to[10].title = why;
  });
  more("calls-more", job.calls.length, MOST_ROWS, "rows");
}

function remarks(service) {
  const words = [];
  if (service.restarts) words.push(`replaced ${service.restarts} times`);
  if (service.other_job) words.push("another job has the core, too");
  else if (!service.core_is_free && service.cpu >= 0) words.push("ranks use the core, too");
  if (service.warning) words.push("offloads nothing any more");
  return words.join("; ") || "-";
}

function showServices(job) {
  const all = job.services;
  const shown = all.length <= MOST_PLACES ? all : [...all].sort((a, b) => b.waited - a.waited || b.ran - a.ran);
  rows("services", shown.slice(0, MOST_PLACES), cells("", "n", "bar", "n", "n", "why"), (to, service) => {
    put(to[0], `${service.number} on node ${service.node}`);
    put(to[1], service.cpu < 0 ? "any" : String(service.cpu));
    setBar(to[2], service.ran, service.waited);
    put(to[3], percent(service.ran));
    put(to[4], percent(service.waited));
    put(to[5], remarks(service));
  });
  more("services-more", job.services.length, MOST_PLACES, "service processes, less busy");
}

function showBetween(between) {
  $("between-part").hidden = between.links.length === 0;
  rows("between", between.links.slice(0, MOST_PLACES), cells("name", "name", "n", "n"), (to, link) => {
    put(to[0], `${link.source} ${link.source_host}`);
    put(to[1], `${link.target} ${link.target_host}`);
    put(to[2], bytes(link.bytes_per_second));
    put(to[3], bytes(link.bytes));
  });
  const left = between.links.slice(MOST_PLACES);
  const others = left.length + between.other_links;
  const rest = left.reduce((sum, link) => sum + link.bytes_per_second, between.other_bytes_per_second);
  put($("between-more"), others ? `and ${count(others)} others, together ${bytes(rest)}/s` : "");
}

function showDpus(dpus) {
  $("dpus-part").hidden = dpus.length === 0;
  const busiest = [...dpus].sort((a, b) => b.read_bytes_per_second + b.written_bytes_per_second - a.read_bytes_per_second - a.written_bytes_per_second || a.node - b.node);
  rows("dpus", busiest.slice(0, MOST_PLACES), cells("name", "n", "n", "n", "n"), (to, dpu) => {
    put(to[0], `${dpu.name} of node ${dpu.node}`);
    put(to[1], bytes(dpu.read_bytes_per_second));
    put(to[2], bytes(dpu.written_bytes_per_second));
    put(to[3], bytes(dpu.read_bytes));
    put(to[4], bytes(dpu.written_bytes));
  });
  more("dpus-more", dpus.length, MOST_PLACES, "DPUs, less busy");
}

function showPlaces(job) {
  rows("links", job.links, cells("", "n", "n", "why"), (to, link) => {
    put(to[0], link.reach);
    put(to[1], bytes(link.bytes_per_second));
    put(to[2], bytes(link.bytes));
    put(to[3], link.transports || "-");
  });
  showBetween(job.between_nodes);
  showDpus(job.dpus);
  rows("nodes", job.nodes.slice(0, MOST_PLACES), cells("", "name", "n", ""), (to, node) => {
    put(to[0], String(node.node));
    put(to[1], node.host);
    put(to[2], String(node.ranks));
    put(to[3], node.late_by_seconds < 0.5 ? "now" : `${node.late_by_seconds.toFixed(0)} s ago`);
  });
  more("nodes-more", job.nodes.length, MOST_PLACES, "nodes");
}

// ---------------------------------------------------------------- tiles: a value, and its last minutes

const TILES = [
  ["exposed", "in collectives", (job) => percent(job.exposed), (job) => job.history.exposed, "exposed"],
  ["hidden", "behind computation", (job) => percent(job.hidden), (job) => job.history.hidden, "hidden"],
  ["calls", "a second", (job) => rate(job.calls_per_second), (job) => job.history.calls_per_second, "rate"],
  ["bytes", "a second", (job) => bytes(job.bytes_per_second), (job) => job.history.bytes_per_second, "rate"],
];

function makeTiles() {
  for (const [name, what] of TILES) {
    const tile = $("tiles").appendChild(document.createElement("div"));
    tile.className = "tile";
    tile.appendChild(document.createElement("span")).textContent = `${name}, ${what}`;
    tile.appendChild(document.createElement("b"));
    const canvas = tile.appendChild(document.createElement("canvas"));
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${name} in the last minutes`);
  }
}

function line(canvas, values, ago, tint) {
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const context = paper(canvas, width, height);
  const top = 1.15 * Math.max(...values, 1e-9);
  const span = Math.max(60, ago[0] || 0);
  const x = (at) => width - 1 - (ago[at] / span) * (width - 2);
  const y = (value) => height - 2 - (Math.min(value, top) / top) * (height - 4);
  context.strokeStyle = colour("line");
  context.beginPath();
  context.moveTo(0, height - 1.5);
  context.lineTo(width, height - 1.5);
  context.stroke();
  context.strokeStyle = tint;
  context.lineWidth = 2;
  context.lineJoin = "round";
  context.beginPath();
  values.forEach((value, at) => context.lineTo(x(at), y(value)));
  context.stroke();
}

function showTiles(job) {
  TILES.forEach(([, , text, values, tint], at) => {
    const [, value, canvas] = $("tiles").children[at].children;
    put(value, text(job));
    line(canvas, values(job), job.history.seconds_ago, colour(tint));
  });
}

// ---------------------------------------------------------------- ranks: a cell each, on a canvas

function mixed(low, high, steps) {
  const part = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const [from, to] = [part(low), part(high)];
  return Array.from({ length: steps }, (_, step) => {
    const [r, g, b] = from.map((value, at) => Math.round(value + ((to[at] - value) * step) / (steps - 1)));
    return `rgb(${r}, ${g}, ${b})`;
  });
}

const STEPS = 32;

function showRanks(job) {
  const canvas = $("ranks");
  const values = job.ranks[mode];
  const width = canvas.parentElement.clientWidth;
  const cell = Math.max(5, Math.min(22, Math.floor(Math.sqrt((width * 170) / Math.max(values.length, 1)))));
  const columns = Math.max(1, Math.floor(width / cell));
  const height = Math.max(cell, Math.ceil(values.length / columns) * cell);
  if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
  const context = paper(canvas, width, height);
  const highest = values.reduce((most, value) => Math.max(most, value), 0);
  const top = highest || 1;
  const tints = mixed(colour("low"), colour("high"), STEPS);
  const gap = cell > 7 ? 2 : 1;
  values.forEach((value, at) => {
    context.fillStyle = tints[Math.min(STEPS - 1, Math.max(0, Math.round((value / top) * (STEPS - 1))))];
    context.fillRect((at % columns) * cell, Math.floor(at / columns) * cell, cell - gap, cell - gap);
  });
  layout = { cell, columns, job };
  showScale(tints, top);
  canvas.setAttribute("aria-label", `${MODES[mode].title} time of ${values.length} ranks; ${words(job)}`);
  put($("ranks-words"), words(job));
}

function showScale(tints, top) {
  const context = paper($("scale"), 120, 10);
  tints.forEach((tint, at) => {
    context.fillStyle = tint;
    context.fillRect((at * 120) / STEPS, 0, 120 / STEPS + 1, 10);
  });
  put($("low"), "0");
  put($("high"), MODES[mode].text(top));
}

function mostOf(values) {
  return values.reduce((most, value, at) => (value > values[most] ? at : most), 0);
}

function words(job) {
  const ranks = job.ranks;
  if (ranks.rank.length === 0) return "No rank counts yet.";
  const most = mostOf(ranks.exposed);
  const late = mostOf(ranks.late);
  const last = ranks.late[late] > 0 ? ` Rank ${ranks.rank[late]} is the latest: ${seconds(ranks.late[late])} per second behind the first, in all its calls.` : "";
  return `Rank ${ranks.rank[most]} spends most in collectives, ${percent(ranks.exposed[most])}.${last}`;
}

function point(event) {
  const tip = $("tip");
  tip.hidden = true;
  if (layout === null) return;
  const { cell, columns, job } = layout;
  const ranks = job.ranks;
  const column = Math.floor(event.offsetX / cell);
  const at = Math.floor(event.offsetY / cell) * columns + column;
  if (column >= columns || at >= ranks.rank.length) return;
  tip.textContent =
    `rank ${ranks.rank[at]} on node ${ranks.node[at]}\nexposed ${percent(ranks.exposed[at])}\nhidden ${percent(ranks.hidden[at])}` +
    `\nlate ${seconds(ranks.late[at])} a second\n${rate(ranks.calls_per_second[at])} calls/s`;
  tip.hidden = false;
  const right = event.offsetX + tip.offsetWidth + 16 > $("ranks").clientWidth;
  tip.style.left = `${right ? event.offsetX - tip.offsetWidth - 12 : event.offsetX + 12}px`;
  tip.style.top = `${event.offsetY + 12}px`;
}

function makeModes() {
  for (const [name, { title }] of Object.entries(MODES)) {
    const button = $("modes").appendChild(document.createElement("button"));
    button.type = "button";
    button.textContent = title;
    button.dataset.mode = name;
    button.addEventListener("click", () => {
      mode = name;
      show();
    });
  }
}

// ---------------------------------------------------------------- all of it

function showJobs() {
  const select = $("job");
  const names = view.jobs.map((job) => job.job);
  if (!names.includes(chosen)) chosen = names[0] || "";
  const there = [...select.options].map((option) => option.value);
  if (there.join("\n") !== names.join("\n")) select.replaceChildren(...names.map((name) => new Option(name, name)));
  select.value = chosen;
}

function showNotes(job) {
  const notes = [...view.problems, ...(job ? job.warnings : [])];
  if (job && job.rows_left_out) notes.push(`${count(job.rows_left_out)} rows are left out: too many communicators.`);
  if (view.refused) notes.push(`Jobs of other users on this machine: ${count(view.refused)}. Only these users and root can see their data.`);
  const list = $("notes");
  if ([...list.children].map((item) => item.textContent).join("\n") === notes.join("\n")) return;
  list.replaceChildren(...notes.map((note) => Object.assign(document.createElement("li"), { textContent: note })));
}

function show() {
  if (view === null) return;
  showJobs();
  const job = view.jobs.find((one) => one.job === chosen);
  showNotes(job);
  $("main").hidden = !job && view.problems.length === 0 && !view.refused;
  $("empty").hidden = Boolean(job);
  for (const part of document.querySelectorAll(".tiles, .card")) part.hidden = !job;
  put($("about"), job ? `${plural(job.world, "rank")}, ${plural(job.nodes_of_job, "node")}, ${job.mpi}, ${seconds(job.run_seconds)}` : "");
  for (const button of $("modes").children) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  if (!job) return;
  showTiles(job);
  showRanks(job);
  showCalls(job);
  showServices(job);
  showPlaces(job);
}

// What an update costs is to be seen in the browser's own profile.
function update(event) {
  performance.mark("update-begins");
  view = JSON.parse(event.data);
  show();
  performance.measure("update", "update-begins");
  if (performance.getEntriesByName("update").length > 600) performance.clearMeasures("update");
  performance.clearMarks("update-begins");
}

function state(name, text) {
  $("state").className = name;
  put($("state"), text);
}

function connect() {
  const events = new EventSource("events");
  events.addEventListener("open", () => state("live", "live"));
  events.addEventListener("error", () => state("lost", events.readyState === EventSource.CLOSED ? "ended" : "connection lost"));
  events.addEventListener("message", update);
}

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");

function setTheme() {
  const kept = localStorage.getItem("outrigger-theme");
  document.documentElement.dataset.theme = kept || (prefersDark.matches ? "dark" : "light");
  show();
}

$("theme").addEventListener("click", () => {
  localStorage.setItem("outrigger-theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  setTheme();
});
prefersDark.addEventListener("change", setTheme);
$("job").addEventListener("change", (event) => {
  chosen = event.target.value;
  show();
});
$("ranks").addEventListener("mousemove", point);
$("ranks").addEventListener("mouseleave", () => {
  $("tip").hidden = true;
});
window.addEventListener("resize", () => requestAnimationFrame(show));
makeTiles();
makeModes();
setTheme();
connect();
